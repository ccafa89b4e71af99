"""Ctrl-C, once and twice, in each state of the server."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
from pathlib import Path

import pytest

from tests.processes import alive, gone
from tests.server.client import client, controlling
from tests.server.running import PRELUDE, environment, listening, started, write_project
from tests.timeouts import TIMEOUT_S

GET_WS = (
    b"GET /ws?role=viewer HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
MODEL = """
NOISE = MyOutput(main_video=np.random.default_rng(1).integers(0, 256, (720, 1280, 3), np.uint8))


class MyState(InputState):
    _seconds = 0


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def load(self, config):
        print("loading", flush=True)
        time.sleep(config.get("load_s", 0))

    def inference(self):
        try:
            while True:
                time.sleep(self.state._seconds)
                yield gray(100)
        finally:
            print("the generator is closed", flush=True)

    @event(name="hang")
    def hang(self):
        self.state._seconds = 600
        print("hanging", flush=True)

    @disconnected
    def bye(self):
        print("goodbye", flush=True)
"""


async def test_a_client_that_reads_nothing_is_disconnected_without_an_error(tmp_path: Path) -> None:
    with started(write_project(tmp_path, MODEL.replace("gray(100)", "NOISE"))) as server:
        server.wait_for("ready in")
        async with client(server.url) as controller:
            await controller.frame()
            deaf = socket.create_connection(("127.0.0.1", server.port))
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.sendall(GET_WS)
            assert deaf.recv(12) == b"HTTP/1.1 101"
            for _ in range(30):
                await controller.frame()
            server.interrupt()
            assert (await controller.closed())[0] == 1001
        assert server.ended() == 0
        deaf.close()
        assert "error" not in server.log


async def test_ctrl_c_in_a_session_closes_all_clients_and_the_model_finishes(tmp_path: Path) -> None:
    with started(write_project(tmp_path, MODEL), stop_s=TIMEOUT_S) as server:
        server.wait_for("ready in")
        async with (
            controlling(server.url) as controller,
            client(server.url) as waiting,
            client(server.url, role="viewer") as viewer,
        ):
            await waiting.data("reactor.queue")
            await viewer.data("reactor.welcome")
            server.interrupt()
            for each in (controller, waiting, viewer):
                assert (await each.data("reactor.session", phase="ended"))["reason"] == "server_stopping"
                assert (await each.closed())[0] == 1001
        assert server.ended() == 0
        assert "the generator is closed" in server.log
        assert "goodbye" in server.log
        assert re.search(r"session ended id=s-\w+ reason=server_stopping", server.log)
        assert "Traceback" not in server.log


async def test_ctrl_c_while_the_model_loads(tmp_path: Path) -> None:
    with listening(write_project(tmp_path, MODEL), "--set", "load_s=600") as server:
        server.wait_for("^loading$")
        async with client(server.url) as controller:
            await controller.data("reactor.session", phase="loading")
            engine = server.engine
            server.interrupt()
            assert (await controller.data("reactor.session", phase="ended"))["reason"] == "server_stopping"
            assert (await controller.closed())[0] == 1001
        assert server.ended() == 0
        assert not alive(engine)
        assert "Traceback" not in server.log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_ctrl_c_without_clients(tmp_path: Path, number: signal.Signals) -> None:
    with started(write_project(tmp_path, MODEL)) as server:
        server.wait_for("ready in")
        os.kill(server.process.pid, number)
        assert server.ended() == 0
        assert "Traceback" not in server.log


def test_exit_handlers_of_the_model_run_and_all_that_it_printed_is_in_the_log(tmp_path: Path) -> None:
    model = MODEL.replace(
        "    def load(self, config):\n",
        "    def load(self, config):\n        import atexit; atexit.register(print, 'no end of line', end='')\n",
    )
    with started(write_project(tmp_path, model), stop_s=TIMEOUT_S) as server:
        server.wait_for("ready in")
        server.stop()
        assert "no end of line" in server.log


def test_exit_handlers_run_that_were_registered_before_the_engine_started(tmp_path: Path) -> None:
    project, installed = write_project(tmp_path / "project", MODEL), tmp_path / "installed"
    installed.mkdir()
    (installed / "sitecustomize.py").write_text(
        "import atexit, sys\n"
        "if 'reactor_runtime.engine' in sys.orig_argv:\n"
        "    atexit.register(lambda: print('handler of', sys.orig_argv[3]))\n"
    )
    path = {"PYTHONPATH": os.pathsep.join((environment()["PYTHONPATH"], str(installed)))}
    with started(project, variables=path, stop_s=TIMEOUT_S) as server:
        server.wait_for("ready in")
        server.stop()
        assert "handler of reactor_runtime.engine" in server.log


def test_an_engine_whose_model_has_closed_its_output_ends_without_a_message(tmp_path: Path) -> None:
    model = MODEL.replace("time.sleep(config", "sys.stdout.close(); time.sleep(config")
    with started(write_project(tmp_path, model)) as server:
        server.wait_for("ready in")
        server.stop()
        assert "ValueError" not in server.log


@pytest.mark.parametrize("wait_s", [0, 0.02, 0.04, 0.06, 0.1])
def test_ctrl_c_while_the_engine_s_interpreter_starts(tmp_path: Path, wait_s: float) -> None:
    with started(write_project(tmp_path, MODEL)) as server:
        server.wait_for("http://")
        time.sleep(wait_s)  # no matter when
        server.interrupt()
        assert server.ended() == 0, server.log
        assert "Traceback" not in server.log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
async def test_ctrl_c_while_a_reload_imports(tmp_path: Path, number: signal.Signals) -> None:
    project = write_project(tmp_path, MODEL)
    with started(project, "--reload") as server:
        server.wait_for("ready in")
        async with controlling(server.url) as controller:
            await controller.frame()
            engine = server.engine
            (project / "pipeline.py").write_text(PRELUDE + "print('importing', flush=True)\ntime.sleep(600)\n" + MODEL)
            server.wait_for("^importing")
            os.kill(server.process.pid, number)
            assert (await controller.closed())[0] == 1001
        assert server.ended() == 0
        gone(engine)
        assert "Traceback" not in server.log


async def test_a_step_that_hangs_does_not_delay_the_end_of_the_server(tmp_path: Path) -> None:
    with started(write_project(tmp_path, MODEL)) as server:
        server.wait_for("ready in")
        async with controlling(server.url) as controller:
            await controller.send("hang")
            server.wait_for("hanging")
            engine = server.engine
            server.interrupt()
            assert (await controller.closed())[0] == 1001
        assert server.ended() == 0
        assert not alive(engine)


async def test_a_second_ctrl_c_kills(tmp_path: Path) -> None:
    with started(write_project(tmp_path, MODEL), stop_s=TIMEOUT_S) as server:
        server.wait_for("ready in")
        async with controlling(server.url) as controller:
            await controller.send("hang")
            server.wait_for("hanging")
            engine = server.engine
            server.interrupt()
            server.wait_for("stopping")
            server.interrupt()
            assert server.ended() == 130
            gone(engine)
            controller.socket.transport.abort()
