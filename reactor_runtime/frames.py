"""Frames from what models compute: `to_frames`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.media.layouts import LAYOUTS, Layout, channels_last, conversion, misfit
from reactor_runtime.media.tensors import Tensor, Torch, to_host, torch_of

__all__ = ["Layout", "to_frames"]

FLOATS = ("float16", "bfloat16", "float32", "float64")


def to_frames(
    tensor: object, layout: Layout = "BCTHW", value_range: tuple[float, float] = (-1, 1)
) -> NDArray[np.uint8]:
    """Convert pictures to frames: uint8 RGB, `(T, H, W, 3)`, or `(H, W, 3)` for a layout without T.

    Takes torch tensors and NumPy arrays. Floats are computed on the tensor's device, in float32: those outside
    `value_range` become its nearest end, NaN its low end, and what lies between goes to the nearest of 0 to 255, from
    half way to the even one. uint8 is taken as it is, whatever the range. One channel is shown gray.
    The result is an array of its own, and the tensor's device has finished when it is returned.
    Raises `TypeError` for another type or dtype and `ValueError` for another shape; both name the fix.
    """
    low, high = _checked_range(value_range)
    torch = torch_of(tensor)
    if torch is None and not isinstance(tensor, np.ndarray):
        raise TypeError(f"to_frames: got {type(tensor).__name__}; pass a torch tensor or a NumPy array")
    pictures: Any = tensor
    _check(pictures, layout, value_range)
    if layout.startswith("B"):
        pictures = pictures[0]
    if torch is None:
        return _from_array(pictures.transpose(channels_last(layout)), low, high)
    return _from_tensor(torch, pictures.permute(channels_last(layout)), low, high)


def _checked_range(value_range: tuple[float, float]) -> tuple[float, float]:
    low, high = value_range
    if not (low < high and math.isfinite(high - low)):
        raise ValueError(f"to_frames: value_range is {value_range}; give (low, high), as (-1, 1), (0, 1) or (0, 255)")
    return float(low), float(high)


def _check(pictures: Any, layout: Layout, value_range: tuple[float, float]) -> None:
    if layout not in LAYOUTS:
        raise ValueError(f"to_frames: there is no layout {layout!r}; take one of {', '.join(LAYOUTS)}")
    shape = tuple(pictures.shape)
    dtype = str(pictures.dtype).removeprefix("torch.")
    if dtype not in (*FLOATS, "uint8"):
        raise TypeError(
            f"to_frames: got {pictures.dtype} {shape}; pass {', '.join(FLOATS)} or uint8: "
            "make whole numbers from 0 to 255 uint8, anything else float32"
        )
    wrong = misfit(shape, layout)
    if wrong is not None:
        call = conversion(shape, None if value_range == (-1, 1) else value_range)
        raise ValueError(f"to_frames: got {dtype} {shape}; {wrong}" + (f": use {call}" if call is not None else ""))


def _from_array(pictures: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    """Convert channels-last pictures as `_from_tensor` does, to the same values, one frame after the other."""
    frames = np.empty((*pictures.shape[:-1], 3), np.uint8)
    for frame, picture in zip(_each(frames), _each(pictures), strict=True):
        if picture.dtype != np.uint8:
            with np.errstate(all="ignore"):  # what NaN and infinity become is said
                picture = _scaled(picture.astype(np.float32), low, high)
        np.copyto(frame, picture, casting="unsafe")
    return frames


def _scaled(buffer: NDArray[np.float32], low: float, high: float) -> NDArray[np.float32]:
    np.fmax(buffer, low, out=buffer)  # of a number and NaN it is the number
    np.minimum(buffer, high, out=buffer)
    if (low, high) != (0, 255):
        buffer -= low
        buffer *= 255 / (high - low)
    return np.rint(buffer, out=buffer)


def _each(pictures: NDArray[Any]) -> NDArray[Any]:
    return pictures if pictures.ndim == 4 else pictures[np.newaxis]


def _from_tensor(torch: Torch, pictures: Tensor, low: float, high: float) -> NDArray[np.uint8]:
    """Convert channels-last pictures on their device; beside the result they take one buffer of float32."""
    pictures = pictures.detach()
    if pictures.dtype != torch.uint8:
        # one operation after the other: fused ones round otherwise, and not on every device
        pictures = pictures.to(torch.float32, copy=True)
        torch.fmax(pictures, torch.tensor(low, dtype=torch.float32, device="cpu"), out=pictures)
        pictures.clamp_(max=high)
        if (low, high) != (0, 255):
            pictures.sub_(low).mul_(255 / (high - low))
        pictures.round_()
    frames = torch.empty((*pictures.shape[:-1], 3), dtype=torch.uint8, device=pictures.device)
    frames.copy_(pictures)
    return to_host(torch, frames)
