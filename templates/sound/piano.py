"""Draw a piano into the lower quarter of the frame, and find the key at a place of the frame."""

from collections.abc import Mapping, Set

import numpy as np

from scope import SKIES

LOWEST, HIGHEST = 48, 72
BLACK = (1, 3, 6, 8, 10)
# The width and height of a black key, as fractions of a white one.
BLACK_WIDTH, BLACK_HEIGHT = 0.62, 0.6


class Piano:
    """Two octaves of keys."""

    def __init__(self, width: int, height: int) -> None:
        self.rows = max(1, height // 4)
        self.top = 1 - self.rows / height
        whites = [note for note in range(LOWEST, HIGHEST + 1) if note % 12 not in BLACK]
        key_width = width / len(whites)
        x = np.arange(width)[None, :] + 0.5
        y = (np.arange(self.rows)[:, None] + 0.5) / self.rows
        column = np.broadcast_to(np.minimum(x // key_width, len(whites) - 1).astype(int), (self.rows, width))
        # For each pixel: its key, and how bright it is.
        self.key = np.array(whites)[column] - LOWEST
        from_middle = np.abs(x - (column + 0.5) * key_width)
        shade = np.where(from_middle < key_width / 2 - 1, 0.72 + 0.2 * y, 0.2)
        for idx, note in enumerate(whites[:-1]):
            if note + 1 not in whites:
                black = (np.abs(x - (idx + 1) * key_width) < BLACK_WIDTH / 2 * key_width) & (y < BLACK_HEIGHT)
                self.key[black] = note + 1 - LOWEST
                shade[black] = np.broadcast_to(0.06 + 0.16 * (y > BLACK_HEIGHT - 0.08), black.shape)[black]
        self.keys = (shade[..., None] * (250, 246, 238)).astype(np.float32)
        # A key glows most where it is played.
        self.near = (0.15 + 0.85 * y[..., None]).astype(np.float32)

    def key_at(self, x: float, y: float) -> int | None:
        """Return the note at a place of the frame, x and y from 0 to 1; None above the piano."""
        if y < self.top:
            return None
        rows, width = self.key.shape
        row = min(int((y - self.top) / (1 - self.top) * rows), rows - 1)
        return LOWEST + int(self.key[row, min(int(x * width), width - 1)])

    def draw_below(self, frame: np.ndarray, held: Set[int], loudness: Mapping[int, float], sky: str) -> np.ndarray:
        """Return a frame with the piano below it: held keys are darker, and keys glow while they sound."""
        glow, light = np.zeros(HIGHEST - LOWEST + 1, np.float32), np.ones(HIGHEST - LOWEST + 1, np.float32)
        for note, loud in loudness.items():
            if LOWEST <= note <= HIGHEST:
                glow[note - LOWEST] = min(1.0, 1.4 * loud**0.5)
        light[[note - LOWEST for note in held if LOWEST <= note <= HIGHEST]] = 0.7
        keys = self.keys * light[self.key][..., None]
        # The third of the colours of the sky's light, which is the most vivid.
        keys += glow[self.key][..., None] * self.near * (np.array(SKIES[sky][0][2], np.float32) - keys)
        return np.concatenate([frame, keys.astype(np.uint8)])
