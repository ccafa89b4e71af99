"""Make prompt.webp, the moving image of the README: the template `prompt` while its prompt is changed.

    .venv/bin/python docs/images/prompt.py

It runs the template without a server, so the result depends on the template only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from reactor_runtime import PipelineExecutor

HERE = Path(__file__).resolve().parent
PROMPTS = ("northern lights over a lake", "neon city in the rain", "a forest in autumn", "liquid gold")
WIDTH, HEIGHT, BAR = 448, 252, 44
# Frames for each prompt at this rate: typing, then watching.
FPS, TYPING, WATCHING = 12, 11, 15
QUALITY = 60


def images() -> Iterator[Image.Image]:
    sys.path.insert(0, str(HERE.parents[1] / "templates" / "prompt"))
    from pipeline import MyModel  # type: ignore[import-not-found]

    with PipelineExecutor(MyModel, config={"width": 2 * WIDTH, "height": 2 * HEIGHT, "chunk_size": 2}) as session:
        session.connect()
        session.send_event("set_prompt", prompt=PROMPTS[-1])
        session.send_event("set_blend", blend=1.6)
        # The first frame is a blended one, and so the end of the loop.
        for _ in range(24):
            next(session)
        for prompt in PROMPTS:
            for idx in range(TYPING + WATCHING):
                if idx == TYPING:
                    session.send_event("set_prompt", prompt=prompt)
                # The template makes 24 frames a second: every second one is shown.
                # Half the size has less noise, which is expensive to compress.
                frame = Image.fromarray(next(session).output.main_video[0]).reduce(2)
                typed = prompt[: len(prompt) * (idx + 1) // TYPING]
                yield with_prompt(frame, typed, sent=idx >= TYPING)


def with_prompt(frame: Image.Image, text: str, *, sent: bool) -> Image.Image:
    """Return a frame with a line of text below it, bright when it has been sent."""
    image = Image.new("RGB", (WIDTH, HEIGHT + BAR), (16, 17, 22))
    image.paste(frame)
    draw = ImageDraw.Draw(image)
    colour = (245, 245, 248) if sent else (150, 152, 164)
    draw.text((18, HEIGHT + BAR // 2), text + ("" if sent else "|"), colour, ImageFont.load_default(18), anchor="lm")
    return image


def main() -> None:
    first, *others = images()
    path = HERE / "prompt.webp"
    options = {"duration": 1000 // FPS, "loop": 0, "quality": QUALITY, "method": 6}
    first.save(path, save_all=True, append_images=others, **options)
    sys.stdout.write(f"{path.name}: {len(others) + 1} images, {path.stat().st_size // 1000} kB\n")


if __name__ == "__main__":
    main()
