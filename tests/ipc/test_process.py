from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactor_runtime.ipc import messages as ipc
from reactor_runtime.ipc.channel import Channel
from reactor_runtime.ipc.process import OPENMP_WAITS, EngineProcess
from tests.processes import alive, gone
from tests.timeouts import TIMEOUT_S

ROOT = Path(__file__).resolve().parents[2]

PARENT = """
import sys
from reactor_runtime.ipc.process import EngineProcess
engine = EngineProcess()
print(engine.pid, flush=True)
sys.stdin.read()
"""
MODEL = """
import json, os, signal, time
from reactor_runtime import *

class Out(Output):
    video: Video

class State(InputState):
    pass

class Slow(ReactorPipeline):
    state: State

    def load(self, config):
        {}

    def inference(self):
        yield None
"""


@contextlib.contextmanager
def started() -> Iterator[EngineProcess]:
    engine = EngineProcess()
    try:
        yield engine
    finally:
        engine.kill()
        engine.end(time.monotonic())
        engine.socket.close()
        engine.close()


@pytest.fixture
def engine() -> Iterator[EngineProcess]:
    with started() as engine:
        yield engine


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_an_engine_ends_with_its_parent(number: signal.Signals) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with parent:
        assert parent.stdout is not None
        engine = int(parent.stdout.readline())
        assert alive(engine)
        parent.send_signal(number)
        gone(engine)


def test_an_engine_ends_when_the_server_closes_the_channel(engine: EngineProcess) -> None:
    engine.socket.close()
    assert engine.wait(TIMEOUT_S) is not None


def load(engine: EngineProcess, project: Path, body: str) -> Channel:
    """Have the engine load a model whose load() does `body`; returns when it has printed `loading`."""
    (project / "slow.py").write_text(MODEL.format(body))
    engine.socket.setblocking(True)
    channel = Channel(engine.socket)
    channel.send(ipc.Load(str(project), "slow", "Slow", {}, "info", "text"))
    assert any(message == ipc.Loading("loading") for _, message in channel)
    return channel


def test_an_engine_that_is_asked_to_end_while_loading_ends_by_itself(engine: EngineProcess, tmp_path: Path) -> None:
    channel = load(engine, tmp_path, "print('loading'); time.sleep(600)")
    channel.send(ipc.Shutdown())
    assert engine.wait(TIMEOUT_S) == 0


def test_a_model_sets_its_seats_in_load(engine: EngineProcess, tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(MODEL.format("self.seats = 3"))
    engine.socket.setblocking(True)
    channel = Channel(engine.socket)
    channel.send(ipc.Load(str(tmp_path), "slow", "Slow", {}, "info", "text"))
    messages = (message for _, message in channel)
    described = [next(message for message in messages if isinstance(message, ipc.Described))]
    for message in messages:
        if isinstance(message, ipc.Described):
            described.append(message)
        if isinstance(message, ipc.Ready):
            break
    assert [each.contract.get("seats") for each in described] == [None, 3]


def test_an_engine_that_has_time_to_end_is_not_terminated(engine: EngineProcess) -> None:
    engine.socket.close()
    assert engine.end(time.monotonic() + TIMEOUT_S) >= 0


def test_an_engine_that_does_not_end_is_killed(engine: EngineProcess, tmp_path: Path) -> None:
    load(engine, tmp_path, "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('loading'); time.sleep(600)")
    assert engine.end(time.monotonic()) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("of_the_author", "expected"),
    [
        ({}, {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "0"}),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, {"OMP_WAIT_POLICY": "ACTIVE"}),
        ({"GOMP_SPINCOUNT": "1000"}, {"GOMP_SPINCOUNT": "1000"}),
    ],
    ids=["neither", "policy", "count"],
)
def test_openmp_threads_sleep_while_they_wait_unless_the_author_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_the_author: dict[str, str], expected: dict[str, str]
) -> None:
    for name in OPENMP_WAITS:
        monkeypatch.delenv(name, raising=False)
    for name, value in of_the_author.items():
        monkeypatch.setenv(name, value)
    found = tmp_path / "variables.json"
    names = sorted(OPENMP_WAITS)
    written = f"{{name: os.environ[name] for name in {names} if name in os.environ}}"
    with started() as engine:
        load(engine, tmp_path, f"open({str(found)!r}, 'w').write(json.dumps({written})); print('loading')")
    assert json.loads(found.read_text()) == expected


def test_kill_after_the_end_does_nothing(engine: EngineProcess) -> None:
    engine.kill()
    assert engine.wait(TIMEOUT_S) is not None
    engine.kill()


def test_a_checkout_starts_its_own_engine_whatever_is_installed(tmp_path: Path) -> None:
    package = tmp_path / "reactor_runtime"
    shutil.copytree(ROOT / "reactor_runtime", package, ignore=shutil.ignore_patterns("page", "__pycache__"))
    main = package / "engine" / "__main__.py"
    main.write_text("print(__file__)")
    done = subprocess.run(
        [sys.executable, "-c", "from reactor_runtime.ipc.process import EngineProcess as E; E().wait(60)"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    assert Path(done.stdout.strip()) == main
