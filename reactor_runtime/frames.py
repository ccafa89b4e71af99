"""`to_frames`: converts the tensors that models compute to frames."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.media.layouts import LAYOUTS, Layout, channels_last, layout_error, suggested_call
from reactor_runtime.media.levels import levels, levels_on_device
from reactor_runtime.media.tensors import to_host, torch_of

__all__ = ["Layout", "to_frames"]

FLOATS = ("float16", "bfloat16", "float32", "float64")

# How many values of each axis are read for a warning, at least; images overshoot their range a little.
_SAMPLED = 16
_MARGIN = 0.25
_MOST_OUTSIDE = 0.1
_OVERFLOW = "float16 overflows above 65504, bfloat16 and float32 do not"

# The ranges that float32 can scale.
_NARROWEST, _WIDEST = 1e-30, 1e30


def to_frames(
    tensor: object,
    layout: Layout = "BCTHW",
    value_range: tuple[float, float] = (-1, 1),
    *,
    out: NDArray[np.uint8] | None = None,
) -> NDArray[np.uint8]:
    """Convert images to frames: uint8 RGB, `(T, H, W, 3)`, or `(H, W, 3)` for a layout without T.

    Accepts torch tensors and NumPy arrays. Floats are converted on the tensor's device, in float32: values outside
    `value_range` are clipped, NaN becomes its low end, others are rounded to 0 to 255, halves to even. uint8 stays
    unchanged, whatever the range. One channel becomes gray.
    The result does not share memory with the input, and the tensor's device has finished when it is returned. It is
    `out`, if that is given, as from `self.output.empty()`.
    Values that are NaN, or far outside of the range, give a `UserWarning`, once for each line that calls this; about
    10,000 values of each call are read for it.
    Raises `TypeError` for another type or dtype and `ValueError` for another shape; both name the fix.
    """
    low, high = _checked_range(value_range)
    torch = torch_of(tensor)
    if torch is None and not isinstance(tensor, np.ndarray):
        raise TypeError(f"to_frames: got {type(tensor).__name__}; pass a torch tensor or a NumPy array")
    images: Any = tensor
    _check(images, layout, value_range)
    if layout.startswith("B"):
        images = images[0]
    if "uint8" not in str(images.dtype):
        _warn_of_values(images if torch is None else images.detach(), low, high)
    axes = channels_last(layout)
    images = images.transpose(axes) if torch is None else images.detach().permute(axes)
    if out is not None:
        _check_out(out, (*images.shape[:-1], 3))
    if torch is None:
        return levels(images, low, high, out)
    if images.device.type != "cpu":
        frames = to_host(torch, levels_on_device(torch, images, low, high))
        if out is None:
            return frames
        # From pinned memory, which a copy from a device to any other would use too.
        np.copyto(out, frames)
        return out
    if images.dtype == torch.bfloat16:
        images = images.view(torch.uint16)
    # NumPy on one thread is as fast as torch on two, and does not wait for threads of a machine that is busy encoding.
    return levels(to_host(torch, images), low, high, out)


def _check_out(out: object, shape: tuple[int, ...]) -> None:
    if not isinstance(out, np.ndarray) or out.dtype != np.uint8:
        got = out.dtype if isinstance(out, np.ndarray) else type(out).__name__
        raise TypeError(f"to_frames: out is {got}; give a NumPy array of uint8, as self.output.empty({shape})")
    if out.shape != shape:
        raise ValueError(f"to_frames: out is {out.shape}; the frames are {shape}: give self.output.empty({shape})")


def _warn_of_values(images: Any, low: float, high: float) -> None:
    """Warn of a sample of values that are NaN or clipped; the texts are constant, so that each is shown once a line."""
    torch = torch_of(images)
    sample = images[tuple(slice(None, None, max(1, size // _SAMPLED)) for size in images.shape)]
    values = (sample if torch is None else to_host(torch, sample.float())).astype(np.float32)
    if not values.size:
        return
    margin = _MARGIN * (high - low)
    with np.errstate(invalid="ignore"):
        outside = np.count_nonzero((values < low - margin) | (values > high + margin))
    if np.isnan(values).any():
        warnings.warn(
            f"to_frames: values are NaN, and become black: look for what computes the first NaN; {_OVERFLOW}",
            stacklevel=3,
        )
    elif outside > _MOST_OUTSIDE * values.size:
        warnings.warn(
            f"to_frames: values are far outside of value_range={(low, high)}, and are clipped: give the range of the "
            "model's output",
            stacklevel=3,
        )


def _checked_range(value_range: tuple[float, float]) -> tuple[float, float]:
    low, high = value_range
    # A NaN is not in between either.
    if not _NARROWEST < high - low < _WIDEST:
        raise ValueError(f"to_frames: value_range is {value_range}; give (low, high), as (-1, 1), (0, 1) or (0, 255)")
    return float(low), float(high)


def _check(images: Any, layout: Layout, value_range: tuple[float, float]) -> None:
    if layout not in LAYOUTS:
        raise ValueError(f"to_frames: there is no layout {layout!r}; take one of {', '.join(LAYOUTS)}")
    shape = tuple(images.shape)
    dtype = str(images.dtype).removeprefix("torch.")
    if dtype not in (*FLOATS, "uint8"):
        raise TypeError(
            f"to_frames: got {images.dtype} {shape}; pass {', '.join(FLOATS)} or uint8: "
            "make whole numbers from 0 to 255 uint8, anything else float32"
        )
    wrong = layout_error(shape, layout)
    if wrong is not None:
        call = suggested_call(shape, None if value_range == (-1, 1) else value_range)
        raise ValueError(f"to_frames: got {dtype} {shape}; {wrong}" + (f": use {call}" if call is not None else ""))
