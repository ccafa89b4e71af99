"""A model that encodes its frames, and has tracks of its config and read-only fields, over real sockets."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import urllib.request

import numpy as np
import pytest
from PIL import Image

from reactor_runtime.wire.containers import detach
from tests.server.client import client, controlling
from tests.server.running import RunningServer

MODEL = """
import simplejpeg

del MyOutput


class MyState(InputState):
    level: int = 100
    steps: int = InputField(default=0, read_only=True)


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def load(self, config):
        self.views = Output.make(left=Video, right=Video)

    def inference(self):
        while True:
            self.state.steps += 1
            level = self.state.level
            yield self.views(left=simplejpeg.encode_jpeg(gray(level), 99), right=gray(level))
"""


@pytest.fixture(autouse=True)
def _settled(server: RunningServer) -> None:
    server.wait_for_health("ready")


def snapshot(server: RunningServer, track: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/snapshot/{track}.jpg") as response:
        data: bytes = response.read()
    return data


async def test_the_file_of_the_model_is_what_clients_and_snapshots_get(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        frames = [await controller.frame() for _ in range(10)]
        shot = await asyncio.to_thread(snapshot, server, "left")
    left = {detach(frame.data)[1] for frame in frames if frame.header.track == "left"}
    assert left == {detach(shot)[1]}
    assert all(abs(frame.level - 100) < 3 for frame in frames)


async def test_raw_frames_are_the_decoded_file(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        file = detach((await controller.frame()).data)[1]
        await controller.send("reactor.view", {"codecs": ["raw"], "tracks": ["left"]})
        raw = await controller.next()
        while not isinstance(raw, bytes) or not raw.startswith(b"\x93NUMPY"):
            raw = await controller.next()
    pixels = np.load(io.BytesIO(raw))
    with Image.open(io.BytesIO(file)) as image:
        assert np.abs(pixels.astype(int) - np.asarray(image.convert("RGB")).astype(int)).max() <= 2


async def test_the_welcome_has_the_tracks_that_load_made_and_the_read_only_fields(server: RunningServer) -> None:
    async with client(server.url) as controller:
        welcome = await controller.data("reactor.welcome")
        assert [track["name"] for track in welcome["tracks"]] == ["left", "right"]
        assert list(welcome["schema"]["events"]) == ["set_level"]
        assert welcome["schema"]["state"]["steps"]["readOnly"] is True
        assert welcome["state"]["steps"] == 0
        changed = await controller.data("reactor.state")
        assert changed["steps"] > 0
        refused = await controller.ask("set_steps", {"steps": 3})
        assert refused["data"]["code"] == "unknown_event"
    assert '"steps"' in server.get("/schema")[1]


async def test_a_viewer_keeps_the_tracks_while_a_crashed_engine_loads_again(server: RunningServer) -> None:
    async with client(server.url, role="viewer") as viewer:
        await viewer.data("reactor.welcome")
        os.kill(server.engine, signal.SIGKILL)
        await asyncio.to_thread(server.wait_for, "SIGKILL")
        await asyncio.to_thread(server.wait_for_health, "ready")
        async with controlling(server.url) as controller:
            await controller.frame()
            await viewer.frame()
    assert "reactor.contract" not in [text["type"] for text in viewer.texts]
