"""Make dream.webp, the moving image of the README: the template `dream` beside its game.

    .venv/bin/python docs/images/dream.py

A script plays the template without a server, so the result depends on the template only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from reactor_runtime import PipelineExecutor

HERE = Path(__file__).resolve().parent
Place = tuple[int, int]
SEED = 1
WIDTH, HEIGHT, BAR = 768, 384, 40
# Every second frame of the template is shown, at half its rate.
FPS, FRAMES, LIGHTNING = 10, 120, 200
QUALITY = 70
LABELS = ("the network's dream", "the game that it learned")


def images() -> Iterator[Image.Image]:
    sys.path.insert(0, str(HERE.parents[1] / "templates" / "dream"))
    from pipeline import MyModel  # type: ignore[import-not-found]

    with PipelineExecutor(MyModel, config={"width": WIDTH, "height": HEIGHT, "seed": SEED}) as session:
        session.connect()
        for number in range(2 * FRAMES):
            down, right = way(session.state._dreamer.games)
            session.send_event("set_move", move=(float(right), float(-down)))
            if number == LIGHTNING:
                session.send_event("lightning")
            frame = next(session).output.main_video
            if number % 2 == 0:
                yield labelled(Image.fromarray(frame))


def way(games: Any) -> Place:
    """Return the first step, down and right, to the nearest torch that is not lit or to the nearest gem."""
    start = tuple(games.hero[0])
    goals = games.gems[0] | (games.torches[0] & ~games.lit[0])
    first_steps = {start: (0, 0)}
    queue = [start]
    for place in queue:
        if goals[place]:
            return first_steps[place]
        for step in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            beside = (place[0] + step[0], place[1] + step[1])
            if beside not in first_steps and not games.walls[0][beside]:
                first_steps[beside] = step if place == start else first_steps[place]
                queue.append(beside)
    return 0, 0


def labelled(frame: Image.Image) -> Image.Image:
    """Return a frame with a line of text below each half."""
    image = Image.new("RGB", (WIDTH, HEIGHT + BAR), (16, 17, 22))
    image.paste(frame)
    draw = ImageDraw.Draw(image)
    for half, label in enumerate(LABELS):
        place = (WIDTH * (2 * half + 1) // 4, HEIGHT + BAR // 2)
        draw.text(place, label, (205, 207, 216), ImageFont.load_default(16), anchor="mm")
    return image


def main() -> None:
    first, *others = images()
    path = HERE / "dream.webp"
    options = {"duration": 1000 // FPS, "loop": 0, "quality": QUALITY, "method": 6}
    first.save(path, save_all=True, append_images=others, **options)
    sys.stdout.write(f"{path.name}: {path.stat().st_size // 1000} kB\n")


if __name__ == "__main__":
    main()
