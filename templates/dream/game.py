"""The game that the network learns, in NumPy: a dark cave, a hero with a lantern, torches, gems, and a wisp.

Many games run at once, the first index of every array is the game. Everything happens in cells and between neighbours.
"""

import numpy as np

# Cells of a cave and pixels of a cell, in width and height.
CELLS, CELL = 16, 6
SIDE = CELLS * CELL
TORCHES, GEMS = 5, 6
# Frames in which a flash of lightning fades.
FLASH = 8
# What the hero or the wisp may do in a frame: stay, or move to a neighbour, down and right.
WAYS = np.array([(0, 0), (-1, 0), (1, 0), (0, -1), (0, 1)])
# The wisp moves in one of this many frames, and turns in one of this many moves.
WISP_REST, WISP_TURNS = 3, 6
# The part of its light that a cell hands on, in equal shares to itself and its neighbours.
SPREAD = 0.9

# What is in a cell.
KINDS = FLOOR, WALL, FACE, TORCH, FLAME, GEM, HERO, WISP = range(8)
# The colours of floor and wall of the kinds of rock.
ROCKS = ((92, 84, 110), (38, 34, 58)), ((112, 92, 74), (52, 36, 30)), ((74, 102, 92), (24, 46, 48))
# Colours of light: of the lantern, a torch and the wisp in each frame, of lightning, and in the dark.
LANTERN, FIRE, GLOW, LIGHTNING, DARK = np.array(
    [(0.62, 0.5, 0.34), (0.62, 0.32, 0.1), (0.1, 0.4, 0.5), (0.8, 0.9, 1.1), (0.03, 0.035, 0.055)], np.float32
)


def pictures() -> np.ndarray:
    """Return the pictures of the cells in each kind of rock, (rocks, kinds, CELL, CELL, 3), from 0 to 255."""
    paints = {
        "h": (120, 60, 40), "s": (250, 210, 170), "c": (225, 55, 70), "b": (70, 50, 90), "w": (140, 95, 50),
        "y": (255, 235, 130), "o": (255, 150, 40), "g": (70, 225, 140), "l": (225, 255, 238), "d": (25, 150, 95),
        "i": (120, 230, 255), "m": (240, 255, 255),
    }  # fmt: skip
    drawn = [
        "...... .,.... ...... ....,. ...... ,.....",
        "###### ###### ###### ###### ###### ######",
        "###### ###### ++++++ +++#++ ++++++ +#++++",
        "...... ..ww.. .wwww. ..ww.. ..ww.. ......",
        "..y... ..yy.. .yoyy. .oyyo. ..ww.. ..ww..",
        "...... .ggg.. glggg. .ggd.. ..d... ......",
        "..hh.. .hssh. .ssss. cccccc .cccc. .b..b.",
        "...... ..ii.. .immi. .immi. ..ii.. ......",
    ]
    made = np.zeros((len(ROCKS), len(drawn), CELL, CELL, 3), np.float32)
    for rock, (floor, wall) in enumerate(np.array(ROCKS)):
        paints_here = paints | {".": floor, ",": 0.8 * floor, "#": wall, "+": 0.5 * floor + 0.5 * wall}
        made[rock] = [[[paints_here[letter] for letter in row] for row in rows.split()] for rows in drawn]
    return made


PICTURES = pictures()


