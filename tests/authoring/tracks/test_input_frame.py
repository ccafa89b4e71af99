from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from reactor_runtime import InputFrame

PIXELS = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
VALUES = 7, b"left", 1_700_000_000_000_000


def frame(pixels: Any = PIXELS) -> InputFrame[np.uint8]:
    return InputFrame(pixels.copy(), *VALUES)


def values(array: Any) -> tuple[int | None, bytes | None, int | None]:
    return array.pts, array.metadata, array.capture_time_us


def test_a_frame_is_an_array_with_what_its_client_sent() -> None:
    made = InputFrame(PIXELS, pts=1, metadata=b"x", capture_time_us=2)
    assert values(made) == (1, b"x", 2)
    assert values(InputFrame(PIXELS)) == (None, None, None)
    assert isinstance(made, np.ndarray)
    assert np.array_equal(made, PIXELS)


def test_data_is_the_plain_array_of_the_same_memory() -> None:
    made = frame()
    assert type(made.data) is np.ndarray
    made.data[0, 0] = 99
    assert made[0, 0, 0] == 99
    assert bytes(made.data) == made.tobytes()


@pytest.mark.parametrize(
    "compute",
    [
        lambda f: f + 1,
        lambda f: 255 - f,
        lambda f: f[1:] * 0.5,
        lambda f: f == 3,
        lambda f: f < 3,
        lambda f: f.sum(axis=0),
        lambda f: f.clip(0, 9),
        lambda f: f.astype(np.float32) / 255,
        lambda f: f @ np.ones((3, 2)),
        lambda f: np.stack([f, f]),
        lambda f: np.concatenate([f, f[:1]]),
        lambda f: np.where(f > 3, f, 0),
        np.asarray,
        np.ascontiguousarray,
        np.array,
    ],
)
def test_results_are_plain_arrays(compute: Callable[[Any], Any]) -> None:
    assert type(compute(frame())) is np.ndarray
    assert np.array_equal(compute(frame()), compute(PIXELS))


@pytest.mark.parametrize(
    "reduce", [np.mean, np.sum, np.max, np.argmax, np.any, lambda f: f.std(), lambda f: f[0, 0, 0]]
)
def test_reductions_are_scalars(reduce: Callable[[Any], Any]) -> None:
    assert isinstance(reduce(frame()), np.generic)
    assert reduce(frame()) == reduce(PIXELS)


@pytest.mark.parametrize(
    "derive",
    [lambda f: f[1:, ::2], lambda f: f.copy(), lambda f: f.transpose(2, 0, 1), copy.copy, copy.deepcopy],
    ids=["slice", "copy()", "transpose", "copy", "deepcopy"],
)
def test_slices_and_copies_keep_the_values(derive: Callable[[Any], Any]) -> None:
    assert values(derive(frame())) == VALUES


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_frame_is_pickled_with_its_values(protocol: int) -> None:
    loaded = pickle.loads(pickle.dumps(frame(), protocol))
    assert values(loaded) == VALUES
    assert np.array_equal(loaded, PIXELS)


def test_pixels_are_pickled_out_of_band() -> None:
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(frame(), 5, buffer_callback=buffers.append)
    assert len(buffers) == 1
    assert values(pickle.loads(pickled, buffers=buffers)) == VALUES


def test_an_assignment_in_place_keeps_the_frame() -> None:
    made = before = frame()
    made += 1
    assert made is before
    assert np.add(made, 1, out=made) is made
    assert np.array_equal(made, PIXELS + 2)


def test_frames_compare_their_elements() -> None:
    """A program for arrays looks for what has changed since the frame before."""
    first, second = frame(), frame()
    second[0, 0, 0] += 1
    assert (first == second).sum() == 23
    assert (first != second)[0, 0].tolist() == [True, False, False]
    assert not (first == second).all()
    assert (first == frame()).all()
    assert type((first == second) & (first == 3)) is np.ndarray


def test_one_answer_is_that_of_identity() -> None:
    """A program for frames that are objects keeps them in lists, sets and dicts."""
    first, second, smaller = frame(), frame(), frame(PIXELS[:1])
    waiting = [smaller, first, second]
    assert first == first
    assert not first == second  # noqa: SIM201
    assert first != second
    assert waiting.index(second) == 2
    assert second in waiting
    assert frame() not in waiting
    waiting.remove(second)
    assert [each is first for each in waiting] == [False, True]
    assert {first: 1, second: 2}[second] == 2


def test_a_comparison_with_a_plain_array_has_no_one_answer() -> None:
    with pytest.raises(ValueError, match="ambiguous"):
        bool(frame() == PIXELS)


def test_torch_and_pillow_read_a_frame() -> None:
    torch = pytest.importorskip("torch")
    image = pytest.importorskip("PIL.Image")
    made = frame()
    tensor = torch.from_numpy(made)
    made[0, 0, 0] = 200
    assert tensor[0, 0, 0] == 200
    assert image.fromarray(made).getpixel((0, 0)) == (200, 1, 2)
