"""A picture as coloured text: each character is two pixels, one above the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

HALF = "▀"
RESET = "\x1b[0m"


def fitted(height: int, width: int, columns: int, rows: int) -> tuple[int, int]:
    """Return rows and columns of text that show a picture as large as fits, in its own shape."""
    scale = min(columns / width, 2 * rows / height)
    return max(1, min(rows, round(height * scale / 2))), max(1, min(columns, round(width * scale)))


def lines(picture: NDArray[np.uint8], columns: int, rows: int) -> list[str]:
    """Draw an RGB picture in at most so many columns and rows, in 24-bit colour."""
    height, width = fitted(picture.shape[0], picture.shape[1], columns, rows)
    small = _shrunk(picture, 2 * height, width)
    return [_line(small[2 * row], small[2 * row + 1]) for row in range(height)]


def _shrunk(picture: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Take a pixel for each, in the mean of four about it: enough for so few, and quick."""
    down = (np.arange(height) + 0.5) * picture.shape[0] / height
    across = (np.arange(width) + 0.5) * picture.shape[1] / width
    total = np.zeros((height, width, 3), np.uint16)
    for shift_y in (-0.25, 0.25):
        for shift_x in (-0.25, 0.25):
            y = np.clip(down + shift_y * picture.shape[0] / height, 0, picture.shape[0] - 1).astype(np.intp)
            x = np.clip(across + shift_x * picture.shape[1] / width, 0, picture.shape[1] - 1).astype(np.intp)
            total += picture[y[:, np.newaxis], x]
    return (total // 4).astype(np.uint8)


def _line(upper: NDArray[np.uint8], lower: NDArray[np.uint8]) -> str:
    """Write one row of characters; a colour that stays is not said again."""
    parts: list[str] = []
    before: tuple[list[int], list[int]] | None = None
    for pixels in zip(upper.tolist(), lower.tolist(), strict=True):
        if pixels != before:
            (r, g, b), (r2, g2, b2) = before = pixels
            parts.append(f"\x1b[38;2;{r};{g};{b};48;2;{r2};{g2};{b2}m")
        parts.append(HALF)
    return "".join((*parts, RESET))
