"""Draw the sound: its waveform as a line of light that glows into the sky, and its pitches in the lake below."""

from functools import lru_cache

import numpy as np

from synth import RATE

# The pitches are those of the last 4096 samples.
WINDOW = 4096
HANN = np.hanning(WINDOW).astype(np.float32)
# The light at a distance from the line, in quarters of a pixel.
HALO = np.append(1 / (1 + (np.arange(200) / 8) ** 2), 0).astype(np.float32)
BANDS = 16
# The colours of light from faint to bright: at the horizon, and at the top of the sky.
SKIES = {
    "aurora": (
        [(3, 6, 16), (4, 46, 58), (18, 160, 112), (150, 250, 170), (244, 255, 240)],
        [(3, 4, 14), (38, 14, 84), (134, 44, 170), (236, 140, 220), (255, 240, 255)],
    ),
    "dusk": (
        [(12, 5, 16), (92, 20, 52), (228, 84, 52), (255, 186, 92), (255, 248, 222)],
        [(8, 6, 24), (40, 24, 104), (110, 60, 170), (220, 140, 200), (255, 236, 250)],
    ),
    "moon": (
        [(4, 7, 14), (14, 52, 92), (50, 138, 206), (164, 222, 252), (255, 255, 255)],
        [(3, 4, 12), (22, 26, 84), (70, 84, 190), (170, 186, 250), (250, 250, 255)],
    ),
}


class Scope:
    """The frame of one session, in which light rises and fades."""

    def __init__(self, width: int, height: int) -> None:
        self.horizon = height * 7 // 10
        self.light = np.zeros((self.horizon, width), np.float32)
        self.rows = np.arange(self.horizon, dtype=np.float32)[:, None]
        self.depth = np.linspace(0, 1, height - self.horizon, dtype=np.float32)[:, None]
        band = np.linspace(BANDS - 1, 0, self.horizon).astype(np.int32)
        self.bands = 256 * np.append(band, band[::-1][: len(self.depth)])[:, None]
        self.heard = np.zeros(WINDOW, np.float32)
        self.shown = np.zeros(min(WINDOW // 2, 2 * width), np.float32)
        self.pitches = np.zeros(width, np.float32)
        # The place in the spectrum for each column: from two octaves below middle C to four above it.
        octaves = np.linspace(-2.2, 4.2, width)
        self.places = 261.6 * 2**octaves * WINDOW / RATE
        self.lift = 2 ** (0.5 * octaves)

    def draw(self, sound: np.ndarray, sky: str) -> np.ndarray:
        """Return the frame, uint8 (height, width, 3), for the next piece of sound, (2, samples)."""
        self.heard = np.append(self.heard, sound.mean(axis=0, dtype=np.float32))[-WINDOW:]
        line = self.line()
        self.rise(line)
        above = np.maximum(self.light, line)
        shades = np.concatenate([above, self.water(above)])
        return np.take(colours(sky), (shades * 255).clip(0, 255).astype(np.int32) + self.bands, axis=0)

    def line(self) -> np.ndarray:
        """Draw the newest sound from where it resembles the previous frame most, so that a tone stands still."""
        newest = self.heard[-2 * len(self.shown) :]
        start = int(np.argmax(np.correlate(newest, self.shown, "valid")))
        self.shown = newest[start : start + len(self.shown)]
        columns = np.linspace(0, len(self.shown) - 1, self.light.shape[1] + 1)
        wave = np.interp(columns, range(len(self.shown)), self.shown)
        y = (self.horizon * (0.6 - 0.38 * np.tanh(3.5 * wave))).astype(np.float32)
        top, bottom = np.minimum(y[1:], y[:-1]), np.maximum(y[1:], y[:-1])
        distance = np.maximum(np.maximum(top - self.rows, self.rows - bottom), 0)
        return np.take(HALO, (4 * distance).astype(np.int32), mode="clip")

    def rise(self, line: np.ndarray) -> None:
        """Move the light up, spread it a little, fade it, and add the light of the line."""
        up = np.zeros_like(self.light)
        up[:-4] = (self.light[2:-2] + self.light[3:-1] + self.light[4:]) / 3
        up[:, 2:-2] = 0.7 * up[:, 2:-2] + 0.15 * (up[:, 4:] + up[:, :-4])
        self.light = np.maximum(0.98 * up, 0.5 * line)

    def water(self, above: np.ndarray) -> np.ndarray:
        """Draw the water: a column for each pitch, longer for a louder one, and the reflection of the sky."""
        strength = np.abs(np.fft.rfft(self.heard * HANN)) / WINDOW
        now = np.interp(self.places, range(len(strength)), strength) * self.lift
        self.pitches = np.maximum(0.9 * self.pitches, np.minimum(np.sqrt(30 * now), 1)).astype(np.float32)
        standing = np.clip(3 * (self.pitches - self.depth), 0, 1) * (0.8 - 0.5 * self.depth)
        return np.maximum(standing, 0.4 * above[::-1][: len(self.depth)] * (1 - self.depth))


@lru_cache(maxsize=len(SKIES))
def colours(sky: str) -> np.ndarray:
    """Return 256 shades of light for each band of a sky, from the horizon up."""
    low, high = (np.array(stops, float) for stops in SKIES[sky])
    height = np.linspace(0, 1, BANDS)[:, None, None]
    stops = low + (high - low) * height
    shades = np.linspace(0, len(low) - 1, 256)
    ring = [np.interp(shades, range(len(low)), channel) for band in stops for channel in band.T]
    return np.array(ring).reshape(BANDS, 3, 256).transpose(0, 2, 1).reshape(-1, 3).astype(np.uint8)
