"""Paint waves whose colours and directions depend on the prompt and the seed: a stand-in for a diffusion model."""

import zlib

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 512, 512


class Painter:
    def paint(self, prompt, seed):
        rng = np.random.default_rng([zlib.crc32(prompt.encode()), seed])
        angle = rng.uniform(0, 6.3) + rng.uniform(0, 0.9, size=3)
        y, x = np.mgrid[0 : 1 : HEIGHT * 1j, 0 : 1 : WIDTH * 1j][..., None]
        y = y + 0.1 * np.sin(rng.uniform(4, 12) * x)
        painted = 127 + 127 * np.sin(rng.uniform(5, 25) * (x * np.cos(angle) + y * np.sin(angle)))
        return Image.fromarray(painted.astype(np.uint8))
