"""From the command to a model that serves, or to the reason why it can't, with its exit code."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.processes import alive
from tests.server.client import client
from tests.server.running import listening, serving, started, write_project

GOOD = """
class MyState(InputState):
    pass


class MyModel(ReactorPipeline):
    state: MyState

    def load(self, config):
        {load}

    def inference(self):
        while True:
            yield gray(100)
"""
WAIT = "[time.sleep(0.01) for _ in iter(lambda: os.path.exists(config['go']), True)]"

ENDLESS_THREAD = "import threading\nthreading.Thread(target=time.sleep, args=(1e6,)).start()\n"


def good(load: str = "pass") -> str:
    return GOOD.replace("{load}", load)


@pytest.mark.parametrize(
    ("model", "code", "words"),
    [
        (good("open(config['weights'])"), 4, ["load() failed: KeyError: 'weights'", "open(config['weights'])"]),
        (good("sys.exit('no device')"), 4, ["load() failed: SystemExit: no device"]),
        (good("os.kill(os.getpid(), signal.SIGKILL)"), 4, ["SIGKILL", "while the model was loading"]),
        (good("ctypes.string_at(0)"), 4, ["SIGSEGV", "while the model was loading"]),
        (good().replace("MyModel", "MyModell"), 2, ["pipeline has no class MyModel", "did you mean MyModell?"]),
        (good() + "\nimport nothing_of_that_name\n", 2, ["pip install nothing_of_that_name"]),
        (good() + "\nraise ValueError('while importing')\n", 2, ["ValueError: while importing", "pipeline.py:"]),
        (good() + "\ndef f(:\n", 2, ["SyntaxError", "def f(:"]),
        (good().replace("    state: MyState\n", ""), 2, ["MyModel needs a state"]),
        ("MyModel = 3\n", 2, ["pipeline:MyModel is int, not a model", "reactor.yaml:1:8"]),
        (good().replace("def load(self, config)", "def load(self)"), 2, ["def load(self, config)"]),
        (
            good().replace("def inference", "def frames"),
            2,
            ["MyModel has no inference()", "did you mean inference() by frames()?"],
        ),
        (
            good("self.inference = self.frames; del self.inference").replace("def inference", "def frames"),
            4,
            ["MyModel has no inference() after load()", "class MyModel(ReactorPipeline):"],
        ),
        (good("raise BaseException('a panic elsewhere')"), 4, ["load() failed: BaseException: a panic elsewhere"]),
    ],
    ids=[
        "load raises",
        "load exits",
        "load is killed",
        "load crashes",
        "no class",
        "no module",
        "import raises",
        "syntax",
        "declaration",
        "no model",
        "load without config",
        "no inference",
        "no inference after load",
        "not even an Exception",
    ],
)
def test_a_model_that_cannot_be_served_is_explained_and_the_exit_code_says_which_kind(
    tmp_path: Path, model: str, code: int, words: list[str]
) -> None:
    with started(write_project(tmp_path, model)) as server:
        assert server.ended() == code, server.log
        for each in words:
            assert each in server.log
        assert "reactor_runtime/" not in server.log or "Fatal Python error" in server.log
        assert server.log.count("\nerror:") == 1


@pytest.mark.parametrize(
    ("model", "code"),
    [(good("raise OSError('disk on fire')"), 4), (good().replace("    state: MyState\n", ""), 2)],
    ids=["load raises", "declaration"],
)
def test_the_reason_why_a_model_cannot_be_served_comes_while_a_thread_of_it_runs(
    tmp_path: Path, model: str, code: int
) -> None:
    with started(write_project(tmp_path, ENDLESS_THREAD + model)) as server:
        assert server.ended() == code, server.log
        assert server.log.count("\nerror:") == 1


def test_a_port_in_use_is_found_before_the_model_is_loaded(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with started(write_project(tmp_path, good("print('loading')")), "--port", str(port)) as server:
            assert server.ended() == 3
            assert f"port {port} on 127.0.0.1 is in use" in server.log
            assert "loading" not in server.log


def test_an_address_of_another_machine_is_refused(tmp_path: Path) -> None:
    with started(write_project(tmp_path, good()), "--host", "192.0.2.1") as server:
        assert server.ended() == 3
        assert "can't listen on 192.0.2.1" in server.log


@pytest.mark.parametrize("host", ["", "nonsense.invalid", "127.0.0.1:80", "http://127.0.0.1"])
def test_what_is_no_address_is_a_usage_error(tmp_path: Path, host: str) -> None:
    with started(write_project(tmp_path, good()), "--host", host) as server:
        assert server.ended() == 2
        assert f'error: the host "{host}" is not an address\nhint: --host 127.0.0.1 is for this' in server.log


WARM_UP = """
class MyModel(ReactorPipeline):
    state: InputState
    warmup = 3

    def load(self, config):
        self.go, self.fails = config["go"], config.get("fails")

    def inference(self):
        yield gray(100)
        if self.fails:
            raise ValueError("no kernel")
        while not os.path.exists(self.go):
            time.sleep(0.01)
        yield gray(100)
