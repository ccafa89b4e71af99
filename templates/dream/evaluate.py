"""Measure how long dreams stay with the game, and write rollouts.svg.

    python evaluate.py

Dreams of caves that training never showed run beside their games. Now and then copies of both get a flash of lightning,
in which a dream shows everything that it remembers.
"""

import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from dreamer import Dreamer, load_dream
from game import CELL, CELLS
from train import WEIGHTS, Players

CHART = Path(__file__).with_name("rollouts.svg")
# Training has the seed 1 unless told otherwise, so these caves are new.
GAMES, SEED = 48, 1_000_000
FRAMES, EVERY = 1000, 20
WIDTH, HEIGHT = 560, 220
CURVES = {"heroes where the game has them": "#c2334d", "cells as in the game, in a flash": "#2a6fbb"}
# A cell is right if its pixels differ by less than this on average, from 0 to 255.
TOLERANCE = 12


def right_cells(dreamer: Dreamer) -> np.ndarray:
    """Return which cells a dream and its game show alike in a flash, (games, rows, columns)."""
    lit = copy.deepcopy(dreamer)
    lit.step(np.zeros(GAMES, int), np.ones(GAMES, bool))
    apart = np.abs(lit.frames().astype(float) - lit.games.draw())
    return apart.reshape(GAMES, CELLS, CELL, CELLS, CELL, 3).mean(axis=(2, 4, 5)) < TOLERANCE


def heroes_in_place(dreamer: Dreamer) -> np.ndarray:
    """Return in which dreams the hero is in the cell where the game has it: there the two frames are alike."""
    apart = np.abs(dreamer.frames().astype(float) - dreamer.games.draw())
    cells = apart.reshape(GAMES, CELLS, CELL, CELLS, CELL, 3).mean(axis=(2, 4, 5))
    return cells[np.arange(GAMES), *dreamer.games.hero.T] < 2 * TOLERANCE


def measure(dreamer: Dreamer) -> Iterator[tuple[int, float, float]]:
    """Play with random keys; yield every EVERY frames their number, and the shares of heroes and cells in place."""
    players = Players(GAMES, SEED)
    for number in range(1, FRAMES + 1):
        dreamer.step(*players.press())
        if number % EVERY == 0:
            yield number, heroes_in_place(dreamer).mean(), right_cells(dreamer).mean()


def chart(rows: list[tuple[int, float, float]]) -> str:
    """Return a drawing of the two shares over time, as SVG."""
    numbers, *curves = zip(*rows, strict=True)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH + 90} {HEIGHT + 60}" font-family="sans-serif">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = 20 + HEIGHT * (1 - share)
        parts.append(f'<path d="M50 {y:g}h{WIDTH}" stroke="#dddddd"/>')
        parts.append(f'<text x="44" y="{y + 4:g}" font-size="12" text-anchor="end">{share:.0%}</text>')
    for number in range(0, FRAMES + 1, FRAMES // 5):
        x = 50 + WIDTH * number / FRAMES
        parts.append(f'<text x="{x:g}" y="{HEIGHT + 38}" font-size="12" text-anchor="middle">{number}</text>')
    for curve, colour in zip(curves, CURVES.values(), strict=True):
        points = " ".join(
            f"{50 + WIDTH * number / FRAMES:.1f},{20 + HEIGHT * (1 - share):.1f}"
            for number, share in zip((0, *numbers), (1.0, *curve), strict=True)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
    for row, (name, colour) in enumerate(CURVES.items()):
        parts.append(f'<text x="60" y="{HEIGHT - 18 + 18 * row}" font-size="13" fill="{colour}">{name}</text>')
    parts.append(f'<text x="50" y="{HEIGHT + 55}" font-size="12">frames after the first</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    torch.set_num_threads(1)
    dream = load_dream(WEIGHTS)
    rows = []
    print("frame  heroes  cells", flush=True)
    for number, heroes, cells in measure(Dreamer(dream, games=GAMES, seed=SEED)):
        rows.append((number, heroes, cells))
        print(f"{number:5}  {heroes:6.0%}  {cells:5.1%}", flush=True)
    CHART.write_text(chart(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
