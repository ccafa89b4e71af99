"""`reactor status` against a real server, and against what is none."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path

import pytest

from reactor_runtime.client import connect
from tests.cli.command import Outcome, reactor
from tests.cli.terminal import terminal
from tests.server.running import RunningServer, serving, write_project

MODEL = """
class MyState(InputState):
    level: int = 100


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def inference(self):
        while True:
            yield gray(100)
"""
TOKEN = "correct-horse"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("model"), MODEL), "--token", TOKEN) as server:
        yield server


@pytest.fixture
def url(server: RunningServer) -> str:
    return f"http://127.0.0.1:{server.port}"


def test_a_session_is_shown_as_a_table_and_as_json(server: RunningServer, url: str, tmp_path: Path) -> None:
    told: list[Outcome] = []

    def has_frame_rate() -> bool:
        told.append(reactor("status", f"{url}/?token={TOKEN}", "--json", cwd=tmp_path))
        return told[-1].code != 0 or json.loads(told[-1].out)["engines"][0]["fps"] > 0

    with connect(url, token=TOKEN) as session:
        frames = session.frames()
        for _ in range(5):
            next(frames)
        table = reactor("status", url, "--token", TOKEN, cwd=tmp_path)
        # A busy machine may make no frame in the seconds whose rate is shown.
        server.until(has_frame_rate, "frame rate")
    assert (table.code, table.err, told[-1].code, told[-1].err) == (0, "", 0, "")
    (engine,) = json.loads(told[-1].out)["engines"]
    assert (engine["status"], engine["clients"], engine["viewers"]) == ("busy", 1, 0)
    assert engine["fps"] > 0
    assert engine["age_ms"] >= engine["late_ms"]
    assert engine["memory_bytes"] > 1e6
    assert "1 of 1 sessions" in table.out
    assert engine["session"] in table.out


def test_a_server_with_a_token_requires_it(url: str, tmp_path: Path) -> None:
    missing = reactor("status", url, cwd=tmp_path)
    wrong = reactor("status", url, "--token", "another-horse", cwd=tmp_path)
    assert (missing.code, wrong.code) == (3, 3)
    assert "the server requires a token" in missing.err
    assert "the token is wrong" in wrong.err
    assert "hint: give its token with --token" in wrong.err
    assert reactor("status", url, cwd=tmp_path, REACTOR_TOKEN=TOKEN).code == 0


def test_watch_shows_it_again_until_ctrl_c(url: str, tmp_path: Path) -> None:
    with terminal("status", f"{url}/?token={TOKEN}", "--watch", cwd=tmp_path) as screen:
        for _ in range(2):
            screen.wait_for("of 1 sessions")
        screen.type("\x03")
        assert screen.ended() == 0


def test_an_address_without_a_server_gives_the_reason(tmp_path: Path) -> None:
    outcome = reactor("status", "127.0.0.1:1", cwd=tmp_path)
    assert outcome.code == 3
    assert "error: http://127.0.0.1:1 can't be reached: nothing listens there" in outcome.err
    assert reactor("status", "ftp://host", cwd=tmp_path).code == 2


def test_another_server_is_refused(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), _Silent) as other:
        thread = threading.Thread(target=other.serve_forever, name="another server")
        thread.start()
        outcome = reactor("status", f"127.0.0.1:{other.server_port}", cwd=tmp_path)
        other.shutdown()
        thread.join()
    assert outcome.code == 3
    assert "is not a Reactor server: it answered /health with 404" in outcome.err


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...
