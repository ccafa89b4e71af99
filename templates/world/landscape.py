"""Make the land: its heights and colours. It has no border: opposite sides are joined."""

import numpy as np

# Width and height in cells; a power of two, so that `& (SIZE - 1)` wraps coordinates around.
SIZE = 1024
SEA = 22.0


class Landscape:
    """A land made from a seed: `height` and `paint` of each cell; the fourth byte of `paint` marks water."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        hills = noise(rng, roughness=2.3)
        shore = SEA * np.clip(hills / 0.4, 0, 1)
        self.height = (shore + 125 * np.clip(hills - 0.18, 0, None) ** 1.7).astype(np.float32)
        woods = noise(rng, roughness=1.5)
        is_wood = (woods > 0.52) & (self.height > SEA + 3) & (self.height < 62)
        trees = is_wood & (rng.random((SIZE, SIZE)) < 0.3)
        self.paint = paint(self.height, woods, trees, rng)
        self.height += np.where(trees, rng.uniform(2, 5, (SIZE, SIZE)), 0).astype(np.float32)
        np.maximum(self.height, SEA, out=self.height)

    def height_at(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the heights at places, interpolated between the four cells around each."""
        left, top = np.floor(x), np.floor(y)
        right_share, low_share = x - left, y - top
        column, row = left.astype(np.int32) & (SIZE - 1), top.astype(np.int32) & (SIZE - 1)
        next_column, next_row = column + 1 & (SIZE - 1), (row + 1 & (SIZE - 1)) * SIZE
        row *= SIZE
        cells = self.height.ravel()
        upper, lower = cells.take(row + column), cells.take(next_row + column)
        upper += right_share * (cells.take(row + next_column) - upper)
        lower += right_share * (cells.take(next_row + next_column) - lower)
        return upper + low_share * (lower - upper)


def noise(rng: np.random.Generator, roughness: float) -> np.ndarray:
    """Return noise from 0 to 1 without a seam: waves of all lengths, long ones with the largest amplitude."""
    y, x = np.fft.fftfreq(SIZE)[:, None], np.fft.rfftfreq(SIZE)
    length = np.hypot(x, y)
    length[0, 0] = 1
    waves = np.fft.rfft2(rng.standard_normal((SIZE, SIZE))) * np.where(length < 2.5 / SIZE, 0, length**-roughness)
    cloud = np.fft.irfft2(waves)
    cloud = cloud / (5 * cloud.std()) + 0.5
    return np.clip(cloud, 0, 1)


def paint(height: np.ndarray, woods: np.ndarray, trees: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the colour of each cell, by height and slope in the light of a low sun, as one number of four bytes."""
    slope_x, slope_y = np.roll(height, -1, 1) - height, np.roll(height, -1, 0) - height
    steep = np.hypot(slope_x, slope_y)
    colour = np.empty((*height.shape, 3))
    colour[:] = (96, 138, 58)
    colour += ((woods - 0.5) * 160)[..., None] * (0.5, -0.1, 0.1)
    colour[trees] = (34, 74, 38)
    colour[height < SEA + 2.2] = (214, 196, 140)
    colour[(steep > 1.1) | (height > 74)] = (126, 114, 104)
    colour[(height > 84) & (steep < 1.9)] = (238, 242, 250)
    colour *= rng.uniform(0.94, 1.04, (*height.shape, 1))
    light = np.clip(0.92 - 0.34 * slope_x - 0.22 * slope_y, 0.35, 1.35)
    colour *= light[..., None]
    water = height <= SEA
    deep = np.clip((SEA - height) / 10, 0, 1)[water, None]
    colour[water] = (1 - deep) * (70, 150, 150) + deep * (24, 70, 110)
    bytes_ = np.dstack([np.clip(colour, 0, 255), 255 * water]).astype(np.uint8)
    return bytes_.view(np.uint32)[..., 0].copy()
