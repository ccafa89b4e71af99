"""Draw the land from the eye by raycasting: one ray over the hills for each column of the frame."""

from dataclasses import dataclass
from math import cos, exp, pi, sin, tan

import numpy as np

from landscape import SIZE, Landscape, noise

STEPS = 160
# The distance of the sky, in cells.
SKY = 1e6
# The colours of each hour: the zenith, the haze at the horizon, and the light on the land.
HOURS = (0, 4.5, 6, 7.5, 10, 15, 17, 18.5, 20, 24)
ZENITH = [(5, 8, 26), (10, 14, 44), (52, 70, 128), (84, 132, 200), (62, 128, 222),
          (66, 130, 222), (88, 116, 190), (62, 54, 122), (14, 16, 52), (5, 8, 26)]  # fmt: skip
HAZE = [(16, 22, 52), (40, 36, 80), (240, 150, 110), (236, 206, 170), (188, 216, 240),
        (196, 218, 236), (250, 204, 140), (246, 126, 92), (60, 44, 92), (16, 22, 52)]  # fmt: skip
LIGHT = [(72, 86, 138), (78, 88, 144), (190, 148, 142), (255, 230, 194), (270, 265, 255),
         (270, 265, 255), (280, 235, 178), (220, 142, 128), (66, 62, 108), (72, 86, 138)]  # fmt: skip


@dataclass
class Eye:
    """The point of view: place, height above the sea floor; heading, tilt and pitch in radians."""

    x: float
    y: float
    z: float
    heading: float
    tilt: float = 0.0
    pitch: float = 0.0


@dataclass
class Rays:
    """The rays of the eye, one for each column: how far each moves right and down on the map for each step ahead.

    `level` is the row of the frame at the height of the eye.
    """

    eye: Eye
    right: np.ndarray
    down: np.ndarray
    level: np.ndarray


