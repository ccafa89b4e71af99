"""Send pictures to the model, and keep the newest of those that come back in out.jpg.

    python send_frames.py                                    a drawn sun that looks about
    python send_frames.py filter=oil strength=0.8            and sets these
    ffmpeg -loglevel error -f v4l2 -i /dev/video0 -f mjpeg - | python send_frames.py -      a camera, here on Linux

It has the controls while it runs: start it before the page, and watch at http://127.0.0.1:8080/?role=viewer.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import simplejpeg
import websockets
import yaml

from card import draw_card

URL = "ws://127.0.0.1:8080/ws"


async def main(words: list[str]) -> None:
    url = next((word for word in words if word.startswith("ws://")), URL)
    async with websockets.connect(url, max_size=None) as socket, asyncio.TaskGroup() as tasks:
        async for message in socket:
            if isinstance(message, bytes):  # a picture: a JPEG file as it is
                Path("out.jpg").write_bytes(message)
                continue
            said = json.loads(message)
            if said["type"] == "reactor.session" and said["data"]["phase"] == "started":
                tasks.create_task(send(socket, words))
            elif said["type"] in ("camera_on", "reactor.error", "reactor.queue"):
                print(message)


async def send(socket: websockets.ClientConnection, words: list[str]) -> None:
    pictures = piped(sys.stdin.fileno()) if "-" in words else drawn()
    with suppress(websockets.ConnectionClosed):
        for name, value in (word.split("=") for word in words if "=" in word):
            await socket.send(json.dumps({"type": f"set_{name}", "data": {name: yaml.safe_load(value)}}))
        while jpeg := await asyncio.to_thread(next, pictures, None):
            await socket.send(jpeg)  # the same the other way: a JPEG in a binary message, and nothing else
    await socket.close()


def piped(pipe: int) -> Iterator[bytes]:
    """Cut what ffmpeg writes into pictures: each begins with FF D8, right after the FF D9 of the one before."""
    kept = b""
    while piece := os.read(pipe, 65536):
        kept += piece
        while (end := kept.find(b"\xff\xd9\xff\xd8")) >= 0:
            yield kept[: end + 2]
            kept = kept[end + 2 :]
    yield kept


def drawn() -> Iterator[bytes]:
    """Draw thirty pictures a second."""
    for idx in count():
        yield simplejpeg.encode_jpeg(draw_card(640, 480, idx / 30))
        time.sleep(1 / 30)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1:]))
