"""A frame as coloured text: each character shows two pixels, one above the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

HALF = "▀"
RESET = "\x1b[0m"


def fit_size(height: int, width: int, columns: int, rows: int) -> tuple[int, int]:
    """Return the rows and columns of text for the largest frame of this aspect ratio that fits."""
    scale = min(columns / width, 2 * rows / height)
    return max(1, min(rows, round(height * scale / 2))), max(1, min(columns, round(width * scale)))


def lines(pixels: NDArray[np.uint8], columns: int, rows: int) -> list[str]:
    """Return an RGB frame as lines of text in 24-bit colour, within `columns` and `rows`."""
    height, width = fit_size(pixels.shape[0], pixels.shape[1], columns, rows)
    small = _shrink(pixels, 2 * height, width)
    return [_line(small[2 * row], small[2 * row + 1]) for row in range(height)]


def _shrink(pixels: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Return the mean of four samples for each pixel, which is fast and good enough at this size."""
    down = (np.arange(height) + 0.5) * pixels.shape[0] / height
    across = (np.arange(width) + 0.5) * pixels.shape[1] / width
    total = np.zeros((height, width, 3), np.uint16)
    for shift_y in (-0.25, 0.25):
        for shift_x in (-0.25, 0.25):
            y = np.clip(down + shift_y * pixels.shape[0] / height, 0, pixels.shape[0] - 1).astype(np.intp)
            x = np.clip(across + shift_x * pixels.shape[1] / width, 0, pixels.shape[1] - 1).astype(np.intp)
            total += pixels[y[:, np.newaxis], x]
    return (total // 4).astype(np.uint8)


def _line(upper: NDArray[np.uint8], lower: NDArray[np.uint8]) -> str:
    """Return one row of characters; a colour code is written only where the colour changes."""
    parts: list[str] = []
    before: tuple[list[int], list[int]] | None = None
    for pair in zip(upper.tolist(), lower.tolist(), strict=True):
        if pair != before:
            (r, g, b), (r2, g2, b2) = before = pair
            parts.append(f"\x1b[38;2;{r};{g};{b};48;2;{r2};{g2};{b2}m")
        parts.append(HALF)
    return "".join((*parts, RESET))
