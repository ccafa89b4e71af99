"""From pictures, channels last, whose values lie in a range, to frames of levels 0 to 255: in NumPy and on a device.

Both compute in float32, one rounding after the other, and give the same. uint8 stays as it is, one channel becomes
three alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.media.tensors import Tensor, Torch


def levels(pictures: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    """Convert pictures one after the other, so that what is computed stays in the cache; uint16 is bfloat16's bits."""
    frames = np.empty((*pictures.shape[:-1], 3), np.uint8)
    for frame, picture in zip(_each(frames), _each(pictures), strict=True):
        made = picture if picture.dtype == np.uint8 else _of_picture(picture, low, high)
        made = np.broadcast_to(made, frame.shape)
        for channel in range(3):  # in one go it takes three times as long where the channels come first in memory
            frame[..., channel] = made[..., channel]
    return frames


def _of_picture(picture: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    with np.errstate(all="ignore"):  # what NaN and infinity become is said
        values = _as_float32(picture)
        np.clip(values, low, high, out=values)
        np.copyto(values, low, where=np.isnan(values))
        if (low, high) != (0, 255):
            values -= low
            values *= 255 / (high - low)
        return np.rint(values, out=values).astype(np.uint8)


def _as_float32(picture: NDArray[Any]) -> NDArray[np.float32]:
    if picture.dtype == np.uint16:  # the upper half of a float32; NumPy has no such type
        return (picture.astype(np.uint32) << 16).view(np.float32)
    return picture.astype(np.float32)


def _each(pictures: NDArray[Any]) -> NDArray[Any]:
    return pictures if pictures.ndim == 4 else pictures[np.newaxis]


def levels_on_device(torch: Torch, pictures: Tensor, low: float, high: float) -> Tensor:
    """Convert pictures where they are; beside the result it takes one buffer, of float32."""
    if pictures.dtype != torch.uint8:
        # one operation after the other: fused ones round otherwise, and not on every device
        pictures = pictures.to(torch.float32, copy=True)
        pictures.nan_to_num_(nan=low).clamp_(low, high)
        if (low, high) != (0, 255):
            pictures.sub_(low).mul_(255 / (high - low))
        pictures.round_()
    frames = torch.empty((*pictures.shape[:-1], 3), dtype=torch.uint8, device=pictures.device)
    frames.copy_(pictures)
    return frames
