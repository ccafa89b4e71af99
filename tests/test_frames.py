"""`to_frames`, compared with a reference that follows the letters of the layout."""

from __future__ import annotations

import itertools
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from reactor_runtime.frames import Layout, to_frames
from reactor_runtime.media.frames import check_video
from tests.torched import DEVICES, FLOATS, torch

LAYOUTS: tuple[Layout, ...] = get_args(Layout)
RANGES = [(-1, 1), (0, 1), (0, 255)]
# The tests of the values use those that are warned of.
pytestmark = pytest.mark.filterwarnings("ignore:to_frames:UserWarning")
SIZES = {"B": 1, "C": 3, "T": 2, "H": 5, "W": 7}
ODD = [np.nan, np.inf, -np.inf, -0.0, 1e-40, 1e30, -1e30]


def shape_of(layout: Layout, **sizes: int) -> tuple[int, ...]:
    return tuple({**SIZES, **sizes}[letter] for letter in layout)


def reference(values: NDArray[Any], layout: Layout, value_range: tuple[float, float]) -> NDArray[np.uint8]:
    """Convert in NumPy, of values as the dtype has them: float32, NaN low, clamped, half to even."""
    last = np.einsum(f"{layout}->{'T' * ('T' in layout)}HWC", values)
    low, high = (np.float32(end) for end in value_range)
    with np.errstate(over="ignore"):
        last = last.astype(np.float32)
    clamped = np.where(np.isnan(last), low, last).clip(low, high)
    scaled = (
        clamped if value_range == (0, 255) else (clamped - low) * np.float32(255 / (value_range[1] - value_range[0]))
    )
    frames: NDArray[np.uint8] = np.rint(scaled).astype(np.uint8)
    return np.repeat(frames, 3, axis=-1) if frames.shape[-1] == 1 else frames


