from __future__ import annotations

import math

import numpy as np
import pytest

from reactor_runtime.media.quality import psnr, ssim

RANDOM = np.random.default_rng(1)
NOISE = RANDOM.integers(0, 256, (40, 60, 3), np.uint8)


def test_equal_frames_have_an_infinite_ratio_and_a_similarity_of_one() -> None:
    assert psnr(NOISE, NOISE.copy()) == math.inf
    assert ssim(NOISE, NOISE.copy()) == pytest.approx(1.0)


@pytest.mark.parametrize(("offset", "expected"), [(1, 48.1308), (10, 28.1308), (255, 0.0)])
def test_the_ratio_of_a_constant_error_is_known(offset: int, expected: float) -> None:
    black = np.zeros((9, 9, 3), np.uint8)
    assert psnr(black, black + np.uint8(offset)) == pytest.approx(expected, abs=1e-3)


def test_the_similarity_falls_with_noise_and_not_with_the_order() -> None:
    smooth = np.repeat(np.linspace(0, 255, 60, dtype=np.uint8)[None, :, None], 40, 0).repeat(3, 2)
    little = np.clip(smooth.astype(int) + RANDOM.integers(-5, 6, smooth.shape), 0, 255).astype(np.uint8)
    much = np.clip(smooth.astype(int) + RANDOM.integers(-60, 61, smooth.shape), 0, 255).astype(np.uint8)
    assert 1.0 > ssim(smooth, little) > ssim(smooth, much) > ssim(smooth, NOISE)
    assert ssim(smooth, much) == pytest.approx(ssim(much, smooth))


def test_a_window_has_the_similarity_of_the_formula() -> None:
    first, second = RANDOM.integers(0, 256, (2, 7, 7, 3), np.uint8)
    x, y = (frame.astype(float) @ [0.299, 0.587, 0.114] for frame in (first, second))
    covariance = ((x - x.mean()) * (y - y.mean())).mean()
    c1, c2 = 6.5025, 58.5225
    expected = (2 * x.mean() * y.mean() + c1) * (2 * covariance + c2)
    expected /= (x.mean() ** 2 + y.mean() ** 2 + c1) * (x.var() + y.var() + c2)
    assert ssim(first, second) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("shape", [(1, 1, 3), (3, 50, 3), (2, 2, 3)])
def test_small_frames_can_be_compared(shape: tuple[int, int, int]) -> None:
    frame = np.full(shape, 100, np.uint8)
    assert ssim(frame, frame) == pytest.approx(1.0)
