"""A model that hangs while it is imported or loaded, under `--load-timeout`; and one that only takes its time."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.server.running import serving, started, write_project
from tests.server.session_client import is_served

TIMEOUT = "5s"
# Enough for a model that does not hang.
LONG_TIMEOUT = "20s"
MODEL = """
HERE = os.path.dirname(__file__)


def act(phase):
    path = os.path.join(HERE, phase)
    if not os.path.exists(path):
        return
    with open(path) as file:
        how = file.read()
    os.unlink(path)
    if how == "sleeps":
        time.sleep(600)
    elif how == "holds the lock":
        ctypes.PyDLL(None).sleep(600)
    elif how == "goes on when it is aborted":
        signal.signal(signal.SIGABRT, lambda *_: None)
        ctypes.PyDLL(None).sleep(600)
    elif how == "is stopped":
        os.kill(os.getpid(), signal.SIGSTOP)


act("import")


class MyState(InputState):
    pass


class MyModel(ReactorPipeline):
    state: MyState

    def load(self, config):
        act("load")

    def inference(self):
        while True:
            yield gray(100)
"""
NOT_LOADED = "the model was not loaded within {} s"


@pytest.mark.parametrize(
    ("phase", "how", "line"),
    [
        ("import", "sleeps", "time.sleep(600)"),
        ("load", "sleeps", "time.sleep(600)"),
        ("load", "holds the lock", "in act"),
        ("load", "is stopped", "most recent call first"),
        ("load", "goes on when it is aborted", "its threads:"),
    ],
)
def test_a_model_that_hangs_before_it_is_loaded_ends_the_server_and_says_where(
    tmp_path: Path, phase: str, how: str, line: str
) -> None:
    project = write_project(tmp_path, MODEL)
    (tmp_path / phase).write_text(how)
    with started(project, "--load-timeout", TIMEOUT) as server:
        assert server.ended() == 4
        assert line in server.log
        assert f"error: {NOT_LOADED.format(5)}" in server.log
        assert "--load-timeout limits the time" in server.log


async def test_one_that_hangs_when_it_is_loaded_again_is_tried_again(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL), "--load-timeout", LONG_TIMEOUT) as server:
        await is_served(server.url)
        (tmp_path / "load").write_text("sleeps")
        os.kill(server.engine, signal.SIGKILL)
        server.wait_for_health("failed")
        await is_served(server.url)
        assert NOT_LOADED.format(20) in server.log.partition("could not be loaded again, the next try is in ")[2]


async def test_one_of_two_that_hangs_holds_the_other_up_no_longer_than_that(tmp_path: Path) -> None:
    project = write_project(tmp_path, MODEL)
    (tmp_path / "load").write_text("sleeps")
    with started(project, "--sessions", "2", "--load-timeout", LONG_TIMEOUT) as server:
        server.wait_for("ready 1 of 2")
        assert f"this engine can't serve the model, the others continue: {NOT_LOADED.format(20)}" in server.log
        await is_served(server.url)


async def test_a_loaded_model_is_no_longer_measured_by_it(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL), "--load-timeout", LONG_TIMEOUT) as server:
        engine = server.engine
        (tmp_path / "load").write_text("sleeps")  # which nobody reads any more
        await is_served(server.url)
        assert server.engine == engine
        assert "hung" not in server.log