class Caves:
    """Games that run side by side; a restarted game gets a new cave."""

    def __init__(self, count: int, seed: int) -> None:
        self.count = count
        self.rng = np.random.default_rng(seed)
        grid = (count, CELLS, CELLS)
        self.walls, self.torches, self.lit, self.gems = (np.zeros(grid, bool) for _ in range(4))
        self.hero, self.wisp = np.zeros((count, 2), int), np.zeros((count, 2), int)
        self.heading, self.flash, self.rock, self.age = (np.zeros(count, int) for _ in range(4))
        self.light = np.zeros((*grid, 3), np.float32)
        self.restart(np.arange(count))

    def restart(self, games: np.ndarray) -> None:
        """Start the games with these indexes again, each in a new cave, by a flash of lightning."""
        for game in games:
            self.walls[game] = new_walls(self.rng)
            free = self.rng.permutation(np.argwhere(~self.walls[game]))
            self.torches[game] = self.lit[game] = self.gems[game] = False
            self.torches[game][tuple(free[:TORCHES].T)] = True
            self.gems[game][tuple(free[TORCHES : TORCHES + GEMS].T)] = True
            self.hero[game], self.wisp[game] = free[-1], free[-2]
            self.heading[game] = self.rng.integers(1, len(WAYS))
            self.rock[game] = self.rng.integers(len(ROCKS))
            self.flash[game], self.age[game], self.light[game] = FLASH, 0, 0

    def headings(self) -> np.ndarray:
        """Return the way of each wisp in the next frame, drawn by chance; where it rests, that is 0."""
        ahead = self.wisp + WAYS[self.heading]
        blocked = self.walls[np.arange(self.count), *ahead.T]
        turns = blocked | (self.rng.integers(WISP_TURNS, size=self.count) == 0)
        ways = np.where(turns, self.rng.integers(1, len(WAYS), self.count), self.heading)
        return np.where(self.wisps_move(), ways, 0)

    def wisps_move(self) -> np.ndarray:
        """Return which wisps move in the next frame."""
        return self.age % WISP_REST == WISP_REST - 1

    def step(self, ways: np.ndarray, flashes: np.ndarray, headings: np.ndarray) -> None:
        """Advance by a frame: ways of heroes and headings of wisps are indexes of WAYS."""
        games = np.arange(self.count)
        self.age += 1
        self.hero, self.wisp = self.moved(self.hero, ways), self.moved(self.wisp, headings)
        self.heading = np.where(headings, headings, self.heading)
        self.lit[games, *self.hero.T] |= self.torches[games, *self.hero.T]
        self.gems[games, *self.hero.T] = False
        self.flash = np.where(flashes, FLASH, np.maximum(self.flash - 1, 0))
        self.shine()

    def moved(self, places: np.ndarray, ways: np.ndarray) -> np.ndarray:
        """Return the next places: a wall stops what would enter it."""
        there = places + WAYS[ways]
        return np.where(self.walls[np.arange(self.count), *there.T, None], places, there)

    def shine(self) -> None:
        """Spread the light of the previous frame, which walls absorb, and add the light of this frame."""
        games = np.arange(self.count)
        for _ in range(2):
            light = np.pad(self.light * ~self.walls[..., None], ((0, 0), (1, 1), (1, 1), (0, 0)))
            rows = light[:, :-2] + light[:, 1:-1] + light[:, 2:]
            self.light = (rows[:, :, :-2] + rows[:, :, 1:-1] + rows[:, :, 2:]) * (SPREAD / 9)
        self.light += self.lit[..., None] * FIRE
        self.light[games, *self.hero.T] += LANTERN
        self.light[games, *self.wisp.T] += GLOW

    def kinds(self) -> np.ndarray:
        """Return what is in each cell, (games, CELLS, CELLS) from FLOOR to WISP."""
        games = np.arange(self.count)
        below = np.roll(self.walls, -1, axis=1)
        kinds = np.where(self.walls, np.where(below, WALL, FACE), FLOOR)
        kinds[self.torches], kinds[self.lit], kinds[self.gems] = TORCH, FLAME, GEM
        kinds[games, *self.wisp.T] = WISP
        kinds[games, *self.hero.T] = HERO
        return kinds

    def draw(self) -> np.ndarray:
        """Return a frame of each game, uint8 (games, SIDE, SIDE, 3)."""
        games = np.arange(self.count)
        light = np.minimum(2.2 * np.sqrt(self.light), 1.25)
        light[games, *self.wisp.T] = light[games, *self.hero.T] = 1
        light += DARK + LIGHTNING * np.square(self.flash / FLASH, dtype=np.float32)[:, None, None, None]
        frames = PICTURES[self.rock[:, None, None], self.kinds()] * light[:, :, :, None, None]
        frames = frames.transpose(0, 1, 3, 2, 4, 5).reshape(self.count, SIDE, SIDE, 3)
        return np.minimum(frames, 255).astype(np.uint8)


def new_walls(rng: np.random.Generator) -> np.ndarray:
    """Return the walls of a cave of which every part can be reached."""
    while True:
        rough = np.pad(rng.random((CELLS - 2, CELLS - 2)) < 0.42, 2, constant_values=True)
        near = np.sum([rough[y : y + CELLS, x : x + CELLS] for y in range(3) for x in range(3)], axis=0)
        walls = near >= 5
        walls[[0, -1]] = walls[:, [0, -1]] = True
        reached, before = np.zeros_like(walls), 0
        reached[tuple(rng.permutation(np.argwhere(~walls))[:1].T)] = True
        while reached.sum() > before:
            before = reached.sum()
            for axis in (0, 1):
                reached |= (np.roll(reached, 1, axis) | np.roll(reached, -1, axis)) & ~walls
        if before >= 70:
            return ~reached
