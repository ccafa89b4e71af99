"""Sessions to which every client may send."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from reactor_runtime.client import connect
from tests.server.client import WireClient, client, controlling, picture
from tests.server.running import RunningServer, serving

MODEL = """\
import numpy as np
from reactor_runtime import (
    ClientInfo, Input, InputState, ModelMessage, Output, ReactorPipeline, UploadedFile, Video, event, file_uploaded
)


class Picture(Output):
    main: Video


class Cameras(Input):
    camera: Video


class State(InputState):
    level: int = 50


class Said(ModelMessage):
    client: str
    role: str


class Stub(ReactorPipeline):
    state: State
    output: Picture
    cameras: Cameras
    fps = 30
    SHARED

    @event(name="say")
    async def say(self, client: ClientInfo) -> Said:
        return Said(client=client.id, role=client.role)

    @file_uploaded
    async def keep(self, file: UploadedFile, client: ClientInfo):
        await self.send(Said(client=client.id, role=client.role))

    def inference(self):
        while True:
            frames = self.cameras.camera.try_read()
            if frames:
                self.state.level = int(frames[0].mean())
            yield Picture(main=np.full((32, 48, 3), self.state.level % 256, np.uint8))
"""


def project(directory: Path, *, shared: str = "") -> Path:
    (directory / "reactor.yaml").write_text("model: model:Stub\n")
    (directory / "model.py").write_text(MODEL.replace("SHARED", shared))
    return directory


async def send_picture(sender: WireClient, level: int) -> None:
    await sender.socket.send(picture(level))


@pytest.mark.parametrize(("shared", "options"), [("shared = True", ()), ("", ("--shared",))], ids=["class", "option"])
async def test_every_client_sends_events_and_gets_its_own_replies(
    shared: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    with serving(project(tmp_path, shared=shared), *options) as server:
        async with controlling(server.url) as controller, client(server.url, role="viewer") as viewer:
            welcome = await viewer.data("reactor.welcome")
            assert (welcome["role"], welcome["shared"]) == ("viewer", True)
            assert welcome["upload_key"] not in (None, controller.texts[0]["data"]["upload_key"])
            assert welcome["resume"] is None
            first = await controller.ask("say", id=1)
            second = await viewer.ask("say", id=1)
            # One count for all events of the session; the sender is the client of the handler.
            assert (first["data"]["n"], second["data"]["n"]) == (1, 2)
            assert second["data"]["message"]["data"] == {"client": welcome["client"], "role": "viewer"}
            assert first["data"]["message"]["data"]["role"] == "controller"
            reply = await viewer.ask("set_level", {"level": 200}, id=2)
            assert (await viewer.frame(applied=reply["data"]["n"])).level > 190
            wrong = await viewer.ask("set_level", {"level": "x"}, id=3)
            assert wrong["data"]["code"] == "invalid_event"
            await controller.data("reactor.stats")
            assert not any(text.get("id") in (2, 3) for text in controller.texts)


def post(server: RunningServer, key: str) -> int:
    """Upload a file; return the status of the response."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/uploads?key={key}", b"12345") as response:
            return int(response.status)
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code


async def test_a_client_that_came_before_the_session_uploads_under_its_own_name(tmp_path: Path) -> None:
    with serving(project(tmp_path), "--shared") as server:
        async with client(server.url, role="viewer") as viewer:
            assert (await viewer.data("reactor.welcome"))["upload_key"] is None
            async with controlling(server.url) as controller:
                welcome = await viewer.data("reactor.welcome")
                key, session = welcome["upload_key"], welcome["session"]
                assert (await viewer.data("reactor.session"))["session"] == session
                assert await asyncio.to_thread(post, server, key) == 201
                assert await controller.data("said") == {"client": welcome["client"], "role": "viewer"}
                async with client(server.url, role="viewer") as other:
                    keys = {
                        key,
                        controller.texts[0]["data"]["upload_key"],
                        (await other.data("reactor.welcome"))["upload_key"],
                    }
                    assert len(keys) == 3
                await viewer.socket.close()
                server.until(lambda: post(server, key) == 403, "the end of the key")


async def test_an_input_track_has_one_source(tmp_path: Path) -> None:
    with serving(project(tmp_path), "--shared") as server:
        async with controlling(server.url) as controller:
            async with client(server.url, role="viewer") as viewer:
                await viewer.data("reactor.welcome")
                # A source that is silent for five seconds is one no longer.
                while (await controller.frame()).level < 190:
                    await send_picture(viewer, 200)
                await send_picture(controller, 20)
                error = await controller.data("reactor.error")
                assert error["code"] == "not_controller"
                assert error["message"].startswith("another client of the session sends camera")
                await viewer.socket.send(b"\xff\xd8 no picture")
                assert (await viewer.data("reactor.error"))["code"] == "bad_media"
            # The source has left.
            while (await controller.frame()).level > 30:
                await send_picture(controller, 20)


async def test_without_the_option_viewers_send_nothing(tmp_path: Path) -> None:
    with serving(project(tmp_path)) as server:
        async with controlling(server.url), client(server.url, role="viewer") as viewer:
            assert (await viewer.data("reactor.welcome"))["shared"] is False
            assert (await viewer.ask("say"))["data"]["code"] == "not_controller"


async def test_the_python_client_of_a_viewer_sends(tmp_path: Path) -> None:
    with serving(project(tmp_path), "--shared") as server:
        url = f"http://127.0.0.1:{server.port}"
        async with connect(url) as controller, connect(url, role="viewer") as viewer:
            await controller.ready()
            await viewer.ready()
            reply = await viewer.send("say")
            assert reply.message is not None
            assert reply.message.data["role"] == "viewer"
            assert viewer.notify("set_level", level=9)
            # Its number shows that the event before it has arrived.
            assert (await viewer.send("say")).n == 3
