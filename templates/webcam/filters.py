"""The filters: each is made for a size, and called with each frame (uint8 RGB) and a strength from 0 to 1.

A filter may keep earlier frames, so that motion leaves traces. Replace one with your network.
"""

import numpy as np

GRAY = np.array([0.299, 0.587, 0.114], np.float32)


class Plain:
    """No change."""

    def __init__(self, width: int, height: int) -> None:
        pass

    def __call__(self, frame: np.ndarray, strength: float) -> np.ndarray:
        return frame


class Neon:
    """Edges as lines of light, coloured by their direction; motion leaves a trail that drifts outwards."""

    def __init__(self, width: int, height: int) -> None:
        self.light = np.zeros((height, width, 3), np.uint8)
        self.nearer = zoom(width, height, 0.985)
        hue = np.arange(256)[:, None] / 256 + np.array([0.0, 0.36, 0.7])
        self.colours = (0.5 + 0.5 * np.cos(2 * np.pi * hue)).astype(np.float32)
        self.turn = 0

    def __call__(self, frame: np.ndarray, strength: float) -> np.ndarray:
        gray = blur(frame @ GRAY)
        right, down = slopes(gray)
        steep = np.hypot(right, down)
        direction = (np.arctan2(down, right) * (128 / np.pi)).astype(np.int32) + self.turn & 255
        edges = np.clip(8 * steep[..., None] - 40, 0, 255) * self.colours[direction]
        fading = take(self.light, self.nearer) * np.uint16(150 + 100 * strength) >> 8
        self.light = np.maximum(edges, fading).astype(np.uint8)
        self.turn += 2
        return np.maximum(self.light, frame >> 3)


class Oil:
    """An oil painting: brush strokes along the contours of the frame, lit from the upper left."""

    def __init__(self, width: int, height: int) -> None:
        self.size = width, height
        self.canvas = np.zeros((height, width, 3), np.float32)
        self.bristles = np.random.default_rng(1).uniform(0.7, 1.3, (height, width, 1)).astype(np.float32)
        self.y, self.x = np.mgrid[0:height, 0:width].astype(np.float32)

    def __call__(self, frame: np.ndarray, strength: float) -> np.ndarray:
        width, height = self.size
        along_x, along_y = (stretch(part, width, height) for part in contours(frame[::4, ::4] @ GRAY))
        reach = 1 + 3 * strength
        x = np.clip(self.x - reach * along_x + 0.5, 0, width - 1).astype(np.int32)
        y = np.clip(self.y - reach * along_y + 0.5, 0, height - 1).astype(np.int32)
        fresh = 0.3 - 0.2 * strength
        self.canvas = (1 - fresh) * take(self.canvas, y * width + x) + fresh * self.bristles * frame
        relief = self.canvas @ GRAY
        relief[1:, 1:] -= relief[:-1, :-1].copy()
        relief[0], relief[:, 0] = 0, 0
        return np.clip(1.06 * self.canvas + 1.8 * strength * relief[..., None], 0, 255).astype(np.uint8)


class Kaleidoscope:
    """One slice of the frame in a rotating ring of mirrors; a higher strength means more mirrors."""

    def __init__(self, width: int, height: int) -> None:
        self.size = width, height
        y, x = np.mgrid[0:height, 0:width].astype(np.float32)
        self.radius = np.hypot(x - width / 2, y - height / 2)
        self.angle = np.arctan2(y - height / 2, x - width / 2)
        self.t = 0.0

    def __call__(self, frame: np.ndarray, strength: float) -> np.ndarray:
        width, height = self.size
        self.t += 1 / 30
        slice_ = np.pi / (3 + round(7 * strength))
        angle = np.abs((self.angle + 0.2 * self.t) % (2 * slice_) - slice_) + 0.5 * self.t
        x = bounce(width / 2 + self.radius * np.cos(angle), width)
        y = bounce(height / 2 + self.radius * np.sin(angle), height)
        return take(frame, y * width + x)


