"""`deploy/agones/follow.py` beside a real `reactor run`, with a sidecar that records the requests."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests.processes import ended_after
from tests.server.running import RunningServer, listening, write_project
from tests.timeouts import TIMEOUT_S

FOLLOW = Path(__file__).resolve().parents[2] / "deploy" / "agones" / "follow.py"
MODEL = """
class MyState(InputState):
    pass


class MyModel(ReactorPipeline):
    state: MyState

    def inference(self):
        while True:
            yield MyOutput(main_video=gray(50))
"""


class Sidecar(ThreadingHTTPServer):
    """The REST interface of Agones, which records the states that it is asked for, and the health pings."""

    daemon_threads = True

    def __init__(self) -> None:
        self.states = queue.Queue[str]()
        self.pinged = threading.Event()
        self.refusals = 1
        super().__init__(("127.0.0.1", 0), _Requests)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def record(self, path: str) -> int:
        """Return the HTTP status for a request; the first request for a state is refused."""
        if path == "/health":
            self.pinged.set()
        elif self.refusals:
            self.refusals -= 1
            return 500
        else:
            self.states.put(path)
        return 200


class _Requests(BaseHTTPRequestHandler):
    server: Sidecar

    def do_POST(self) -> None:
        assert self.rfile.read(int(self.headers["Content-Length"])) == b"{}"
        self.send_response(self.server.record(self.path))
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def sidecar() -> Iterator[Sidecar]:
    with Sidecar() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join(TIMEOUT_S)


@contextlib.contextmanager
def following(server: RunningServer, sidecar: Sidecar) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program beside a server."""
    environment = {**os.environ, "AGONES_SDK_HTTP_PORT": str(sidecar.port), "PYTHONWARNINGS": "error"}
    address = f"http://127.0.0.1:{server.port}"
    process = subprocess.Popen([sys.executable, FOLLOW, address], env=environment, start_new_session=True)
    with ended_after(process):
        yield process


def test_a_game_server_is_allocated_during_a_session_and_shut_down_after_the_server(
    tmp_path: Path, sidecar: Sidecar
) -> None:
    with (
        listening(write_project(tmp_path, MODEL), "--max-waiting", "0") as server,
        following(server, sidecar) as follow,
    ):
        assert sidecar.states.get(timeout=TIMEOUT_S) == "/ready"
        assert sidecar.pinged.wait(TIMEOUT_S)
        with connect(server.url, open_timeout=TIMEOUT_S, ping_interval=None):
            assert sidecar.states.get(timeout=TIMEOUT_S) == "/allocate"
        assert sidecar.states.get(timeout=TIMEOUT_S) == "/ready"
        os.kill(server.process.pid, signal.SIGTERM)
        assert server.ended() == 0
        assert sidecar.states.get(timeout=TIMEOUT_S) == "/shutdown"
        assert follow.wait(TIMEOUT_S) == 0
