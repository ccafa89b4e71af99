"""Draw the frames: plain NumPy, nothing of Reactor. Replace this file with your model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

FPS = 60

# Each palette is a ring of colours (red, green, blue) that the frame cycles through.
PALETTES = {
    "aurora": [(8, 12, 46), (20, 70, 120), (32, 178, 150), (186, 240, 172), (120, 80, 200), (38, 20, 92)],
    "ember": [(20, 6, 18), (96, 16, 40), (222, 60, 38), (255, 176, 68), (255, 238, 190), (122, 28, 72)],
    "lagoon": [(4, 26, 56), (6, 88, 132), (28, 170, 184), (222, 246, 226), (246, 190, 150), (40, 70, 130)],
    "ink": [(10, 10, 14), (58, 62, 74), (150, 156, 168), (244, 242, 236), (104, 108, 122), (26, 28, 36)],
}


@dataclass(frozen=True)
class Splash:
    x: float
    y: float
    # The first frame that shows it.
    frame_idx: int


def colour_ring(palette: str, brightness: float) -> np.ndarray:
    """Blend a palette into a ring of 1024 colours.

    Brightness costs almost nothing here: it changes 1024 colours instead of 300,000 pixels.
    """
    stops = np.array([*PALETTES[palette], PALETTES[palette][0]], np.float32)
    places = np.linspace(0, 1024, len(stops))
    ring = np.stack([np.interp(np.arange(1024), places, stops[:, channel]) for channel in range(3)], axis=1)
    return np.clip(ring * brightness, 0, 255).astype(np.uint8)


def flow(width: int, height: int, frame_idx: int) -> np.ndarray:
    """Return the position of each pixel on the colour ring: slow waves that bend each other."""
    t = frame_idx / FPS
    x = np.linspace(-1, 1, width, dtype=np.float32)[None, :] * (width / height)
    y = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    a = np.sin(1.6 * x + 0.7 * np.sin(1.9 * y + 0.6 * t) + 0.4 * t)
    b = np.sin(1.3 * y - 0.9 * a + 0.5 * np.sin(1.1 * x - 0.5 * t))
    return 300 * np.sin(1.2 * a + 1.7 * b - 0.3 * t) + 200 * b + 500 + 60 * t % 1024


def add_ripple(shades: np.ndarray, splash: Splash, frame_idx: int) -> None:
    """Add a wave that runs outwards from the splash and fades within four seconds."""
    age = (frame_idx - splash.frame_idx) / FPS
    if not 0 <= age < 4:
        return
    height, width = shades.shape
    x = np.arange(width, dtype=np.float32)[None, :] - splash.x * width
    y = np.arange(height, dtype=np.float32)[:, None] - splash.y * height
    distance = np.sqrt(x * x + y * y)
    # The wave is the same in all directions, so it is computed along one radius, in quarters of a pixel.
    along = np.arange(4 * (width + height)) / 4
    behind = (age * 0.55 * height - along) / (0.08 * height)
    profile = 260 * np.exp(-behind**2 / 2 - age) * np.cos(3 * behind)
    shades += np.take(profile.astype(np.float32), (4 * distance).astype(np.int32), mode="clip")


def paint(frame: np.ndarray, shades: np.ndarray, colours: np.ndarray) -> None:
    """Fill a frame with the colours at the positions in `shades`."""
    np.take(colours, shades.astype(np.int32) & 1023, axis=0, out=frame, mode="clip")


def write(frame: np.ndarray, caption: str, brightness: float) -> None:
    """Draw the caption into the lower part of a frame, as dots of light with a shadow."""
    shadow, light = letters(caption, frame.shape[1], frame.shape[0])
    height, width = light.shape[:2]
    top, left = frame.shape[0] * 15 // 16 - height, (frame.shape[1] - width) // 2
    area = frame[top : top + height, left : left + width]
    area[:] = area * shadow + light * min(255, 250 * brightness)


@lru_cache(maxsize=8)
def letters(caption: str, width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two masks for a caption, (height, width, 1): the share of the frame that stays, and the light added."""
    columns = [int(code, 16) for character in caption.upper() for code in glyph(character)]
    dots = np.array([[column >> row & 1 for column in columns] for row in range(7)]).reshape(7, -1)
    size = max(1, min(width // 72, width // (dots.shape[1] + 6), height // 14))
    across = np.abs(np.arange(size) - (size - 1) / 2) / (size / 2)
    lamp = np.clip(1.6 - 1.5 * np.hypot(across[:, None], across), 0, 1)
    light = np.pad(np.kron(dots, lamp), 3 * size)[:, :width]
    blur = np.hanning(6 * size)
    shadow = light
    for axis in (0, 1):
        shadow = np.apply_along_axis(np.convolve, axis, shadow, blur, "same")
    stays = (1 - 0.6 * shadow / max(shadow.max(), 1e-9)) * (1 - light)
    return stays[..., None].astype(np.float32), light[..., None].astype(np.float32)


def glyph(character: str) -> list[str]:
    """Return a character as five columns of seven dots, lowest bit on top, and a gap; a space if the font lacks it."""
    start = 10 * (ord(character) - 32)
    code = FONT[start : start + 10] if 0 <= start < len(FONT) else "00" * 5
    return [code[at : at + 2] for at in range(0, 10, 2)] + ["00"]


# The 64 characters from space to underscore.
FONT = (
    "000000000000005F00000007000700147F147F14242A7F2A12231308646236495620500008070300"
    "001C2241000041221C002A1C7F1C2A08083E08080050300000080808080800606000002010080402"
    "3E5149453E00427F400042615149462141454B311814127F1027454545393C4A4949300171090503"
    "3649494936064949291E003636000000563600000814224100141414141400412214080201510906"
    "324979413E7E1111117E7F494949363E414141227F4141221C7F494949417F090909013E4149497A"
    "7F0808087F00417F41002040413F017F081422417F404040407F020C027F7F0408107F3E4141413E"
    "7F090909063E4151215E7F09192946464949493101017F01013F4040403F1F2040201F3F4038403F"
    "631408146307087008076151494543007F41410002040810200041417F0004020102044040404040"
)
