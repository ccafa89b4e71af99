"""The frames that are shown without a camera: a sun that looks around, and images of clients."""

from functools import lru_cache
from typing import BinaryIO

import numpy as np


def draw_card(width: int, height: int, t: float) -> np.ndarray:
    """Draw the sun at `t` seconds: uint8 RGB of shape (height, width, 3)."""
    rays, distance, colours = sky(width, height)
    frame = colours.take((rays + 34 * t - 90 * distance).astype(np.int32) & 255, axis=0)
    x, y = width / height / 2 + 0.22 * np.sin(1.1 * t), 0.5 + 0.05 * np.sin(2.3 * t)
    look, blink = 0.03 * np.cos(1.1 * t), 0.15 if t % 3.1 < 0.14 else 1.0
    disc(frame, x, y, 0.31, (255, 205, 84))
    # The mouth: a disc, and over it one of the face's colour.
    disc(frame, x + look, y + 0.04, 0.17, (178, 50, 62))
    disc(frame, x + look, y - 0.01, 0.185, (255, 205, 84))
    for side in (-0.115, 0.115):
        disc(frame, x + look + 1.6 * side, y + 0.07, 0.045, (255, 160, 84))
        disc(frame, x + look + side, y - 0.09, 0.068, (255, 255, 250), blink)
        disc(frame, x + 2 * look + side, y - 0.085, 0.032, (34, 30, 60), blink)
    return frame


def disc(frame: np.ndarray, x: float, y: float, radius: float, colour: tuple[int, ...], flat: float = 1.0) -> None:
    """Paint a disc with a soft edge. Lengths are fractions of the height of the frame."""
    height, width = frame.shape[:2]
    rows = slice(max(0, int((y - radius) * height)), int((y + radius) * height) + 2)
    columns = slice(max(0, int((x - radius) * height)), int((x + radius) * height) + 2)
    part = frame[rows, columns]
    down = (np.arange(height)[rows, None] - y * height) / flat
    across = np.arange(width)[columns] - x * height
    share = np.clip(radius * height - np.hypot(across, down) + 0.5, 0, 1).astype(np.float32)[..., None]
    part[:] = part + (np.array(colour, np.float32) - part) * share


@lru_cache(maxsize=1)
def sky(width: int, height: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the place of each pixel across its ray, its distance from the centre, and the 256 colours across a ray."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32) / height
    x, y = x - width / height / 2, y - 0.5
    wave = np.clip(0.5 + 2 * np.sin(np.arange(256) * np.pi / 128), 0, 1)[:, None]
    colours = wave * (44, 158, 180) + (1 - wave) * (28, 76, 140)
    return np.arctan2(y, x) * (16 * 128 / np.pi), np.hypot(x, y), colours.astype(np.uint8)


def read_image(file: BinaryIO) -> np.ndarray:
    """Return an image as uint8 RGB of its own size. Raises ValueError if the file is no image."""
    from PIL import Image, ImageOps

    try:
        with Image.open(file) as image:
            return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError("this file is no image that Pillow can read") from error