class Slitscan:
    """Older frames further down: the lowest row is up to two and a half seconds old."""

    def __init__(self, width: int, height: int) -> None:
        self.past = np.zeros((76, height, width, 3), np.uint8)
        self.idx = 0

    def __call__(self, frame: np.ndarray, strength: float) -> np.ndarray:
        if self.idx == 0:
            self.past[:] = frame
        self.past[self.idx % 76] = frame
        lines = np.arange(len(frame))
        age = 74 * strength * lines / len(frame)
        between = (age % 1)[:, None, None].astype(np.float32)
        newer, older = (self.past[(self.idx - age.astype(int) - step) % 76, lines] for step in (0, 1))
        self.idx += 1
        return (newer * (1 - between) + older * between).astype(np.uint8)


FILTERS = {"oil": Oil, "neon": Neon, "kaleidoscope": Kaleidoscope, "slitscan": Slitscan, "plain": Plain}


def take(frame: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Return a frame whose pixels come from `places`, which are indexes row by row."""
    return frame.reshape(-1, 3).take(places, axis=0, mode="clip")


def zoom(width: int, height: int, factor: float) -> np.ndarray:
    """Return the places from which the pixels of a frame scaled around its centre come."""
    y = ((np.arange(height) - height / 2) * factor + height / 2).astype(np.int32)
    x = ((np.arange(width) - width / 2) * factor + width / 2).astype(np.int32)
    return y[:, None] * width + x


def bounce(places: np.ndarray, size: int) -> np.ndarray:
    """Mirror places outside the frame back into it."""
    return (size - 1 - np.abs(np.abs(places) % max(1, 2 * size - 2) - (size - 1))).astype(np.int32)


def blur(gray: np.ndarray) -> np.ndarray:
    """Return averages over three by three pixels; at the border, only along it."""
    soft = gray.copy()
    soft[1:-1] = (gray[:-2] + gray[1:-1] + gray[2:]) / 3
    soft[:, 1:-1] = (soft[:, :-2] + soft[:, 1:-1] + soft[:, 2:]) / 3
    return soft


def slopes(gray: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the slope of the brightness to the right and downwards."""
    right, down = np.zeros_like(gray), np.zeros_like(gray)
    right[:, 1:-1] = gray[:, 2:] - gray[:, :-2]
    down[1:-1] = gray[2:] - gray[:-2]
    return right, down


def contours(gray: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the direction of the contour at each pixel as x and y of length one, across the mean slope around it."""
    right, down = slopes(gray)
    xx, yy, xy = right * right, down * down, right * down
    for _ in range(3):
        xx, yy, xy = blur(xx), blur(yy), blur(xy)
    angle = 0.5 * np.arctan2(2 * xy, xx - yy + 1e-3) + np.float32(np.pi / 2)
    return np.cos(angle), np.sin(angle)


def stretch(small: np.ndarray, width: int, height: int) -> np.ndarray:
    """Enlarge by linear interpolation."""
    for axis, size in enumerate((height, width)):
        place = np.linspace(0, small.shape[axis] - 1, size, dtype=np.float32)
        low = np.minimum(place.astype(np.int32), small.shape[axis] - 2)
        share = (place - low)[:, None] if axis == 0 else place - low
        small = small.take(low, axis) * (1 - share) + small.take(low + 1, axis) * share
    return small


def fit(frame: np.ndarray, width: int, height: int) -> np.ndarray:
    """Scale a frame to cover the size, and crop it around the centre; return a frame of this size as it is."""
    if frame.shape[:2] == (height, width):
        return frame
    scale = min(frame.shape[0] / height, frame.shape[1] / width)
    rows = (np.arange(height) + 0.5 - height / 2) * scale + frame.shape[0] / 2
    columns = (np.arange(width) + 0.5 - width / 2) * scale + frame.shape[1] / 2
    return frame.take(rows.astype(np.intp), axis=0).take(columns.astype(np.intp), axis=1)
