"""H.264 from a running server: decoded, with the number that the model drew into each frame."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from reactor_runtime.server.encoding.encodings import encoding_names
from reactor_runtime.wire.containers import MP4
from reactor_runtime.wire.fragmented_mp4 import read_message
from tests.server.client import WireClient, client, controlling, parse_frame
from tests.server.running import RunningServer, serving, write_project
from tests.server.stream import asked
from tests.timeouts import TIMEOUT_S

MODEL = """
from dataclasses import dataclass

import numpy as np


@dataclass
class Both(Output):
    left: Video
    right: Video


class MyState(InputState):
    level: int = 0


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def inference(self):
        number = 0
        while True:
            frame = np.zeros((64, 128, 3), np.uint8)
            # One column of eight pixels for each of the lowest bits.
            for bit in range(16):
                frame[:, 8 * bit : 8 * bit + 8] = 235 if number >> bit & 1 else 20
            number += 1
            yield Both(frame, 255 - frame)
"""
H264 = {"codecs": ["h264"]}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = write_project(tmp_path_factory.mktemp("video"), MODEL)
    with serving(project, "--codec", "always") as server:
        yield server


class Decoder:
    """Decode the pieces of one track in their order."""

    def __init__(self, *, inverted: bool = False) -> None:
        self.numbers: list[int] = []
        self._inverted = inverted
        self._decoder: av.VideoCodecContext | None = None

    def decode(self, data: bytes) -> int:
        """Return the number that is drawn in a frame."""
        message = read_message(data)
        if message.config is not None:
            self._decoder = av.CodecContext.create("h264", "r")
            self._decoder.extradata = message.config.avcc
        assert self._decoder is not None, "the first piece is a key"
        (frame,) = self._decoder.decode(av.Packet(message.sample))
        bits = (frame.to_ndarray(format="rgb24")[32, 4::8, 0] > 127) ^ self._inverted
        self.numbers.append(int((bits.astype(np.int64) << np.arange(16)).sum()))
        return self.numbers[-1]


async def next_media(wire: WireClient) -> tuple[str, bytes]:
    """Return the next file and its track, and acknowledge it."""
    while not isinstance(data := await wire.next(), bytes):
        pass
    if MP4.matches(data):
        header = MP4.read(data)
        assert header is not None
        track, seq = header.track, header.seq
    else:
        frame = parse_frame(data)
        track, seq = frame.header.track, frame.header.seq
    await wire.send("reactor.ack", {"track": track, "seq": seq, "held_ms": 0.5})
    return track, data


def statistics(wire: WireClient) -> list[dict[str, Any]]:
    """Return the statistics with a codec that have come so far."""
    return [text["data"] for text in wire.texts if text["type"] == "reactor.stats" and "codec" in text["data"]]


async def test_each_frame_shows_the_number_in_its_header(server: RunningServer) -> None:
    async with controlling(server.url) as controller, client(server.url, role="viewer") as viewer:
        for wire in (controller, viewer):
            await wire.send("reactor.view", H264)
        decoders = {
            (wire, track): Decoder(inverted=track == "right")
            for wire in (controller, viewer)
            for track in ("left", "right")
        }
        while min(len(decoder.numbers) for decoder in decoders.values()) < 20:
            for wire in (controller, viewer):
                track, data = await next_media(wire)
                if MP4.matches(data):
                    header = MP4.read(data)
                    assert header is not None
                    assert decoders[wire, track].decode(data) == header.seq
        async with asyncio.timeout(TIMEOUT_S):
            # A stream of a busy machine may have a gap, in which the codec is JPEG.
            while not any(each["codec"] == "h264" and each["kbit_s"] > 0 for each in statistics(controller)):
                for wire in (controller, viewer):
                    await next_media(wire)
        for path in ("/snapshot/left.jpg", "/stream/right.mjpg"):
            async with asked(server.port, path) as answer:
                assert answer.status == 200
        encoded = re.compile(r'reactor_frames_encoded_total\{encoding="h264",rung="0",track="left"\} [1-9]')
        assert encoded.search(server.get("/metrics")[1])


async def test_a_client_that_asks_for_a_key_gets_a_jpeg_and_then_a_key(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        await controller.send("reactor.view", {**H264, "tracks": ["left"]})
        for _ in range(2):
            while not MP4.matches((await next_media(controller))[1]):
                pass
            await controller.send("reactor.key", {"track": "left"})
            while MP4.matches((await next_media(controller))[1]):
                pass
        while not MP4.matches(data := (await next_media(controller))[1]):
            pass
        assert read_message(data).config is not None
        await controller.send("reactor.view", {"codecs": [], "tracks": ["left"]})
        while MP4.matches((await next_media(controller))[1]):
            pass


async def test_a_client_that_names_no_codecs_gets_jpegs_and_no_video_library_is_imported(tmp_path: Path) -> None:
    variables = {"PYTHONPROFILEIMPORTTIME": "1"}
    with serving(write_project(tmp_path, MODEL), variables=variables) as server:
        async with controlling(server.url) as controller:
            welcome = next(text["data"] for text in controller.texts if text["type"] == "reactor.welcome")
            assert welcome["encodings"] == encoding_names("auto")
            for _ in range(30):
                assert not MP4.matches((await next_media(controller))[1])
            assert "codec" not in await controller.data("reactor.stats")
        assert not re.search(r"^import time:.*\| +av$", server.log, re.MULTILINE)


async def test_a_server_with_never_offers_no_video(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL), "--codec", "never") as server:
        async with controlling(server.url) as controller:
            welcome = next(text["data"] for text in controller.texts if text["type"] == "reactor.welcome")
            assert welcome["encodings"] == ["jpeg", "raw"]
            await controller.send("reactor.view", H264)
            for _ in range(30):
                assert not MP4.matches((await next_media(controller))[1])
            assert (await controller.data("reactor.stats"))["codec"] == "jpeg"
