"""Where a server's output goes may end before the server does, and signals may reach more than the server."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import alive, ended_after, gone
from tests.server.client import client, controlling
from tests.server.running import environment, listening, reserved_port, serving, started, write_project
from tests.timeouts import TIMEOUT_S

MODEL = """
class MyState(InputState):
    pass


class MyModel(ReactorPipeline):
    state: MyState
    fps = 60

    def load(self, config):
        print("loading", flush=True)
        if config.get("hang"):
            ctypes.PyDLL(None).sleep(600)

    @disconnected
    def goodbye(self):
        print("goodbye", flush=True)

    @event(name="hang")
    def hang(self):
        print("hanging", flush=True)
        ctypes.PyDLL(None).sleep(600)

    @event(name="worker")
    def worker(self):
        begun, told = os.pipe()
        pid = os.fork()
        if not pid:
            os.write(told, b"!")
            time.sleep(600)
        os.read(begun, 1)
        os.kill(pid, signal.SIGTERM)
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGTERM

    def inference(self):
        while True:
            print("a line for each frame " * 20, flush=True)
            sys.stderr.write("and one on stderr\\n")
            yield gray(100)
"""


@pytest.fixture
def port() -> Iterator[int]:
    with reserved_port() as port:
        yield port


def command(project: Path, port: int) -> list[str]:
    write_project(project, MODEL)
    return [sys.executable, "-P", "-m", "reactor_cli", "run", str(project), "--port", str(port)]


@contextlib.contextmanager
def run(
    arguments: list[str], *, stdout: int | None = None, stderr: int | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server with output of the test's choice; whatever happens, nothing of it is left afterwards."""
    process = subprocess.Popen(arguments, env=environment(), stdout=stdout, stderr=stderr, start_new_session=True)
    with ended_after(process):
        yield process


def until_it_listens(process: subprocess.Popen[bytes], port: int) -> None:
    while process.poll() is None:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S).close()
    raise AssertionError(f"it ended with {process.returncode}")


async def serves_and_stops(process: subprocess.Popen[bytes], port: int) -> None:
    url = f"ws://127.0.0.1:{port}/ws"
    async with controlling(url) as controller:
        for _ in range(100):
            assert abs((await controller.frame()).level - 100) < 3
        assert not [text for text in controller.texts if text["type"] == "reactor.error"]
    process.terminate()
    assert process.wait(TIMEOUT_S) == 0


def read_until(stream: int, pattern: bytes) -> bytes:
    read = b""
    while not re.search(pattern, read):
        piece = os.read(stream, 4096)
        assert piece, f"it ended after {read!r}"
        read += piece
    return read


async def test_a_pipe_whose_reader_has_gone_does_no_harm(tmp_path: Path, port: int) -> None:
    reader, writer = os.pipe()
    with run(command(tmp_path, port), stdout=writer, stderr=writer) as process:
        os.close(writer)
        read_until(reader, rb"ready in")
        os.close(reader)
        await serves_and_stops(process, port)


async def test_a_reader_that_goes_before_the_model_is_ready_does_no_harm(tmp_path: Path, port: int) -> None:
    reader, writer = os.pipe()
    with run(command(tmp_path, port), stdout=writer, stderr=writer) as process:
        os.close(writer)
        read_until(reader, rb"http://")
        os.close(reader)
        await serves_and_stops(process, port)


async def test_a_full_disk_does_no_harm(tmp_path: Path, port: int) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with run(command(tmp_path, port), stdout=full, stderr=full) as process:
        os.close(full)
        until_it_listens(process, port)
        await serves_and_stops(process, port)


async def test_no_output_at_all_does_no_harm(tmp_path: Path, port: int) -> None:
    closed = f"import os, sys; os.close(1), os.close(2); os.execv(sys.executable, {command(tmp_path, port)})"
    with run([sys.executable, "-c", closed]) as process:
        until_it_listens(process, port)
        await serves_and_stops(process, port)


async def test_a_terminal_that_goes_away_does_no_harm(tmp_path: Path, port: int) -> None:
    ours, theirs = pty.openpty()
    with run(command(tmp_path, port), stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        read_until(ours, rb"in \d.*s\r\n")
        os.close(ours)
        await serves_and_stops(process, port)


async def test_the_terminal_s_hang_up_stops_the_server_as_ctrl_c_does(tmp_path: Path) -> None:
    with started(write_project(tmp_path, MODEL), stop_s=TIMEOUT_S) as server:
        server.wait_for("ready in")
        async with controlling(server.url) as controller:
            engine = server.engine
            os.killpg(server.process.pid, signal.SIGHUP)
            os.killpg(server.process.pid, signal.SIGHUP)  # the shell sends one, the kernel another
            assert (await controller.data("reactor.session", phase="ended"))["reason"] == "server_stopping"
            assert (await controller.closed())[0] == 1001
        assert server.ended() == 0
        assert "goodbye" in server.log
        assert not alive(engine)


async def test_under_nohup_a_hang_up_is_none(tmp_path: Path) -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does, for what is started from here
    try:
        with serving(write_project(tmp_path, MODEL)) as server:
            async with controlling(server.url) as controller:
                os.killpg(server.process.pid, signal.SIGHUP)
                for _ in range(30):
                    await controller.frame()
    finally:
        signal.signal(signal.SIGHUP, former)


async def test_a_sigterm_for_the_whole_group_lets_the_model_take_its_leave(tmp_path: Path) -> None:
    with started(write_project(tmp_path, MODEL), stop_s=TIMEOUT_S) as server:
        server.wait_for("ready in")
        async with controlling(server.url) as controller:
            os.killpg(server.process.pid, signal.SIGTERM)  # as a service manager does
            assert (await controller.closed())[0] == 1001
        assert server.ended() == 0
        assert "goodbye" in server.log


async def test_a_sigterm_for_the_model_s_process_alone_changes_nothing_and_its_workers_can_be_terminated(
    tmp_path: Path,
) -> None:
    with serving(write_project(tmp_path, MODEL)) as server:
        async with controlling(server.url) as controller:
            os.kill(server.engine, signal.SIGTERM)
            assert (await controller.ask("worker"))["type"] == "reactor.reply"


@pytest.mark.parametrize("phase", ["loading", "idle", "a step", "a handler that hangs"])
async def test_a_server_that_is_killed_leaves_no_engine(tmp_path: Path, phase: str) -> None:
    with listening(write_project(tmp_path, MODEL), "--set", f"hang={phase == 'loading'}") as server:
        server.wait_for("^loading$" if phase == "loading" else "ready in")
        engine = server.engine
        async with client(server.url) as controller:
            if phase not in ("loading", "idle"):
                await controller.frame()
            if phase == "a handler that hangs":
                await controller.send("hang")
                server.wait_for("hanging")
            server.process.kill()
            server.process.wait(TIMEOUT_S)
            gone(engine)
            controller.socket.transport.abort()
