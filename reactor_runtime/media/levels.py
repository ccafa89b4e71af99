"""Converts images, channels last, from a range of values to levels 0 to 255, in NumPy and on a device.

Both compute in float32 with the same roundings and have equal results. uint8 stays unchanged; one channel becomes
three equal ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.media.tensors import Tensor, Torch


def levels(images: NDArray[Any], low: float, high: float, out: NDArray[np.uint8] | None = None) -> NDArray[np.uint8]:
    """Convert images one by one, so that intermediate values stay in the cache; uint16 holds bfloat16 bits.

    The frames are written to `out`, if it is given, which has their shape.
    """
    frames = np.empty((*images.shape[:-1], 3), np.uint8) if out is None else out
    for frame, image in zip(_each(frames), _each(images), strict=True):
        made = image if image.dtype == np.uint8 else _of_image(image, low, high)
        made = np.broadcast_to(made, frame.shape)
        # All channels at once take three times as long if the channels come first in memory.
        for channel in range(3):
            frame[..., channel] = made[..., channel]
    return frames


def _of_image(image: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    # The results for NaN and infinity are documented.
    with np.errstate(all="ignore"):
        values = _as_float32(image)
        np.clip(values, low, high, out=values)
        np.copyto(values, low, where=np.isnan(values))
        if (low, high) != (0, 255):
            values -= low
            values *= 255 / (high - low)
        return np.rint(values, out=values).astype(np.uint8)


def _as_float32(image: NDArray[Any]) -> NDArray[np.float32]:
    # bfloat16 is the upper half of a float32; NumPy has no such type.
    if image.dtype == np.uint16:
        return (image.astype(np.uint32) << 16).view(np.float32)
    return image.astype(np.float32)


def _each(images: NDArray[Any]) -> NDArray[Any]:
    return images if images.ndim == 4 else images[np.newaxis]


def levels_on_device(torch: Torch, images: Tensor, low: float, high: float) -> Tensor:
    """Convert images on their device; needs one float32 buffer besides the result."""
    if images.dtype != torch.uint8:
        # Separate operations: fused ones round differently, and not on every device.
        images = images.to(torch.float32, copy=True)
        images.nan_to_num_(nan=low).clamp_(low, high)
        if (low, high) != (0, 255):
            images.sub_(low).mul_(255 / (high - low))
        images.round_()
    frames = torch.empty((*images.shape[:-1], 3), dtype=torch.uint8, device=images.device)
    frames.copy_(images)
    return frames
