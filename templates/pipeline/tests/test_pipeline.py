"""Tests of the model without a server: PipelineExecutor makes its steps, and its functions are ordinary Python."""

import sys
from pathlib import Path

import numpy as np
import pytest
from reactor_runtime import PipelineExecutor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from picture import PALETTES, Splash
from pipeline import MyModel, MyOutput, MyState, render_batch

SMALL = {"width": 96, "height": 64, "chunk_size": 3}


@pytest.fixture
def model():
    """Return a loaded model with the state of a session; its frames are small, so that tests are fast."""
    model = MyModel()
    model.load(SMALL)
    model.state = MyState()
    return model


def frame(**changes):
    """Return a small frame, drawn with the defaults except for `changes`."""
    settings = {"brightness": 1.0, "palette": "aurora", "caption": "", "splashes": (), **changes}
    batch, _ = render_batch(96, 64, 1, 30, **settings)
    return batch[0]


def test_load_has_defaults_for_every_value():
    model = MyModel()
    model.load({})
    assert (model.width, model.height, model.chunk_size) == (640, 480, 4)


@pytest.mark.parametrize("value", [0, -3, 8.5, "wide", True, None, 5000])
@pytest.mark.parametrize("key", ["width", "height", "chunk_size"])
def test_load_names_an_invalid_value_and_its_range(key, value):
    with pytest.raises(ValueError, match=f"{key} in config.yml is {value!r}; write a whole number from"):
        MyModel().load({key: value})


@pytest.mark.parametrize("size", [(16, 16), (16, 900), (900, 16)])
def test_the_smallest_frames_can_be_drawn(size):
    width, height = size
    batch, _ = render_batch(width, height, 1, 30, 1.0, caption="24 characters, the most!")
    assert batch.shape == (1, height, width, 3)
    assert batch.max() > 0


def test_every_step_yields_a_batch_of_rgb_frames():
    with PipelineExecutor(MyModel, config=SMALL) as ex:
        ex.connect()
        output = next(ex).output
    assert isinstance(output, MyOutput)
    assert output.main_video.shape == (3, 64, 96, 3)
    assert output.main_video.dtype == np.uint8


def test_frames_differ(model):
    steps = model.inference()
    first, second = next(steps).main_video, next(steps).main_video
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first, second)


def test_an_event_changes_the_next_step():
    with PipelineExecutor(MyModel, config=SMALL) as ex:
        ex.connect()
        before = next(ex).output.main_video
        ex.send_event("set_brightness", brightness=0.0)
        after = next(ex).output.main_video
    assert before.mean() > 20
    assert after.max() == 0


def test_more_brightness_makes_brighter_frames():
    assert frame(brightness=0.5).mean() < frame(brightness=1.0).mean() < frame(brightness=2.0).mean()


@pytest.mark.parametrize("palette", [name for name in PALETTES if name != "aurora"])
def test_every_palette_looks_different(palette):
    assert not np.array_equal(frame(palette=palette), frame())


@pytest.mark.parametrize("caption", ["hello", "?!", "24 characters, the most!"])
def test_a_caption_is_drawn(caption):
    assert not np.array_equal(frame(caption=caption), frame())


@pytest.mark.parametrize("caption", ["", " ", "日本"])
def test_a_character_that_the_font_lacks_is_a_space(caption):
    assert np.array_equal(frame(caption=caption), frame())


def test_a_splash_is_drawn_from_the_next_frame_on(model):
    steps = model.inference()
    next(steps)
    model.splash(x=0.25, y=0.75)
    assert model.state._splashes == (Splash(0.25, 0.75, 3),)
    calm, _ = render_batch(96, 64, 3, 3, 1.0, caption="hello")
    assert not np.array_equal(next(steps).main_video, calm)


def test_a_click_on_the_frame_makes_a_splash_there():
    with PipelineExecutor(MyModel, config=SMALL) as ex:
        ex.connect()
        # Tap() sends the place of the click, from 0 to 1.
        ex.send_event("splash", x=0.2, y=0.4)
        (splash,) = ex.state._splashes
    assert (splash.x, splash.y) == (0.2, 0.4)


def test_a_splash_fades():
    assert np.array_equal(frame(splashes=(Splash(0.5, 0.5, 30 - 4 * 60),)), frame())
