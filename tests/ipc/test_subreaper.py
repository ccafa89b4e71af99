"""No process of a model is left, however it ends and whichever process between the server and it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reactor_runtime.ipc.process import EngineProcess
from tests.ipc.test_process import load
from tests.processes import alive, children, descendants, ended_after, gone
from tests.timeouts import TIMEOUT_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="subreapers are Linux only")

FAMILY = """
        import os, subprocess, sys, multiprocessing
        # as a DataLoader that is told to go on, a daemon, a daemon's child, and one that C code forked
        stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        daemon = "import os, time; os.fork() and os._exit(0); os.setsid(); os.fork(); time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", stubborn], env={{}})
        subprocess.Popen([sys.executable, "-c", daemon], env={{}}, start_new_session=True)
        multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,)).start()
        import ctypes
        if not ctypes.PyDLL(None).fork():
            time.sleep(600)
        print("loading")
        {}
"""
SERVER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from reactor_runtime.ipc.process import EngineProcess
from tests.ipc.test_process import load
engine = EngineProcess()
load(engine, Path({project!r}), {body!r})
print("loaded", flush=True)
sys.stdin.read()
"""
FAMILY_SIZE = 5


@contextmanager
def family(project: Path, ending: str = "time.sleep(600)") -> Iterator[tuple[EngineProcess, list[int]]]:
    """Start an engine whose model has children and grandchildren; gives the engine, and every process in order."""
    engine = EngineProcess()
    try:
        load(engine, project, FAMILY.format(ending))
        yield engine, _everybody(engine.pid)
    finally:
        engine.kill()
        engine.end(time.monotonic())
        engine.socket.close()
        engine.close()


def _everybody(subreaper: int) -> list[int]:
    """Wait until all processes run: two subreapers, the engine and what the model has started."""
    deadline = time.monotonic() + TIMEOUT_S
    while len(everybody := [subreaper, *descendants(subreaper)]) < 3 + FAMILY_SIZE:
        assert time.monotonic() < deadline, f"only {everybody}"
        time.sleep(0.01)
    (second,) = children(subreaper)
    engine = children(second)[0]
    return [subreaper, second, engine, *(pid for pid in everybody if pid not in (subreaper, second, engine))]


@pytest.mark.parametrize(
    ("killed", "number"),
    [(0, signal.SIGKILL), (1, signal.SIGKILL), (2, signal.SIGKILL), (2, signal.SIGSEGV)],
    ids=["first subreaper", "second subreaper", "engine", "engine crashes"],
)
def test_no_process_is_left_whichever_is_killed(tmp_path: Path, killed: int, number: signal.Signals) -> None:
    with family(tmp_path) as (engine, everybody):
        os.kill(everybody[killed], number)
        assert engine.wait(TIMEOUT_S) == -number
        for pid in everybody:
            gone(pid)


def test_no_process_is_left_when_the_engine_is_ended(tmp_path: Path) -> None:
    with family(tmp_path) as (engine, everybody):
        assert engine.end(time.monotonic()) == -signal.SIGKILL
        assert not [pid for pid in everybody if alive(pid)]


def test_an_engine_that_ends_by_itself_leaves_no_process_and_its_end_is_noticed(tmp_path: Path) -> None:
    go = tmp_path / "go"
    ending = f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\n        os._exit(7)"
    with family(tmp_path, ending) as (engine, everybody):
        go.touch()
        while engine.socket.recv(65536):
            pass
        assert engine.wait(TIMEOUT_S) == 7
        assert not [pid for pid in everybody if alive(pid)]


def test_no_process_is_left_when_the_server_is_killed(tmp_path: Path) -> None:
    root, body = str(Path(__file__).parents[2]), FAMILY.format("time.sleep(600)")
    script = SERVER.format(root=root, project=str(tmp_path), body=body)
    server = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with server, ended_after(server):
        assert server.stdout is not None
        assert any(line == b"loaded\n" for line in server.stdout)
        everybody = _everybody(children(server.pid)[0])
        server.kill()
        for pid in everybody:
            gone(pid)


def test_a_subreaper_holds_neither_the_channel_nor_the_memory() -> None:
    engine = EngineProcess()
    engine.socket.setblocking(True)
    try:
        engine.socket.shutdown(1)
        assert engine.socket.recv(1) == b""
        assert engine.wait(TIMEOUT_S) is not None
    finally:
        engine.end(time.monotonic())
        engine.socket.close()
        engine.close()
