"""Tests of the model without a server: PipelineExecutor makes its steps, and its functions are ordinary Python."""

import sys
from pathlib import Path

import numpy as np
import pytest
from reactor_runtime import PipelineExecutor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pipeline import MyModel, MyOutput, render_batch

SMALL = {"width": 96, "height": 64, "chunk_size": 3}


@pytest.fixture
def executor():
    """Return a small model with a client."""
    with PipelineExecutor(MyModel, config=SMALL) as executor:
        executor.connect()
        yield executor


def frame(**changes):
    """Return a small frame, drawn with the defaults except for `changes`."""
    batch, _ = render_batch(96, 64, 1, 30, **{"brightness": 1.0, **changes})
    return batch[0]


def test_load_has_defaults_for_every_value():
    model = MyModel()
    model.load({})
    assert (model.width, model.height, model.chunk_size) == (640, 480, 4)


def test_every_step_yields_a_batch_of_rgb_frames(executor):
    output = next(executor).output
    assert isinstance(output, MyOutput)
    assert output.main_video.shape == (3, 64, 96, 3)
    assert output.main_video.dtype == np.uint8


def test_every_frame_is_another_one(executor):
    first, second = next(executor).output.main_video, next(executor).output.main_video
    frames = [*first, *second]
    assert not any(np.array_equal(before, after) for before, after in zip(frames, frames[1:], strict=False))


def test_an_event_changes_the_next_step(executor):
    before = next(executor).output.main_video
    executor.send_event("set_brightness", brightness=0.0)
    after = next(executor).output.main_video
    assert before.mean() > 20
    assert after.max() == 0


def test_more_brightness_makes_brighter_frames():
    assert frame(brightness=0.5).mean() < frame(brightness=1.0).mean() < frame(brightness=2.0).mean()


def test_a_click_on_the_video_makes_a_ripple_from_the_next_frame_on(executor):
    next(executor)
    # Tap() sends the place of the click, from 0 to 1.
    executor.send_event("splash", x=0.25, y=0.75)
    calm, _ = render_batch(96, 64, 3, 3, 1.0)
    changed = np.abs(next(executor).output.main_video[-1].astype(int) - calm[-1]).sum(axis=2)
    y, x = np.unravel_index(changed.argmax(), changed.shape)
    assert (x, y) == (pytest.approx(0.25 * 96, abs=12), pytest.approx(0.75 * 64, abs=12))


def test_a_ripple_fades():
    assert np.abs(frame(pebbles=((0.5, 0.5, 30 - 300),)).astype(int) - frame()).max() <= 1


@pytest.mark.parametrize("size", [(1, 1), (16, 900), (900, 16)])
def test_frames_have_any_size(size):
    width, height = size
    batch, next_idx = render_batch(width, height, 2, 30, 1.0)
    assert batch.shape == (2, height, width, 3)
    assert batch.max() > 0
    assert next_idx == 32