def random_values(shape: tuple[int, ...], value_range: tuple[float, float]) -> NDArray[np.float64]:
    """Make values a fifth of which are out of range, and some no numbers."""
    source = np.random.default_rng(3)
    low, high = value_range
    values = source.uniform(low - (high - low) / 8, high + (high - low) / 8, shape)
    values.flat[source.integers(0, values.size, len(ODD))] = ODD
    return values


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("value_range", RANGES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_tensors_become_what_the_reference_says(
    layout: Layout, value_range: tuple[int, int], dtype: str, device: str
) -> None:
    tensor = torch.from_numpy(random_values(shape_of(layout), value_range)).to(device, getattr(torch, dtype))
    frames = to_frames(tensor, layout, value_range)
    assert frames.dtype == np.uint8
    assert frames.flags.c_contiguous
    assert np.array_equal(frames, reference(tensor.double().cpu().numpy(), layout, value_range))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("value_range", RANGES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_become_what_the_reference_says(layout: Layout, value_range: tuple[int, int], dtype: str) -> None:
    with np.errstate(over="ignore"):
        array = random_values(shape_of(layout), value_range).astype(dtype)
    assert np.array_equal(to_frames(array, layout, value_range), reference(array, layout, value_range))


@given(data=st.data(), layout=st.sampled_from(LAYOUTS), dtype=st.sampled_from(FLOATS))
def test_any_values_strides_and_range_become_what_the_reference_says(data: Any, layout: Layout, dtype: str) -> None:
    sizes = st.integers(1, 4)
    shape = shape_of(
        layout, C=data.draw(st.sampled_from([1, 3])), T=data.draw(sizes), H=data.draw(sizes), W=data.draw(sizes)
    )
    low = data.draw(st.floats(-300, 300, width=32))
    value_range = data.draw(st.sampled_from([*RANGES, (low, low + data.draw(st.floats(0.5, 600, width=32)))]))
    values = data.draw(arrays.arrays(np.float64, shape, elements=st.floats(-400, 400) | st.sampled_from(ODD)))
    order = data.draw(st.permutations(range(len(shape))))
    tensor = torch.from_numpy(values).to(getattr(torch, dtype))
    strided = tensor.permute(order).contiguous().permute(np.argsort(order).tolist())
    assert strided.shape == tensor.shape
    expected = reference(tensor.double().numpy(), layout, value_range)
    assert np.array_equal(to_frames(strided, layout, value_range), expected)
    assert np.array_equal(to_frames(strided.float().numpy(), layout, value_range), expected)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("value_range", RANGES, ids=str)
def test_every_level_comes_back(value_range: tuple[int, int], dtype: str, device: str) -> None:
    low, high = value_range
    levels = np.arange(256).reshape(1, 16, 16).repeat(3, 0)
    tensor = torch.from_numpy(levels / 255 * (high - low) + low).to(device, getattr(torch, dtype))
    assert np.array_equal(to_frames(tensor, "CHW", value_range), levels.transpose(1, 2, 0))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_uint8_is_taken_as_it_is_and_copied(layout: Layout, device: str) -> None:
    pixels = torch.arange(210, dtype=torch.uint8)[: int(np.prod(shape_of(layout)))].reshape(shape_of(layout)).to(device)
    before = pixels.cpu().numpy().copy()
    expected = np.einsum(f"{layout}->{'T' * ('T' in layout)}HWC", before)
    frames = to_frames(pixels, layout)
    pixels.zero_()
    assert np.array_equal(frames, expected)
    assert np.array_equal(to_frames(before, layout, (0, 1)), expected)
    assert not np.shares_memory(to_frames(before, layout), before)


@pytest.mark.parametrize("device", DEVICES)
def test_the_tensor_stays_as_it_was(device: str) -> None:
    tensor = torch.rand(2, 3, 4, 5, device=device)
    before = tensor.clone()
    to_frames(tensor, "TCHW", (0, 1))
    assert torch.equal(tensor, before)


def views() -> dict[str, Any]:
    base = torch.rand(4, 6, 8, 10, requires_grad=True)
    with torch.inference_mode():
        inferred = torch.rand(2, 3, 4, 5)
    return {
        "of autograd": base[:2, :3] * 1.0,
        "a leaf of autograd": base[:, :3],
        "sliced": base[::2, 1:4, ::3, ::5],
        "flipped": base[:, :3].flip(-1),
        "expanded": base[:1, :1].expand(3, 3, 8, 10),
        "made in inference mode": inferred,
        "channels last in memory": base[:, :3].contiguous(memory_format=torch.channels_last),
    }


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("view", views())
def test_any_kind_of_tensor_is_taken(view: str, device: str) -> None:
    tensor = views()[view].to(device)
    expected = reference(tensor.detach().cpu().numpy(), "TCHW", (0, 1))
    assert np.array_equal(to_frames(tensor, "TCHW", (0, 1)), expected)


def test_the_defaults_of_torch_make_no_difference() -> None:
    tensor = torch.rand(3, 4, 5)
    expected = to_frames(tensor, "CHW", (0.1, 0.7))
    torch.set_default_dtype(torch.float16)
    try:
        with torch.device("meta"):
            assert np.array_equal(to_frames(tensor, "CHW", (0.1, 0.7)), expected)
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("make", [torch.zeros, np.zeros], ids=["tensor", "array"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_channel_is_shown_gray(layout: Layout, make: Any) -> None:
    pictures = make(shape_of(layout, C=1)) + 0.2
    frames = to_frames(pictures, layout, (0, 1))
    assert frames.shape[-1] == 3
    assert (frames == 51).all()


def test_a_video_of_no_frames_stays_empty() -> None:
    assert to_frames(torch.zeros(1, 3, 0, 4, 5)).shape == (0, 4, 5, 3)
    assert to_frames(np.zeros((1, 3, 0, 4, 5))).shape == (0, 4, 5, 3)


WRONG: dict[str, tuple[tuple[int, ...], Layout, str]] = {
    "batch": (
        (2, 3, 12, 4, 5),
        "BCTHW",
        'in BCTHW that is a batch of 2, and a track shows one video: use to_frames(x[:1], layout="BCTHW")',
    ),
    "alpha": ((4, 8, 9), "CHW", 'these are 4 channels, and a frame has no alpha: use to_frames(x[:3], layout="CHW")'),
    "alpha, last": ((8, 9, 4), "HWC", 'use to_frames(x[:, :, :3], layout="HWC")'),
    "time before channels": ((1, 12, 3, 8, 9), "BCTHW", 'use to_frames(x, layout="BTCHW")'),
    "no batch": ((12, 3, 8, 9), "BCTHW", 'BCTHW has 5 dimensions: use to_frames(x, layout="TCHW")'),
    "no batch, channels before time": ((3, 12, 8, 9), "TCHW", 'use to_frames(x[None], layout="BCTHW")'),
    "channels last": ((8, 9, 3), "CHW", 'use to_frames(x, layout="HWC")'),
    "latents": ((1, 16, 2, 8, 9), "BCTHW", "in BCTHW these are 16 channels, not 3, or 1 for gray"),
    "too many dimensions": ((1, 1, 3, 2, 8, 9), "BCTHW", "BCTHW has 5 dimensions"),
    "no pixels of a batch": ((0, 3, 2, 8, 9), "BCTHW", "a batch of 0"),
}


@pytest.mark.parametrize("make", [torch.zeros, np.zeros], ids=["tensor", "array"])
@pytest.mark.parametrize("name", WRONG)
def test_images_in_another_layout_are_refused_with_the_correct_call(name: str, make: Any) -> None:
    shape, layout, words = WRONG[name]
    with pytest.raises(ValueError, match="to_frames: got float") as raised:
        to_frames(make(shape), layout)
    assert str(shape) in str(raised.value)
    assert str(raised.value).endswith(words) or name == "no pixels of a batch"
    assert words in str(raised.value)


def test_the_call_to_make_keeps_the_range() -> None:
    with pytest.raises(ValueError, match=r'use to_frames\(x, layout="CHW", value_range=\(0, 1\)\)$'):
        to_frames(torch.zeros(3, 4, 5), value_range=(0, 1))


def test_a_layout_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no layout 'NCHW'; take one of BCTHW, BTCHW, TCHW, THWC, CHW, HWC"):
        to_frames(torch.zeros(1, 3, 4, 5), layout="NCHW")  # type: ignore[arg-type]  # the mistake is the test


@pytest.mark.parametrize(
    "value_range", [(1, 0), (1, 1), (0, np.nan), (-np.inf, 0), (-1e308, 1e308), (0, 1e-40)], ids=str
)
def test_a_range_that_cannot_be_scaled_is_refused(value_range: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"value_range is .*; give \(low, high\)"):
        to_frames(torch.zeros(3, 4, 5), "CHW", value_range)


@pytest.mark.parametrize(
    "pictures", [torch.zeros(3, 4, 5, dtype=torch.int64), np.zeros((3, 4, 5), bool), np.zeros((3, 4, 5), complex)]
)
def test_another_dtype_is_refused(pictures: Any) -> None:
    with pytest.raises(TypeError, match=r"to_frames: got .*(int64|bool|complex128) \(3, 4, 5\); pass float16"):
        to_frames(pictures, "CHW")


@pytest.mark.parametrize("value", [None, [[0.5]], "frame"])
def test_what_is_no_array_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match=f"to_frames: got {type(value).__name__}; pass a torch tensor or a NumPy array"):
        to_frames(value)


@pytest.mark.parametrize("make", [torch.ones, np.ones], ids=["tensor", "array"])
@pytest.mark.parametrize("rank", [2, 3, 4, 5])
def test_the_call_an_error_names_makes_frames(rank: int, make: Any) -> None:
    named = 0
    for shape in itertools.product([1, 3, 4, 6], repeat=rank):
        with pytest.raises((TypeError, ValueError)) as raised:
            check_video("video", make(shape))
        _, _, call = str(raised.value).partition("use reactor_runtime.frames.")
        if call:
            named += 1
            frames = eval(call, {"to_frames": to_frames, "x": make(shape)})
            assert check_video("video", frames) is frames
            assert (frames == 255).all()
    assert named >= 4**rank * 3 // 4


def test_a_model_of_arrays_never_imports_torch() -> None:
    program = """
import sys
import numpy as np
from reactor_runtime import InputState, Output, PipelineExecutor, ReactorPipeline, Video
from reactor_runtime.frames import to_frames
import reactor_runtime.server.run

class Picture(Output):
    video: Video

class Model(ReactorPipeline):
    state: InputState
    def inference(self):
        while True:
            yield to_frames(np.zeros((3, 4, 5)), "CHW")
            try:
                yield np.zeros((3, 4, 5))
            except TypeError:
                pass

with PipelineExecutor(Model) as executor:
    executor.connect()
    next(executor), next(executor)
    assert executor.frames
print([name for name in sys.modules if name.partition(".")[0] == "torch"])
"""
    run = [sys.executable, "-W", "error", "-c", program]
    root = Path(__file__).parent.parent
    result = subprocess.run(run, cwd=root, capture_output=True, text=True, check=False)
    assert result.stdout.strip() == "[]", result.stderr


def outcome(values: Any, value_range: tuple[float, float] = (-1, 1)) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        to_frames(values, "HWC", value_range)
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("as_tensor", [False, True], ids=["array", "tensor"])
@pytest.mark.parametrize(
    ("level", "value_range", "words"),
    [
        (np.nan, (-1, 1), "values are NaN"),
        (90.0, (-1, 1), "values are far outside of value_range=(-1.0, 1.0)"),
        (1.2, (0, 1), ""),
        (0.5, (0, 255), ""),
    ],
)
def test_values_that_are_nan_or_far_outside_of_the_range_give_a_warning_at_the_call(
    level: float, value_range: tuple[float, float], words: str, as_tensor: bool
) -> None:
    values: Any = np.full((90, 160, 3), level, np.float32)
    if as_tensor:
        values = pytest.importorskip("torch").from_numpy(values)
    found = outcome(values, value_range)
    assert len(found) == bool(words)
    assert all(words in each for each in found)


def test_a_warning_of_values_is_given_once_for_each_line() -> None:
    values = np.full((90, 160, 3), np.nan, np.float32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            to_frames(values, "HWC")
    assert len(caught) == 1


@pytest.mark.parametrize("device", DEVICES)
def test_frames_are_written_to_out(device: str) -> None:
    out = np.empty((2, 4, 6, 3), np.uint8)
    made = to_frames(torch.rand(1, 3, 2, 4, 6, device=device), value_range=(0, 1), out=out)
    assert made is out
    assert to_frames(out.astype(np.float32), "THWC", (0, 255), out=np.empty_like(out)).tolist() == made.tolist()


def test_an_out_that_does_not_fit_is_refused() -> None:
    images = np.zeros((4, 6, 3), np.float32)
    with pytest.raises(ValueError, match=r"out is \(4, 5, 3\); the frames are \(4, 6, 3\)"):
        to_frames(images, "HWC", out=np.empty((4, 5, 3), np.uint8))
    with pytest.raises(TypeError, match="out is float32; give a NumPy array of uint8"):
        to_frames(images, "HWC", out=images)  # type: ignore[arg-type]
