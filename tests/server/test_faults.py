"""What may go wrong with a model or a client while serving, and what everybody else notices of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed

from tests.processes import gone
from tests.server.client import WireClient, client, controlling
from tests.server.running import RunningServer, serving, started, write_project
from tests.timeouts import TIMEOUT_S

MODEL = """
import subprocess, warnings

GO_ON = os.path.join(os.path.dirname(__file__), "go-on")
RELEASE = os.path.join(os.path.dirname(__file__), "release")

class MyState(InputState):
    _busy = ""
    _rest = False
    _raise = False


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def inference(self):
        while True:
            if self.state._raise:
                raise RuntimeError("out of ideas")
            if self.state._busy:
                print("busy", self.state._busy, flush=True)
            if self.state._busy == "burn":
                while not os.path.exists(RELEASE):
                    sum(range(1000))
            elif self.state._busy == "block":
                # Holds the interpreter lock until the other end of the named pipe is opened.
                os.close(ctypes.PyDLL(None).open(RELEASE.encode(), os.O_RDONLY))
            self.state._busy = ""
            if self.state._rest:
                print("resting", flush=True)
                while not os.path.exists(GO_ON):
                    time.sleep(0.01)
                self.state._rest = False
            yield gray(100)

    @event(name="be_busy")
    def be_busy(self, how: str):
        self.state._busy = how

    @event(name="rest")
    def rest(self):
        self.state._rest = True

    @event(name="nothing")
    def nothing(self):
        pass

    @event(name="raise")
    def raise_(self):
        self.state._raise = True

    @event(name="segfault")
    def segfault(self):
        ctypes.string_at(0)

    @event(name="leave")
    def leave(self):
        os._exit(7)

    @event(name="have_children")
    def have_children(self):
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
        forked = os.fork()
        if not forked:
            time.sleep(600)
            os._exit(0)
        started = subprocess.Popen(["sleep", "600"], close_fds=False)
        print(f"children {forked} {started.pid}", flush=True)
