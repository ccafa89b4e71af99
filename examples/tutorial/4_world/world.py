"""A maze in a grid: x is the real part of a place, y the imaginary part, and a heading of 0 looks along x."""

import numpy as np

MAZE = [
    "################",
    "#............G.#",
    "#..##..####.G..#",
    "#..#......#....#",
    "#..#..##..##..##",
    "#.....#........#",
    "#..####..#..G..#",
    "#........#.....#",
    "#..G..####..##.#",
    "#..............#",
    "################",
]
WALLS = np.array([[cell == "#" for cell in row] for row in MAZE])
GEMS = [x + 0.5 + 1j * (y + 0.5) for y, row in enumerate(MAZE) for x, cell in enumerate(row) if cell == "G"]
START = 1.5 + 1.5j
WIDTH, HEIGHT = 480, 270
COLUMNS = np.linspace(-0.9, 0.9, WIDTH, dtype=np.float32)
ROWS = np.linspace(-1, 1, HEIGHT, dtype=np.float32)[:, None]
STEPS = np.arange(0.02, 16, 0.03, dtype=np.float32)[:, None]
# The floor at a row is as far away as a wall that ends there, and what is far away is dark.
GROUND = (np.exp(-0.3 / abs(ROWS).clip(0.06)) * np.where(ROWS > 0, [90, 100, 130], [24, 26, 50])).astype(np.float32)
BRICK, GEM = np.array([[200, 120, 90], [80, 255, 200]], np.float32)


def is_free(place):
    near = [place + 0.2 * corner for corner in (1 + 1j, 1 - 1j, -1 + 1j, -1 - 1j)]
    return not any(WALLS[int(point.imag), int(point.real)] for point in near)


def find_gem(place):
    return next((gem for gem in GEMS if abs(gem - place) < 0.5), None)


def view(place, heading, found):
    """Return what somebody sees from a place: one ray for each column of the frame."""
    rays = ((1 + 1j * COLUMNS) * np.exp(1j * heading)).astype(np.complex64)
    points = np.complex64(place) + STEPS * rays
    hit = WALLS[points.imag.astype(int).clip(0, 10), points.real.astype(int).clip(0, 15)].argmax(axis=0)
    depth, end = STEPS[hit, 0], points[hit, np.arange(WIDTH)]
    bricks = np.exp(-0.2 * depth) * (0.85 + 0.15 * np.cos(20 * (end.real + end.imag)))
    is_wall = abs(ROWS) * depth < 1
    frame = np.where(is_wall[..., None], bricks[:, None] * BRICK, GROUND[:, None])
    for gem in GEMS:
        ahead = (gem - place) * np.exp(-1j * heading)
        if gem not in found and ahead.real > 0.2:
            across = 2 * (np.float32(ahead.real) * COLUMNS - np.float32(ahead.imag))
            glow = np.exp(-5 * np.hypot(across, np.float32(ahead.real) * ROWS - np.float32(0.4))) * (ahead.real < depth)
            frame += glow[..., None] * GEM
    return frame.clip(0, 255).astype(np.uint8)