class View:
    """Draw frames of one size of one land."""

    def __init__(self, land: Landscape, width: int, height: int) -> None:
        self.land = land
        self.width, self.height = width, height
        self.focal = 0.7 * width
        self.rows = np.arange(height, dtype=np.float32)[:, None]
        self.columns = np.arange(width)
        self.across = ((self.columns + 0.5 - width / 2) / self.focal).astype(np.float32)
        self.far = np.geomspace(4, 900, STEPS, dtype=np.float32)
        rng = np.random.default_rng(3)
        self.grain = rng.uniform(0.88, 1.12, SIZE * SIZE).astype(np.float32)
        self.clouds = np.clip(3 * noise(rng, roughness=1.9) - 1.5, 0, 1).astype(np.float32).ravel()
        self.stars = rng.uniform((-pi, 0.03), (pi, 0.5), (400, 2))

    def draw(self, eye: Eye, hour: float, t: float, lights: np.ndarray) -> np.ndarray:
        """Return the frame at an hour; `t` moves clouds and waves, `lights` are rows of x, y and height."""
        rays = Rays(
            eye,
            right=cos(eye.heading) - sin(eye.heading) * self.across,
            down=sin(eye.heading) + cos(eye.heading) * self.across,
            level=0.42 * self.height + self.focal * (tan(eye.pitch) + tan(eye.tilt) * self.across),
        )
        zenith, haze, light = (at_hour(table, hour) for table in (ZENITH, HAZE, LIGHT))
        distance = self.distances(rays)
        frame = np.empty((self.height, self.width, 3), np.float32)
        sky = frame[: min(self.height, max(0, int(rays.level.max()) + 1))]
        self.draw_sky(sky, rays, t, zenith, haze)
        frame[len(sky) :] = haze
        sun, moon = (255, 226, 160), (150, 160, 190)
        self.draw_disc(frame, rays, hour, sun)
        self.draw_disc(frame, rays, hour + 12, moon)
        first = np.argmax((distance < SKY).any(axis=1))
        near = distance[first:]
        paint = self.ground(eye.x + near * rays.right, eye.y + near * rays.down, t, light, 0.5 * (zenith + haze))
        frame[first:] += np.exp(-np.square(near / 420))[..., None] * (paint - frame[first:])
        darkness = 1.4 - light.mean() / 300
        for place in lights:
            self.shine(frame, distance, rays, place, darkness)
        return np.clip(frame, 0, 255).astype(np.uint8)

    def draw_sky(self, frame: np.ndarray, rays: Rays, t: float, zenith: np.ndarray, haze: np.ndarray) -> None:
        """Draw the sky, also behind the hills, because distant land fades into it."""
        up = np.maximum(rays.level - self.rows[: len(frame)], 0) / self.focal
        frame[:] = zenith + np.exp(-6 * up)[..., None] * (haze - zenith)
        for azimuth, height in self.stars if zenith.mean() < 50 else ():
            column, row = self.on_screen(azimuth - rays.eye.heading, height, rays.level)
            if 0 <= row < len(frame) and 0 <= column < self.width:
                frame[int(row), int(column)] += 150
        # Clouds lie in a plane: the lower they are in the frame, the farther away they are.
        away = 30 / (up + 0.04)
        cover = self.clouds.take(cells(away * rays.right + 6 * t, away * rays.down))
        frame += (cover * np.minimum(8 * up, 0.9))[..., None] * (0.35 * zenith + 0.75 * haze - frame)

    def draw_disc(self, frame: np.ndarray, rays: Rays, hour: float, colour: tuple[int, int, int]) -> None:
        """Draw a disc that rises at 6 in the east and sets at 18, and its glow in the haze."""
        course = (hour - 6) / 12 * pi
        column, row = self.on_screen(course - rays.eye.heading, 0.5 * sin(course), rays.level)
        if -self.height < row < 2 * self.height:
            size = self.width / 30
            across = np.square((self.columns - column) / size).astype(np.float32)
            along = np.square((self.rows - row) / size)
            disc = np.clip(3.3 - 3 * (along + across), 0, 1) * (self.rows < rays.level)
            glow = 0.45 * np.exp(-along / 60) * np.exp(-across / 60)
            frame += (disc + glow)[..., None] * np.array(colour, np.float32)

    def ground(self, x: np.ndarray, y: np.ndarray, t: float, light: np.ndarray, sky: np.ndarray) -> np.ndarray:
        """Return the colours of the land at places, in the light of the hour; water reflects the sky and glitters."""
        grain = self.grain.take(cells(4 * x, 4 * y))
        # Makes the edges between cells irregular.
        ragged = 4 * grain - 4
        paint = self.land.paint.take(cells(x + ragged, y - ragged))
        colours = paint.view(np.uint8).reshape(-1, 4)
        lit = colours[:, :3] * (light / 255) * grain.reshape(-1, 1)
        wet = np.flatnonzero(colours[:, 3])
        x, y = x.ravel()[wet], y.ravel()[wet]
        waves = self.grain.take(cells(3 * x + 5 * t, 3 * y)) * self.grain.take(cells(2 * x, 2 * y - 4 * t))
        glitter = 400 * np.maximum(waves - 1.15, 0)
        lit[wet] = 0.4 * lit[wet] + 0.6 * sky * waves[:, None] + glitter[:, None]
        return lit.reshape(*paint.shape, 3)

    def on_screen(self, angle: float, up: float, level: np.ndarray) -> tuple[float, float]:
        """Return column and row of a point in the sky at an angle to the heading; far outside if it is behind."""
        angle = (angle + pi) % (2 * pi) - pi
        if abs(angle) > 1.4:
            return -9e9, -9e9
        column = self.width / 2 + self.focal * tan(angle)
        return column, level[min(max(int(column), 0), self.width - 1)] - self.focal * up / cos(angle)

    def shine(self, frame: np.ndarray, distance: np.ndarray, rays: Rays, light: np.ndarray, glow: float) -> None:
        """Add a light where nothing is in front of it."""
        eye = rays.eye
        x, y = (light[:2] - (eye.x, eye.y) + SIZE / 2) % SIZE - SIZE / 2
        ahead, aside = x * cos(eye.heading) + y * sin(eye.heading), y * cos(eye.heading) - x * sin(eye.heading)
        if ahead < 3 or abs(aside) > 1.2 * ahead:
            return
        column = self.width / 2 + self.focal * aside / ahead
        row = rays.level[min(max(int(column), 0), self.width - 1)] + (eye.z - light[2]) * self.focal / ahead
        size = max(1.5, 1.6 * self.focal / ahead)
        top, left = max(0, int(row - 9 * size)), max(0, int(column - 9 * size))
        area = np.s_[top : max(0, int(row + 9 * size)), left : max(0, int(column + 9 * size))]
        away = np.square((self.rows[area[0]] - row) / size) + np.square((self.columns[area[1]] - column) / size)
        strength = 0.5 * glow * np.exp(-away / 9) + 2 * np.exp(-away)
        strength *= (distance[area] > ahead) * exp(-((ahead / 700) ** 2))
        frame[area] += strength[..., None] * np.array([255, 190, 90], np.float32)

    def distances(self, rays: Rays) -> np.ndarray:
        """Return the distance of the land at each pixel, SKY where there is none."""
        eye, far = rays.eye, self.far[:, None]
        ground = self.land.height_at(eye.x + far * rays.right, eye.y + far * rays.down)
        # The row of each step of each ray. Land that is lower than nearer land is hidden.
        rows = np.minimum.accumulate(rays.level + (eye.z - ground) * self.focal / far, axis=0)
        # A pixel shows the first step that reaches its row. Count, row by row, the steps that end there.
        ends = np.clip(np.ceil(rows), 0, self.height).astype(np.int32) * self.width + self.columns
        counts = np.bincount(ends.ravel(), minlength=(self.height + 1) * self.width).astype(np.int16)
        step = STEPS - np.cumsum(counts.reshape(-1, self.width)[:-1], axis=0, dtype=np.int16).astype(np.int32)
        # The distance is between that step and the previous one, in proportion to the row between their rows.
        after, before = np.minimum(step, STEPS - 1), np.maximum(step - 1, 0)
        low, high = (rows.take(number * self.width + self.columns) for number in (before, after))
        share = np.clip((low - self.rows) / np.maximum(low - high, 1e-3), 0, 1)
        distance = self.far.take(before) + share * (self.far.take(after) - self.far.take(before))
        distance[step == STEPS] = SKY
        return distance


def cells(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the indexes of the cells at places, row by row."""
    column, row = np.floor(x).astype(np.int32), np.floor(y).astype(np.int32)
    return (row & (SIZE - 1)) * SIZE + (column & (SIZE - 1))


def at_hour(table: list[tuple[int, int, int]], hour: float) -> np.ndarray:
    """Return the colour of a table at an hour, interpolated."""
    return np.array([np.interp(hour, HOURS, part) for part in zip(*table, strict=True)], np.float32)
