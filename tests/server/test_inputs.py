"""Pictures from a client to the model, in both styles, over real sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reactor_runtime.wire.containers import attach
from reactor_runtime.wire.media_header import MediaHeader
from tests.server.client import Frame, WireClient, client, controlling, picture
from tests.server.running import RunningServer, serving, write_project

# The video-to-video program of the reference page, with a filter of NumPy instead of weights.
LOOP = """
class V2VInput(Input):
    camera: Video


class MyModel(ReactorModel):
    input: V2VInput
    fps = 30

    @connected
    async def on_connect(self):
        self.input.camera.reset()
        self.style = "none"

    @disconnected
    async def on_disconnect(self):
        self.input.camera.close()
        self.output_buffer.flush()

    @event(name="set_style", description="Change the style filter")
    def set_style(self, style: str = InputField(default="none", choices=["none", "invert"])):
        self.style = style

    async def run(self):
        while True:
            await self.connected.wait()
            try:
                while self.connected.is_set():
                    [frame] = await self.input.camera.read(1)
                    await self.emit(MyOutput(main_video=255 - frame if self.style == "invert" else frame))
            except BufferClosed:
                pass
"""

PIPELINE = """
class V2VInput(Input):
    camera: Video


class MyState(InputState):
    style: str = InputField(default="none", choices=["none", "invert"])


class MyModel(ReactorPipeline):
    state: MyState
    camera_input: V2VInput

    async def inference(self):
        while True:
            [frame] = await self.camera_input.camera.read(1)
            yield MyOutput(main_video=255 - frame if self.state.style == "invert" else frame)
"""

POLLING = PIPELINE.replace("async def", "def").replace(
    "[frame] = await self.camera_input.camera.read(1)",
    "frames = self.camera_input.camera.try_read()\n            if frames is None:\n                yield Idle\n"
    "                continue\n            [frame] = frames",
)


@pytest.fixture(scope="module", params=[LOOP, PIPELINE, POLLING], ids=["loop", "pipeline", "polling"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("inputs"), request.param)) as server:
        yield server


def named(track: str, level: int) -> bytes:
    return attach(MediaHeader(track, 0, 0, 0), picture(level))


async def shown(visitor: WireClient, level: int) -> Frame:
    """Read on to a picture that is as bright as wanted."""
    while abs((frame := await visitor.frame()).level - level) > 8:
        pass
    return frame


async def test_a_picture_sent_comes_back_as_the_model_makes_it(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        await visitor.socket.send(picture(200))
        assert (await shown(visitor, 200)).size == (48, 32)
        await visitor.send("set_style", {"style": "invert"})
        frame = None
        while frame is None or frame.header.applied == 0:  # a pipeline that waits takes the event after a picture
            await visitor.socket.send(named("camera", 200))
            frame = await visitor.frame()
        assert abs(frame.level - 55) < 8


async def test_the_newest_of_a_burst_is_shown(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        for level in range(0, 250, 5):
            await visitor.socket.send(picture(level))
        assert (await shown(visitor, 245)).header.applied == 0


async def test_nobody_sees_the_frames_of_the_client_before(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        for _ in range(30):
            await visitor.socket.send(picture(250))
    server.wait_for_health("ready")
    async with controlling(server.url) as visitor:
        await visitor.socket.send(picture(20))
        level = 0.0
        while level < 12:  # a black frame may come first
            level = (await visitor.frame()).level
        assert level < 28


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (named("microphone", 1), "unknown_track"),
        (b"RIFF", "bad_media"),
        (b"\xff\xd8nothing", "bad_media"),
        (picture(1)[:400], "bad_media"),
    ],
    ids=["track", "neither", "no jpeg", "cut off"],
)
async def test_what_the_model_cannot_take_is_answered_and_the_session_goes_on(
    server: RunningServer, data: bytes, code: str
) -> None:
    async with controlling(server.url) as visitor:
        await visitor.socket.send(data)
        assert (await visitor.data("reactor.error"))["code"] == code
        await visitor.socket.send(picture(100))
        assert (await shown(visitor, 100)).size == (48, 32)


async def test_a_viewer_sends_no_pictures(server: RunningServer) -> None:
    async with controlling(server.url), client(server.url, role="viewer") as viewer:
        await viewer.data("reactor.welcome")
        await viewer.socket.send(picture(100))
        assert (await viewer.data("reactor.error"))["code"] == "not_controller"


async def test_a_reader_that_waits_ends_when_its_client_leaves(server: RunningServer) -> None:
    for _ in range(3):
        async with controlling(server.url):
            pass  # the model waits for a first picture
        server.wait_for_health("ready")
