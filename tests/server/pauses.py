"""A model of each style that stops at the moment it is told to, says so in the log, and tells who it is with.

The file `mode` in the project names the moment for the sessions that begin from then on: it waits there, async, until
its session is stopped or the file `go` is there; after "held " it blocks its thread until then.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from pathlib import Path

from tests.server.client import Frame, WireClient
from tests.server.running import RunningServer, write_project
from tests.timeouts import TIMEOUT_S

COMMON = """
import gc, threading
from pathlib import Path

HERE = Path(__file__).parent


class Camera(Input):
    camera: Video


class Hello(ModelMessage):
    session: int
    level: int
    available: int


class Step(ModelMessage):
    session: int
    step: int


class Alive(ModelMessage):
    tasks: int
    threads: int
    sessions: int


class Moments:
    sessions = 0

    def load(self, config):
        self.mode = config.get("mode", "")
        self.held("load")

    def begin(self):
        self.sessions += 1
        self.mode = (HERE / "mode").read_text()
        state = self if isinstance(self, ReactorModel) else self.state
        return Hello(session=self.sessions, level=state.level, available=self.input.camera.available)

    def held(self, where):
        if self.mode == "held " + where:
            print(f"at {where}", flush=True)
            while not (HERE / "go").exists():
                time.sleep(0.005)

    async def moment(self, where):
        self.held(where)
        if self.mode == where:
            print(f"at {where}", flush=True)
            while self.connected.is_set() == (where != "disconnected") and not (HERE / "go").exists():
                await asyncio.sleep(0.005)

    @event(name="handle")
    async def handle(self):
        await self.moment("handler")

    @event(name="count")
    def count(self):
        from reactor_runtime.engine.session import ModelSession

        gc.collect()
        sessions = sum(type(each) is ModelSession for each in gc.get_objects())
        return Alive(tasks=len(asyncio.all_tasks()), threads=threading.active_count(), sessions=sessions)

"""

PIPELINE = (
    COMMON
    + """
class MyState(InputState):
    level: int = InputField(default=100, ge=0, le=255)
    _steps: int = 0


class MyModel(Moments, ReactorPipeline):
    state: MyState
    input: Camera
    fps = 30

    @connected
    async def greet(self):
        await self.send(self.begin())
        await self.moment("connected")

    @disconnected
    async def part(self):
        await self.moment("disconnected")

    async def inference(self):
        await self.moment("first")
        while True:
            self.state._steps += 1
            await self.send(Step(session=self.sessions, step=self.state._steps))
            yield np.stack([gray(self.state.level)] * 600) if self.mode == "emit" else gray(self.state.level)
            if self.mode == "read":
                print("at read", flush=True)
                await self.input.camera.read()
"""
)

LOOP = (
    COMMON
    + """
class MyModel(Moments, ReactorModel):
    input: Camera
    fps = 30
    level = 100

    @connected
    async def greet(self):
        self.input.camera.reset()
        self.level, self.steps = 100, 0
        await self.send(self.begin())
        await self.moment("connected")

    @disconnected
    async def part(self):
        self.input.camera.close()
        self.output_buffer.flush()
        await self.moment("disconnected")

    @event(name="set_level")
    def set_level(self, level: int):
        self.level = level

    async def run(self):
        while True:
            await self.connected.wait()
            await self.moment("first")
            try:
                while self.connected.is_set():
                    await self.step()
            except BufferClosed:
                pass

    async def step(self):
        self.steps += 1
        await self.send(Step(session=self.sessions, step=self.steps))
        await self.emit(np.stack([gray(self.level)] * 600) if self.mode == "emit" else gray(self.level))
        if self.mode == "read" and self.connected.is_set():
            print("at read", flush=True)
            await self.input.camera.read()
"""
)

CARELESS = LOOP.replace("self.input.camera.reset()", "pass").replace(
    "self.input.camera.close()\n        self.output_buffer.flush()", "pass"
)
assert CARELESS.count("pass") == 3
STYLES = {"pipeline": PIPELINE, "loop": LOOP, "loop that never resets": CARELESS}


def write_moments(directory: Path, style: str) -> Path:
    """Write the project of a style; it stops nowhere."""
    project = write_project(directory, STYLES[style])
    stop_at(project, "")
    return project


def stop_at(project: Path, moment: str) -> None:
    """Have the sessions that begin from here on stop at a moment, those before go on."""
    (project / "go").unlink(missing_ok=True)
    (project / "mode").write_text(moment)


def go_on(project: Path) -> None:
    (project / "go").touch()


class Watch:
    """Wait for the next time a model says where it is."""

    def __init__(self, server: RunningServer, moment: str) -> None:
        self._server = server
        self._words = f"at {moment.removeprefix('held ')}\n"
        self._seen = server.log.count(self._words)

    def wait(self) -> None:
        self._server.until(lambda: self._server.log.count(self._words) > self._seen, self._words)


async def vanish(visitor: WireClient) -> None:
    """End a client's connection by a TCP reset, without a close frame."""
    transport = visitor.socket.transport
    linger = struct.pack("ii", 1, 0)
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    transport.abort()
    await visitor.socket.wait_closed()


async def finds_everything_fresh(visitor: WireClient) -> Frame:
    """Read a session from its welcome to the picture that shows the first event, and see that all of it is its own."""
    async with asyncio.timeout(TIMEOUT_S):
        return await _sees_its_own(visitor)


async def _sees_its_own(visitor: WireClient) -> Frame:
    welcome = await visitor.data("reactor.welcome")
    assert welcome["state"] in ({"level": 100}, {})  # a loop has no state
    first = await visitor.frame()
    assert (first.header.seq, first.header.applied) == (0, 0)
    assert first.header.pts_us < 30_000_000
    assert abs(first.level - 100) < 3, f"a picture of somebody else's: {first.level}"
    assert (await visitor.ask("set_level", {"level": 200}, id="mine"))["data"] == {"n": 1}
    shown = await visitor.frame(applied=1)
    assert abs(shown.level - 200) < 3
    hello, *others = [text["data"] for text in visitor.texts if text["type"] in ("hello", "step")]
    assert (hello["level"], hello["available"]) == (100, 0)
    assert {text["session"] for text in others} == {hello["session"]}
    assert [text["step"] for text in others] == list(range(1, len(others) + 1))
    sessions = [text["data"]["session"] for text in visitor.texts if text["data"].get("phase") == "started"]
    assert sessions == [welcome["session"]]
    return shown
