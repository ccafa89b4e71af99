from __future__ import annotations

import re

import numpy as np
import pytest

from reactor_runtime.client.halfblocks import HALF, fit_size, lines


@pytest.mark.parametrize(
    ("pixels", "room", "rows_and_columns"),
    [
        ((360, 640), (80, 24), (22, 80)),
        ((640, 360), (80, 24), (24, 27)),
        ((10, 10), (80, 10), (10, 20)),
        ((1, 4000), (80, 24), (1, 80)),
        ((4000, 1), (80, 24), (24, 1)),
    ],
)
def test_a_frame_keeps_its_aspect_ratio(
    pixels: tuple[int, int], room: tuple[int, int], rows_and_columns: tuple[int, int]
) -> None:
    assert fit_size(*pixels, *room) == rows_and_columns


def test_each_character_shows_two_pixels() -> None:
    pixels = np.zeros((2, 2, 3), np.uint8)
    pixels[0, 0], pixels[1, 0], pixels[0, 1] = (255, 0, 0), (0, 0, 255), (1, 2, 3)
    (line,) = lines(pixels, 2, 1)
    assert line == f"\x1b[38;2;255;0;0;48;2;0;0;255m{HALF}\x1b[38;2;1;2;3;48;2;0;0;0m{HALF}\x1b[0m"


def test_a_colour_code_is_written_once_per_colour() -> None:
    (line, *_), count = (drawn := lines(np.full((90, 160, 3), 7, np.uint8), 40, 12)), len(drawn)
    assert (count, line.count(HALF), len(re.findall(r"\x1b\[38", line))) == (11, 40, 1)
