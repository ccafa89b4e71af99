"""A stand-in with the parts of a text-to-image diffusion model: plain NumPy, no weights. Replace it with your model.

A prompt gives the colours and the shapes, the seed gives the place of everything, and each step adds finer shapes and
removes noise. README.md has the same class with diffusers.
"""

import random
import re
from collections.abc import Sequence
from typing import BinaryIO

import numpy as np

# The colours of known words from dark to light; those of any other word are drawn from its letters.
WORDS = {
    "aurora": "08102e 20b296 c8f5b4",
    "autumn": "2a0f0a c8501e ffd27a",
    "black": "020204 1c1d22 8a8c94",
    "blue": "040a2c 2058d8 b8dcff",
    "city": "0a0c1c 6a3fa0 ffd48a",
    "cloud": "3a4660 9fb0c8 ffffff",
    "coral": "2c0a22 ff6f61 ffe0cc",
    "desert": "3a1a10 d8904a ffe9b8",
    "fire": "1c0404 f04a14 fff0a0",
    "fog": "2a3038 8a949c e6eaea",
    "forest": "04140c 2f7d3a d8e88a",
    "galaxy": "05030f 6a2fb8 ff9ad8",
    "gold": "241402 d0982c fff2b8",
    "green": "031808 2fa84a d0ffb0",
    "ice": "0a1c34 6fb8e0 f4feff",
    "lake": "04202c 1f8a9a d8f4e0",
    "lava": "120204 d82808 ffc84a",
    "lights": "060818 3fd8a8 f8ffd0",
    "mountain": "10141e 5a6a8a f2e8e0",
    "neon": "080018 f01e9a 3ff8f0",
    "night": "02030c 1c2a6a 9ab0e8",
    "northern": "04081c 1fa888 b8f0a0",
    "ocean": "021028 0b6e99 b8f0ea",
    "pearl": "3a3440 c8b8c8 fff8f0",
    "pink": "2c0820 f060a8 ffe0ee",
    "purple": "12042c 7a34c8 e8c8ff",
    "rain": "0c141c 4a6a82 c0d4da",
    "red": "1c0206 d81e2c ffc0a8",
    "rose": "24060f d8486a ffe4da",
    "silver": "14161c 808a98 fafcff",
    "snow": "2a3a5a a8c4e0 ffffff",
    "spring": "0c2410 8acc5a ffd8e8",
    "storm": "06080f 3a4a68 d8dcc0",
    "sunset": "1c0830 f0563c ffd878",
    "white": "5a5a60 c8c8cc ffffff",
    "yellow": "2c2002 f0c020 fffac8",
}
FILLING = {"a", "an", "and", "at", "by", "for", "from", "in", "into", "of", "on", "or", "over", "the", "to", "with"}
# An embedding is six colours from dark to light, and the scale, stretch and turbulence of the shapes.
COLOURS = 6
GUIDANCE = 0.7
# How far the noise moves from one frame to the next.
DRIFT = 0.012