"""


async def test_a_warm_up_is_progress_of_loading_and_its_failure_one_of_loading(tmp_path: Path) -> None:
    go = tmp_path / "go"
    project = write_project(tmp_path / "model", WARM_UP)
    with listening(project, "--set", f"go={go}") as server:
        async with client(server.url) as controller:
            await controller.data("reactor.session", phase="loading", progress=0.33, detail="warming up 2 of 3")
            assert server.health()[0] == 503
            go.touch()
            assert (await controller.frame()).header.seq == 0
    with started(project, "--set", f"go={go}", "--set", "fails=true") as server:
        assert server.ended() == 4, server.log
        assert "error: step 2 of the warm-up failed: ValueError: no kernel" in server.log
        assert 'raise ValueError("no kernel")' in server.log
        assert server.log.count("Traceback") == 0


async def test_the_page_and_the_line_are_there_while_the_model_loads(tmp_path: Path) -> None:
    load = f"print('reading weights'); self.progress(0.25); {WAIT}"
    imported, go = tmp_path / "imported", tmp_path / "go"
    slow_import = f"\nwhile not os.path.exists({str(imported)!r}):\n    time.sleep(0.01)\n"
    project = write_project(tmp_path / "model", good(load) + slow_import)
    with listening(project, "--set", f"go={go}") as server:
        assert server.get("/")[0] == 200
        assert server.health()[0] == 503
        async with client(server.url) as controller, client(server.url, role="viewer") as viewer:
            assert await controller.data("reactor.queue") == {"position": 1, "length": 1}
            await controller.data("reactor.session", phase="loading", detail="importing pipeline")
            imported.touch()
            loading = await controller.data("reactor.session", phase="loading", progress=0.25)
            assert loading["detail"] == "reading weights"
            assert loading["elapsed_s"] >= 0
            await viewer.data("reactor.session", phase="loading", detail="reading weights")
            assert server.health()[1]["status"] == "loading"
            go.touch()
            await controller.data("reactor.welcome")
            assert abs((await controller.frame()).level - 100) < 3
            await viewer.data("reactor.welcome")
            await viewer.frame()
        server.stop()


async def test_a_client_that_waits_is_told_why_it_is_not_served(tmp_path: Path) -> None:
    go = tmp_path / "go"
    load = f"{WAIT}; raise OSError('disk on fire')"
    with listening(write_project(tmp_path / "model", good(load)), "--set", f"go={go}") as server:
        async with client(server.url) as controller:
            await controller.data("reactor.session", phase="loading")
            go.touch()
            failed = await controller.data("reactor.session", phase="failed")
            assert failed["message"] == "load() failed: OSError: disk on fire"
            assert (await controller.closed())[0] == 1011
        assert server.ended() == 4


async def test_a_model_that_cannot_be_loaded_again_ends_the_server(tmp_path: Path) -> None:
    load = "os.path.exists(config['once']) and sys.exit('only once'); open(config['once'], 'w').close()"
    project = write_project(tmp_path / "model", good(load))
    with started(project, "--set", f"once={tmp_path / 'once'}") as server:
        server.wait_for("ready in")
        async with client(server.url) as controller:
            await controller.frame()
            os.kill(server.engine, signal.SIGKILL)
            assert (await controller.closed())[0] == 1011
        assert server.ended() == 1
        assert "after a crash the model could not be loaded again" in server.log


def test_what_the_model_prints_is_seen_at_once(tmp_path: Path) -> None:
    project = write_project(tmp_path, good("print('weights are here')"))
    with started(project) as server:
        server.wait_for("weights are here")
        server.wait_for("ready in")
        assert alive(server.engine)


@pytest.mark.parametrize("waiting", [0, 1])
async def test_a_full_line_is_refused(tmp_path: Path, waiting: int) -> None:
    with listening(write_project(tmp_path, good()), "--max-waiting", str(waiting), "--max-viewers", "1") as server:
        server.wait_for("ready in")
        async with client(server.url) as first, client(server.url, role="viewer") as viewer:
            await first.data("reactor.session", phase="started")
            await viewer.data("reactor.welcome")
            async with client(server.url, role="viewer") as refused:
                assert (await refused.closed())[0] == 1013
            async with client(server.url) as second:
                if waiting:
                    await second.data("reactor.queue")
                    async with client(server.url) as third:
                        assert (await third.closed())[0] == 1013
                else:
                    assert (await second.closed())[0] == 1013
        server.stop()


def test_a_project_may_have_files_named_as_modules_of_the_library(tmp_path: Path) -> None:
    project = write_project(tmp_path, good())
    for name in ("json", "random", "logging", "select"):
        (project / f"{name}.py").write_text("raise RuntimeError('this is not the one of the standard library')")
    with serving(project, cwd=project) as server:
        assert server.health()[1]["status"] == "ready"
