"""Tests of the model without a server: PipelineExecutor makes its steps, and the stand-in is ordinary Python."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from reactor_runtime import CommandError, PipelineExecutor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pipeline import MyModel, toward
from standin import COLOURS, WORDS, StandIn, embed, palette

SMALL = {"width": 96, "height": 64, "chunk_size": 2}


@pytest.fixture
def ex():
    """Return a session in which a new prompt shows at once."""
    with PipelineExecutor(MyModel, config=SMALL) as ex:
        ex.connect()
        ex.send_event("set_blend", blend=0)
        yield ex


@pytest.fixture
def model():
    return StandIn(96, 64)


def chunk(ex):
    return next(ex).output.main_video


def frame(model, prompt="a lake", idx=0, *, negative="", seed=1, steps=4, **image):
    return model.frames([model.encode(prompt, negative)], idx, seed=seed, steps=steps, **image)[0].astype(int)


def picture(kind="PNG", size=(40, 40)):
    """Return a file of an image, white on the left and black on the right."""
    Image = pytest.importorskip("PIL.Image")
    image = Image.new("RGB", size)
    image.paste((255, 255, 255), (0, 0, size[0] // 2, size[1]))
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def test_every_step_yields_a_chunk_of_frames(ex):
    frames = chunk(ex)
    assert (frames.shape, frames.dtype) == ((2, 64, 96, 3), np.uint8)
    assert not np.array_equal(frames[0], frames[1])
    assert not np.array_equal(chunk(ex), frames)


def test_a_prompt_sets_the_colours(ex):
    ex.send_event("set_prompt", prompt="a red sunset")
    red = chunk(ex).mean(axis=(0, 1, 2))
    ex.send_event("set_prompt", prompt="the blue ocean")
    blue = chunk(ex).mean(axis=(0, 1, 2))
    assert red[0] > red[2]
    assert blue[2] > blue[0]


def test_a_negative_prompt_removes_colours(model):
    with_blue, without_blue = (frame(model, "purple", negative=text).mean(axis=(0, 1)) for text in ("", "blue"))
    assert without_blue[0] - without_blue[2] > with_blue[0] - with_blue[2] + 20


def test_the_same_prompt_and_seed_give_the_same_frames(model):
    assert np.array_equal(frame(model, seed=5), frame(StandIn(96, 64), seed=5))
    assert np.abs(frame(model, seed=5) - frame(model, seed=6)).mean() > 10


def test_more_steps_leave_less_noise(model):
    rough = [np.abs(np.diff(frame(model, "pearl", steps=steps), axis=1)).mean() for steps in (1, 2, 3)]
    assert rough[0] > rough[1] > rough[2]


def test_a_new_prompt_takes_over_gradually(ex):
    ex.send_event("set_prompt", prompt="night")
    dark = chunk(ex).mean()
    ex.send_event("set_blend", blend=1.0)
    ex.send_event("set_prompt", prompt="snow")
    brightness = [chunk(ex).mean() for _ in range(24)]
    assert brightness[0] < dark + 30
    assert brightness[-1] > brightness[0] + 60
    assert np.diff(brightness).min() > -3


def test_the_blend_takes_the_given_number_of_frames():
    shown = np.zeros(1)
    for _ in range(24):
        shown = toward(shown, np.ones(1), 24)
    assert 0.94 < shown[0] < 0.97
    assert toward(0.0, 1.0, 0) == 1.0


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_frames_follow_an_image_by_its_strength(ex, kind):
    ex.send_event("set_image", image=picture(kind))
    ex.send_event("set_strength", strength=0.0)
    near = chunk(ex)[0].astype(int)
    assert near[:, :40].mean() > near[:, 56:].mean() + 100
    ex.send_event("set_strength", strength=1.0)
    far = chunk(ex)
    ex.send_event("set_image", image=None)
    assert np.abs(chunk(ex)[0].astype(int) - far[1]).mean() < np.abs(near - far[1]).mean() / 3


def test_a_wide_image_is_cropped_to_the_frame(model):
    assert model.read_image(io.BytesIO(picture(size=(400, 20)))).shape == (64, 96, 3)


def test_a_file_that_is_no_image_is_refused_and_the_last_image_stays(ex):
    ex.send_event("set_image", image=picture())
    for wrong in (b"", b"hello", picture()[:60]):
        with pytest.raises(CommandError, match="no image"):
            ex.send_event("set_image", image=wrong)
    assert ex.state._image is not None


def test_the_next_client_starts_afresh(ex):
    ex.disconnect()
    ex.connect()
    first = chunk(ex)
    ex.send_event("set_prompt", prompt="fire")
    ex.send_event("set_image", image=picture())
    chunk(ex)
    ex.disconnect()
    ex.connect()
    assert np.array_equal(chunk(ex), first)


@pytest.mark.parametrize("word", [*WORDS, "xylophone", "été", "日本"])
def test_a_palette_goes_from_dark_to_light(word):
    colours = palette(word)
    assert colours.shape == (COLOURS, 3)
    assert 0 <= colours.min() <= colours.max() <= 1
    assert colours[-1].mean() > colours[0].mean() + 0.2


@pytest.mark.parametrize("text", ["", "the", "?!", "a " * 250, "northern lights", "x" * 500])
def test_any_text_has_an_embedding(text):
    assert embed(text).shape == (3 * COLOURS + 3,)