class StandIn:
    """Makes frames from embeddings, as a diffusion pipeline does."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.x = np.linspace(-1, 1, width, dtype=np.float32)[None, :] * (width / height)
        self.y = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
        self.grain = np.random.default_rng(0).normal(size=(2 * height, 2 * width)).astype(np.float32)

    def encode(self, prompt: str, negative_prompt: str = "") -> np.ndarray:
        """Return the embedding of a prompt, its colours moved away from those of the negative prompt."""
        embedding = embed(prompt)
        if words_of(negative_prompt):
            away = embedding - embed(negative_prompt)
            embedding[: 3 * COLOURS] += GUIDANCE * away[: 3 * COLOURS]
        return embedding.clip(0, 1)

    def read_image(self, file: BinaryIO) -> np.ndarray:
        """Return an image, cropped to the shape of a frame. Raises ValueError if the file is no image."""
        from PIL import Image, ImageOps

        try:
            with Image.open(file) as image:
                upright = ImageOps.exif_transpose(image).convert("RGB")
        except (OSError, SyntaxError, Image.DecompressionBombError) as error:
            raise ValueError("this file is no image that Pillow can read") from error
        return np.asarray(ImageOps.fit(upright, (self.width, self.height)), np.float32)

    def frames(
        self,
        embeddings: Sequence[np.ndarray],
        first_idx: int,
        *,
        seed: int,
        steps: int,
        image: np.ndarray | None = None,
        strength: float = 1.0,
    ) -> np.ndarray:
        """Return a frame for each embedding, uint8 (frames, height, width, 3).

        With an image, `strength` from 0 to 1 is how far the frames depart from it.
        """
        frames = np.empty((len(embeddings), self.height, self.width, 3), np.uint8)
        for idx, embedding in enumerate(embeddings):
            x, y, u, v = self.denoise(embedding, first_idx + idx, seed, steps)
            relief = 0.5 + 0.25 * (np.sin(2.1 * u) + np.sin(1.7 * v + u))
            bent_image = None if image is None else self.bend(image, u - x, v - y, strength)
            if bent_image is not None:
                relief = strength * relief + (1 - strength) * bent_image.mean(axis=2) / 255
            # The light comes from the upper left.
            behind = np.pad(relief, ((1, 0), (1, 0)), "edge")[:-1, :-1]
            light = (1 + 0.04 * self.height * (relief - behind)).clip(0.5, 1.6)
            relief += self.noise(first_idx + idx, seed, steps)
            ring = colour_ring(embedding[: 3 * COLOURS].reshape(COLOURS, 3))
            frame = np.take(ring, (relief * 1023).astype(np.int32), axis=0, mode="clip") * light[..., None]
            if bent_image is not None:
                frame += (1 - strength) ** 2 * (bent_image - frame)
            frames[idx] = frame.clip(0, 255)
        return frames

    def denoise(self, embedding: np.ndarray, idx: int, seed: int, steps: int) -> tuple[np.ndarray, ...]:
        """Return the plane, x and y, and the plane folded by each step in finer waves, u and v."""
        # Plain numbers: a scalar of NumPy would turn the arrays into float64.
        scale, stretch, turbulence = embedding[3 * COLOURS :].tolist()
        chance = random.Random(seed)
        x = self.x * (0.6 + stretch) + chance.uniform(0, 6)
        y = self.y * (1.6 - stretch) + chance.uniform(0, 6)
        u, v = np.broadcast_arrays(x, y)
        for step in range(steps):
            fineness = (1.2 + 1.2 * scale) * 1.7**step
            reach = (0.35 + 0.5 * turbulence) * 1.62**-step
            along, across = (chance.uniform(0, 6) + idx * DRIFT * chance.choice((-1, 1)) for _ in range(2))
            u = u + reach * np.sin(fineness * v + along)
            v = v + reach * np.sin(fineness * u + across)
        return x, y, u, v

    def noise(self, idx: int, seed: int, steps: int) -> np.ndarray:
        """Return the noise that so many steps leave."""
        top, left = np.random.default_rng((seed, idx)).integers(0, (self.height, self.width))
        return 0.4 * 0.4**steps * self.grain[top : top + self.height, left : left + self.width]

    def bend(self, image: np.ndarray, right: np.ndarray, down: np.ndarray, strength: float) -> np.ndarray:
        """Return the image with each pixel moved along the waves, further for a higher strength."""
        reach = 0.06 * strength * self.height
        rows = np.arange(self.height)[:, None] + (reach * down).astype(np.int32)
        columns = np.arange(self.width) + (reach * right).astype(np.int32)
        return image[rows.clip(0, self.height - 1), columns.clip(0, self.width - 1)]


def words_of(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.lower()) if word not in FILLING]


def embed(text: str) -> np.ndarray:
    """Return the vector of a text: known words give the colours in turn, all words the shape, the first ones most."""
    words = words_of(text) or ["silver"]
    coloured = [word for word in words if singular(word) in WORDS] or words
    palettes = [palette(word) for word in coloured]
    colours = [palettes[idx % len(palettes)][idx] for idx in range(COLOURS)]
    shapes = [[random.Random(f"{word}{number}").random() for number in range(3)] for word in words]
    shape = np.average(shapes, axis=0, weights=0.6 ** np.arange(len(words)))
    return np.concatenate([np.ravel(colours), shape])


def singular(word: str) -> str:
    return word if word in WORDS else word.removesuffix("s")


def palette(word: str) -> np.ndarray:
    """Return the colours of a word from dark to light, (COLOURS, 3) from 0 to 1."""
    known = WORDS.get(singular(word))
    if known:
        stops = np.array([list(bytes.fromhex(colour)) for colour in known.split()]) / 255
    else:
        chance = random.Random(word)
        bright = np.array([chance.random() for _ in range(3)])
        bright = (bright - bright.min()) / (bright.max() - bright.min())
        stops = np.array([0.12 * bright, 0.1 + 0.75 * bright, 0.8 + 0.2 * bright])
    places = np.linspace(0, 1, len(stops))
    return np.stack([np.interp(np.linspace(0, 1, COLOURS), places, stops[:, channel]) for channel in range(3)], axis=1)


def colour_ring(colours: np.ndarray) -> np.ndarray:
    """Return 1024 shades through the colours, from 0 to 255."""
    places = np.linspace(0, 1023, len(colours))
    shades = [np.interp(np.arange(1024), places, colours[:, channel]) for channel in range(3)]
    return (255 * np.stack(shades, axis=1)).astype(np.float32)
