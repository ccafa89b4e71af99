"""How similar two frames are: PSNR and SSIM."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_WINDOW = 7
# As in Wang et al., "Image quality assessment: from error visibility to structural similarity", 2004.
_C1, _C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


def psnr(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    """Return the peak signal-to-noise ratio of two frames of one shape in dB; infinity if they are equal."""
    error = first.astype(np.float32) - second.astype(np.float32)
    mse = float(np.mean(error * error))
    return math.inf if mse == 0 else 10 * math.log10(255 * 255 / mse)


def ssim(first: NDArray[np.uint8], second: NDArray[np.uint8]) -> float:
    """Return the structural similarity of two frames of one shape, up to 1 for equal ones.

    It is the mean over the brightness in windows of 7 x 7 pixels with equal weights, smaller ones in smaller frames.
    """
    a, b = (frame.astype(np.float32) @ _LUMA for frame in (first, second))
    window = min(_WINDOW, *a.shape)
    mean_a, mean_b = _means(a, window), _means(b, window)
    # Rounding may leave a variance just below 0.
    variance_a = np.maximum(_means(a * a, window) - mean_a * mean_a, 0)
    variance_b = np.maximum(_means(b * b, window) - mean_b * mean_b, 0)
    covariance = _means(a * b, window) - mean_a * mean_b
    likeness = (2 * mean_a * mean_b + _C1) * (2 * covariance + _C2)
    return float(np.mean(likeness / ((mean_a**2 + mean_b**2 + _C1) * (variance_a + variance_b + _C2))))


def _means(image: NDArray[np.float32], window: int) -> NDArray[np.float64]:
    """Return the mean of each window inside an image, from its sums."""
    sums = np.zeros((image.shape[0] + 1, image.shape[1] + 1))
    sums[1:, 1:] = image.astype(np.float64).cumsum(0).cumsum(1)
    whole = sums[window:, window:] - sums[:-window, window:] - sums[window:, :-window] + sums[:-window, :-window]
    means: NDArray[np.float64] = whole / (window * window)
    return means