"""


@pytest.fixture(autouse=True)
def _settled(server: RunningServer) -> None:
    server.until(lambda: server.health()[1]["status"] in ("ready", "failed"), "free model")


@pytest.mark.parametrize("how", ["burn", "block"], ids=["pure Python", "lock held in C"])
async def test_a_model_that_is_busy_delays_no_ping_and_no_page(server: RunningServer, how: str) -> None:
    release = server.output.parent / "release"
    async with controlling(server.url) as controller:
        await controller.frame()
        if how == "block":
            os.mkfifo(release)
        await controller.send("be_busy", {"how": how})
        await asyncio.to_thread(server.wait_for, f"^busy {how}$")
        try:
            for number in range(3):
                await controller.send("reactor.ping", {"t": number})
                await controller.data("reactor.pong", t=number)
                status, _ = await asyncio.to_thread(server.get, "/live")
                assert status == 200
        finally:
            # Opening a pipe to read and write waits for nobody.
            descriptor = os.open(release, os.O_RDWR | os.O_CREAT)
            await controller.frame(applied=1)
            os.close(descriptor)
            release.unlink()


async def test_more_events_than_a_busy_model_can_keep_are_refused_and_the_session_goes_on(
    server: RunningServer,
) -> None:
    async with controlling(server.url) as controller:
        await controller.send("rest")
        server.wait_for("resting")
        for _ in range(1500):
            await controller.send("nothing")
        refused = await controller.data("reactor.error")
        assert (refused["code"], refused["event"]) == ("rate_limited", "nothing")
        (server.output.parent / "go-on").touch()
        await controller.frame(applied=2)
        assert (await controller.ask("nothing"))["type"] == "reactor.reply"


@pytest.mark.parametrize(
    ("event", "words"),
    [("segfault", "SIGSEGV"), ("leave", "exited with code 7"), (None, "SIGKILL")],
    ids=["segfault", "exit", "killed"],
)
async def test_a_model_that_dies_ends_its_session_and_the_next_client_is_served(
    server: RunningServer, event: str | None, words: str
) -> None:
    async with controlling(server.url) as controller, client(server.url) as waiting:
        engine = server.engine
        await waiting.data("reactor.queue")
        if event is None:
            os.kill(engine, signal.SIGKILL)
        else:
            await controller.send(event)
        assert (await controller.data("reactor.error"))["code"] == "model_error"
        ended = await controller.data("reactor.session", phase="ended")
        assert ended["reason"] == "model_died"
        assert words in ended["message"]
        assert (await controller.closed())[0] == 1011
        await waiting.data("reactor.session", phase="loading")
        await waiting.data("reactor.welcome")
        assert abs((await waiting.frame()).level - 100) < 3
        assert server.engine != engine


async def test_a_model_that_dies_is_missed_and_its_children_die_with_it(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        await controller.send("have_children")
        server.wait_for(r"children \d+ \d+")
        left = [int(pid) for pid in re.findall(r"children (\d+) (\d+)", server.log)[-1]]
        os.kill(server.engine, signal.SIGKILL)
        assert (await controller.data("reactor.session", phase="ended"))["reason"] == "model_died"
        for pid in left:
            gone(pid)


async def test_a_viewer_outlives_a_crash(server: RunningServer) -> None:
    async with client(server.url, role="viewer") as viewer:
        async with controlling(server.url):
            await viewer.frame()
            os.kill(server.engine, signal.SIGKILL)
            assert (await viewer.data("reactor.session", phase="ended"))["reason"] == "model_died"
        async with controlling(server.url):
            await viewer.data("reactor.session", phase="started")
            await viewer.frame()


async def fail(server: RunningServer) -> tuple[WireClient, tuple[int, str]]:
    async with controlling(server.url) as controller:
        await controller.send("raise")
        return controller, await controller.closed()


async def test_a_black_first_step_is_told_to_the_operator_and_the_client(tmp_path: Path) -> None:
    model = """
    class MyModel(ReactorPipeline):
        state: InputState

        def inference(self):
            while True:
                yield gray(0)
    """
    with serving(write_project(tmp_path, model)) as server:
        async with controlling(server.url) as controller:
            session = await controller.data("reactor.session", phase="warning")
        assert re.match(r"main_video is black in the first step: .* \(pipeline\.py:\d+\): ", session["message"])
        assert re.search(r"pipeline\.py:\d+:\d+: main_video is black in the first step", server.log)


async def test_what_inference_raises_ends_the_session_and_three_in_a_row_fail_the_health(server: RunningServer) -> None:
    async with controlling(server.url):
        engine = server.engine  # a session that ends well: the count begins anew
    for failures in (1, 2, 3):
        controller, (code, reason) = await fail(server)
        errors = [message["data"] for message in controller.texts if message["type"] == "reactor.error"]
        (error,) = errors
        assert error["code"] == "model_error"
        assert re.fullmatch(r"the model failed: RuntimeError: out of ideas \(pipeline.py:\d+\)", error["message"])
        ended = [text["data"] for text in controller.texts if text["data"].get("phase") == "ended"]
        assert [each["reason"] for each in ended] == ["model_error"]
        assert (code, reason) == (1011, error["message"])
        assert server.health()[0] == (503 if failures == 3 else 200)
    assert server.health()[1]["status"] == "failed"
    assert 'raise RuntimeError("out of ideas")' in server.log
    async with controlling(server.url) as controller:
        await controller.frame()
        status, health = server.health()
        assert (status, health["status"]) == (200, "busy")
    server.wait_for_health("ready")
    assert server.engine == engine


async def test_a_client_that_vanishes_frees_the_model(server: RunningServer) -> None:
    async with controlling(server.url) as first, client(server.url) as second:
        assert await second.place() == {"position": 1, "length": 1}
        first.socket.transport.abort()
        assert (await second.data("reactor.welcome"))["role"] == "controller"
        assert (await second.frame()).header.applied == 0


async def test_a_viewer_that_never_reads_delays_nobody(server: RunningServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
    writer.write(
        b"GET /ws?role=viewer HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    await writer.drain()
    assert await reader.readexactly(12) == b"HTTP/1.1 101"
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream's transport can
    async with asyncio.timeout(TIMEOUT_S), controlling(server.url) as controller:
        before, in_time = (await controller.frame()).header, 0
        # A busy machine may be late meanwhile.
        while in_time < 30:
            header = (await controller.frame()).header
            is_next = header.seq == before.seq + 1 and header.pts_us - before.pts_us < 50_000
            before, in_time = header, in_time + 1 if is_next else 0
        assert server.health()[1]["viewers"] == 1
    writer.transport.abort()
    del reader


async def test_a_client_that_leaves_its_messages_unread_is_dropped(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        session = controller.texts[-1]["data"]["session"]
        controller.socket.transport.pause_reading()
        with contextlib.suppress(ConnectionClosed):  # it may be dropped meanwhile
            for _ in range(40):
                await controller.socket.send('{"type": "reactor.ping", "data": {"t": "' + "x" * 100_000 + '"}}')
            for number in range(3000):
                await controller.send("reactor.ping", {"t": number})
        async with client(server.url) as second:
            welcome = await second.data("reactor.welcome")
            assert welcome["session"] not in (None, session)
        controller.socket.transport.abort()


async def test_nothing_is_left_of_twenty_sessions(server: RunningServer) -> None:
    async def session() -> None:
        async with controlling(server.url) as controller, client(server.url, role="viewer") as viewer:
            await controller.frame()
            await viewer.frame()

    await session()
    server.wait_for_health("ready")
    before = counts(server)
    for _ in range(20):
        await session()
    server.wait_for_health("ready")
    server.until(lambda: counts(server) <= before, f"{before}, but {counts(server)}")


def counts(server: RunningServer) -> tuple[int, ...]:
    """Descriptors and threads of server and engine, and the server's children."""
    proc = Path("/proc")
    pids = server.process.pid, server.engine
    return tuple(len(os.listdir(proc / str(pid) / what)) for pid in pids for what in ("fd", "task"))


def test_no_engine_is_left_when_the_server_is_killed(tmp_path: Path) -> None:
    with started(write_project(tmp_path, MODEL)) as other:
        other.wait_for("ready in")
        engine = other.engine
        other.process.kill()
        other.process.wait(TIMEOUT_S)
        gone(engine)


async def test_nothing_is_kept_of_engines_that_died(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL)) as server:
        for _ in range(3):
            server.wait_for_health("ready")
            async with controlling(server.url) as controller:
                await controller.frame()
                # a thread may still be at a picture of the engine before, or of the time before this one's memory grew
                server.until(lambda: memories(server.process.pid) == 1, "the memory of one engine")
                os.kill(server.engine, signal.SIGKILL)
                await controller.closed()


def memories(pid: int) -> int:
    """Count the pieces of an engine's memory that a process has mapped."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return len({line.split()[4] for line in maps if "reactor-frames" in line})  # by inode
