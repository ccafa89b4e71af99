"""Send frames to the model, and write the newest frame that it returns to out.jpg.

    python send_frames.py                                    send drawn frames
    python send_frames.py filter=oil strength=0.8            set these controls first
    ffmpeg -loglevel error -f v4l2 -i /dev/video0 -f mjpeg - | python send_frames.py -      send a camera on Linux

This client is the controller while it runs: start it before the page, and watch at http://127.0.0.1:8080/?role=viewer.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np
import yaml
from reactor_runtime.client import ClientError, Phase, connect

from card import draw_card

URL = "http://127.0.0.1:8080"


def main(words: list[str]) -> None:
    url = next((word for word in words if "://" in word), URL)
    values = dict(word.split("=", 1) for word in words if "=" in word and word != url)
    with connect(url, wait=False) as session:
        for status in session.statuses():
            # A second controller waits in the wait queue.
            print(status)
            if status.phase is Phase.CONNECTED:
                break
        for name, value in values.items():
            session.send(f"set_{name}", {name: yaml.safe_load(value)})
        for frame in piped(sys.stdin.fileno()) if "-" in words else drawn():
            session.publish("camera", frame)
            if latest := session.latest():
                Path("out.jpg").write_bytes(latest.jpeg)
        # A pipe may end before the first frame has come back.
        Path("out.jpg").write_bytes(session.frame().jpeg)


def piped(pipe: int) -> Iterator[bytes]:
    """Split the output of ffmpeg into JPEG files: each begins with FF D8, right after the FF D9 of the one before."""
    kept = b""
    while piece := os.read(pipe, 65536):
        kept += piece
        while (end := kept.find(b"\xff\xd9\xff\xd8")) >= 0:
            yield kept[: end + 2]
            kept = kept[end + 2 :]
    if kept:
        yield kept


def drawn() -> Iterator[np.ndarray]:
    """Yield a drawn frame 30 times a second."""
    for idx in count():
        yield draw_card(640, 480, idx / 30)
        time.sleep(1 / 30)


if __name__ == "__main__":
    try:
        with suppress(KeyboardInterrupt):
            main(sys.argv[1:])
    except (ClientError, ValueError) as error:
        sys.exit(str(error))
