"""`reactor run --on ray` with three nodes of Ray on this machine, whose processes are killed one after the other."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from reactor_runtime.client import ClientError, ConnectionLost, connect
from reactor_runtime.client.blocking import BlockingSession
from reactor_runtime.cluster.front.serve import LOCAL_STARTS, remove_workers
from tests.cluster.local_ray import NOT_STARTED, RAY_S, wait_for_local_ray
from tests.forks import ROOT
from tests.processes import ancestors, children, ended_after, gone
from tests.server.running import environment, started, write_project
from tests.timeouts import TIMEOUT_S

MODEL = """
class MyState(InputState):
    pid: int = 0


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def inference(self):
        self.state.pid = os.getpid()
        while True:
            yield gray(100)
"""
FROM_FILE = """
class MyState(InputState):
    file: str = ""


class MyModel(ReactorPipeline):
    state: MyState

    def inference(self):
        self.state.file = __file__
        while True:
            yield gray(100)
"""
ROOMS = """
class Player(InputState):
    level: int = 100


class MyModel(ReactorPipeline):
    seat_state: Player
    seats = 2
    sessions_per_model = 2
    fps = 30

    def inference(self):
        while True:
            yield [gray(each.state.level) for each in self.seats]
"""
WORKERS = ("--on", "ray", "--sessions", "2", "--gpus-per-session", "1", "--cpus-per-session", "0")


@dataclass(frozen=True)
class Nodes:
    """The address of a cluster, and the process of its head, the GCS."""

    address: str
    gcs: int


@pytest.fixture(scope="module", autouse=True)
def without_token() -> Iterator[None]:
    """Let processes connect to Ray without the token that it writes into the home directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        yield


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """Start the nodes, once more if that fails, as a front does with its own Ray."""
    for _ in range(LOCAL_STARTS):
        with _started_nodes() as found:
            if found is not None:
                yield found
                return
    pytest.skip("this machine is too busy for Ray: three nodes have not started")


@contextlib.contextmanager
def _started_nodes() -> Iterator[Nodes | None]:
    command = [sys.executable, "-m", "tests.cluster.ray_nodes"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with ended_after(process):
        assert process.stdin is not None
        assert process.stdout is not None
        with process.stdout, process.stdin:
            line = process.stdout.readline()
            yield Nodes(**json.loads(line)) if line else None
            process.stdin.close()
            process.wait(TIMEOUT_S)


@pytest.fixture
def address(nodes: Nodes) -> Iterator[str]:
    """Return the address of the cluster; end what the test has left, so that no front of the next one finds it."""
    yield nodes.address
    remove_workers("my-model", nodes.address)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", MODEL)


def reactor(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "reactor_cli", *arguments]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=RAY_S, check=False)


def processes_of(session: BlockingSession) -> list[int]:
    """Return the processes that a session depends on: its worker's server, the actor and the raylet."""
    chain = ancestors(int(session.state["pid"]))
    raylet = next(number for number, pid in enumerate(chain) if "raylet" in _command(pid))
    return chain[raylet - 2 : raylet + 1]


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[0]


def niceness(pid: int) -> int:
    return os.getpriority(os.PRIO_PROCESS, pid)


def lost(session: BlockingSession) -> None:
    """Receive until the session is lost, which is no regular end."""
    with pytest.raises(ConnectionLost):
        for _ in session.frames(decode=False):
            pass


def shown(session: BlockingSession) -> None:
    """Wait for a frame, and for the process id in the state."""
    session.frame()
    while not session.state["pid"]:
        session.frame()


def test_sessions_survive_what_does_not_run_them_and_their_clients_get_others(project: Path, address: str) -> None:
    where = ("--ray-address", address)
    with contextlib.ExitStack() as stack:
        with started(project, *WORKERS, *where) as first:
            first.wait_for("ready 2 of 2", timeout_s=RAY_S)
            session = stack.enter_context(connect(f"http://127.0.0.1:{first.port}"))
            shown(session)
            id, port = session.id, first.port

            refused = reactor("run", str(project), *WORKERS, *where, "--port", "0")
            assert refused.returncode == 2
            assert f"the cluster my-model has a front already: process {first.process.pid} on" in refused.stderr
            assert "`--cluster NAME`" in refused.stderr
            shown(session)
            (driver,) = children(first.process.pid)
            os.kill(driver, signal.SIGKILL)
            first.wait_for("no contact with the cluster", timeout_s=RAY_S)
            first.wait_for("contact with the cluster again", timeout_s=RAY_S)
            shown(session)
            first.process.send_signal(signal.SIGKILL)
        shown(session)

        with started(project, *WORKERS, *where, "--port", str(port)) as second:
            second.wait_for("ready 2 of 2", timeout_s=RAY_S)
            busy = [each for each in second.health()[1]["engines"] if each["session"]]
            assert [each["session"] for each in busy] == [id]
            for number in range(3):
                # The worker's server, its actor, its node.
                os.kill(processes_of(session)[number], signal.SIGKILL)
                lost(session)
                session.ready(timeout_s=TIMEOUT_S)
                assert session.id != id
                id = session.id
                shown(session)
                if number < 2:
                    second.wait_for(rf"(?s)(ready 2 of 2.*){{{number + 2}}}", timeout_s=RAY_S)
            workers = processes_of(session)
            second.process.send_signal(signal.SIGKILL)
        shown(session)

        with started(project, *WORKERS, *where, "--max-viewers", "7") as third:
            third.wait_for(
                "another version of the project, or other options, and ends with its last session", timeout_s=RAY_S
            )
            third.wait_for("ready 1 of 2", timeout_s=RAY_S)
            shown(session)
            third.process.send_signal(signal.SIGKILL)
        done = reactor("down", str(project), *where)
        # That of the session, and one of the last front, for whose other one there is no place.
        assert (done.returncode, done.stdout) == (0, "my-model: 3 workers ended\n"), done.stderr
        lost(session)
        for pid in workers[:2]:
            gone(pid)


def test_a_killed_engine_ends_its_session_with_the_reason_and_the_other_goes_on(project: Path, address: str) -> None:
    with started(project, *WORKERS, "--ray-address", address) as server:
        server.wait_for("ready 2 of 2", timeout_s=RAY_S)
        url = f"http://127.0.0.1:{server.port}"
        with connect(url) as hit, connect(url) as other:
            shown(hit)
            shown(other)
            id, killed = other.id, int(hit.state["pid"])
            assert niceness(killed) <= niceness(0) or "RAY_worker_niceness=0" in server.log
            os.kill(killed, signal.SIGKILL)
            with pytest.raises(ClientError, match=r"the model's process was killed \(SIGKILL[,)]"):
                for _ in hit.frames(decode=False):
                    pass
            with connect(url) as again:
                shown(again)
                assert again.state["pid"] not in (killed, other.state["pid"])
            shown(other)
            assert other.id == id
        server.stop()


@pytest.fixture
def ray_directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a directory for the files of Ray; a path of pytest is too long for its sockets."""
    with tempfile.TemporaryDirectory() as directory:
        monkeypatch.setenv("RAY_TMPDIR", directory)
        yield Path(directory)


def test_ray_is_started_on_this_machine_and_ends_with_the_front(project: Path, ray_directory: Path) -> None:
    with started(project, *WORKERS) as server:
        wait_for_local_ray(server)
        server.wait_for("ready 2 of 2", timeout_s=RAY_S)
        with connect(f"http://127.0.0.1:{server.port}") as session:
            shown(session)
            assert niceness(int(session.state["pid"])) == niceness(server.process.pid)
            chain = ancestors(int(session.state["pid"]))
        (driver,) = children(server.process.pid)
        assert driver in chain
        assert list(ray_directory.glob("reactor-ray-*/session_2*"))
        server.process.send_signal(signal.SIGINT)
        assert server.ended() == 0, server.log
        for pid in chain[: chain.index(driver) + 1]:
            gone(pid)
        assert not list(ray_directory.iterdir())
        assert "Traceback" not in server.log
        # On a busy machine Ray may start late, answer late, or lose a worker, and a first step be slow.
        expected = ("no contact with", "worker gone", "the first step took")
        warnings = [line for line in server.log.splitlines() if "warn" in line]
        assert not [line for line in warnings if not any(words in line for words in expected)]


def test_the_project_is_used_where_it_is_on_the_nodes(tmp_path: Path, address: str) -> None:
    project = write_project(tmp_path / "project", FROM_FILE)
    with started(project, *WORKERS, "--ray-address", address, "--project-on-nodes") as server:
        server.wait_for("ready 1 of 2", timeout_s=RAY_S)
        with connect(f"http://127.0.0.1:{server.port}") as session:
            while session.state["file"] != str(project / "pipeline.py"):
                session.frame()
        server.stop()


def test_clients_of_two_rooms_play_in_one_worker(tmp_path: Path, address: str) -> None:
    project = write_project(tmp_path / "project", ROOMS)
    one_worker = ("--on", "ray", "--sessions", "1", "--gpus-per-session", "1", "--cpus-per-session", "0")
    with started(project, *one_worker, "--ray-address", address) as server, contextlib.ExitStack() as stack:
        server.wait_for("ready .*for 2 sessions", timeout_s=RAY_S)
        url = f"http://127.0.0.1:{server.port}"
        players = [stack.enter_context(connect(url, room=room)) for room in ("one", "one", "two", "two")]
        assert [each.seat for each in players] == [0, 1, 0, 1]
        assert [each.id for each in players[::2]] == [each.id for each in players[1::2]]
        engines = server.health()[1]["engines"]
        assert {each["session"] for each in engines} == {each.id for each in players}
        assert len({each["worker"] for each in engines}) == 1
        for player in players:
            assert player.send("set_level", level=200).n == 1
        server.stop()


def test_a_model_that_can_not_be_loaded_ends_the_front_with_the_reason_alone(tmp_path: Path, address: str) -> None:
    project = write_project(tmp_path / "project", 'raise OSError("disk on fire")')
    done = reactor("run", str(project), *WORKERS, "--ray-address", address, "--port", "0")
    assert done.returncode == 4
    assert "the last one: " in done.stderr
    assert "OSError: disk on fire\nhint: " in done.stderr
    assert "ray_driver.py" not in done.stderr


def test_a_worker_without_a_free_port_ends_the_front_with_the_name_of_its_node(project: Path, address: str) -> None:
    with socket.create_server(("0.0.0.0", 0)) as used:
        port = used.getsockname()[1]
        done = reactor(
            "run",
            str(project),
            *WORKERS,
            "--ray-address",
            address,
            "--port",
            "0",
            "--worker-ports",
            f"{port}-{port}",
        )
    assert done.returncode == 4
    assert (
        f"the last one: on {socket.gethostname()}: none of --worker-ports {port}-{port} can be used, the last one: "
        f"port {port} on 0.0.0.0 is in use\n"
    ) in done.stderr


def test_a_front_listens_and_logs_why_it_is_not_connected(project: Path) -> None:
    with started(project, *WORKERS, "--ray-address", "127.0.0.1:1") as server:
        server.wait_for("no contact with Ray, trying again: Ray at 127.0.0.1:1 can't be used", timeout_s=RAY_S)
        code, health = server.health()
        assert (code, health["detail"]) == (503, "connecting to the cluster")
        assert "`ray status --address 127.0.0.1:1` shows" in server.log
        server.process.send_signal(signal.SIGINT)
        assert server.ended() == 0, server.log


def test_ray_that_does_not_start_is_started_twice_and_leaves_nothing(
    project: Path, ray_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Too long for its sockets.
    files = ray_directory / ("x" * 80)
    files.mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(files))
    with started(project, *WORKERS) as server:
        assert server.ended(timeout_s=RAY_S) == 2, server.log
        assert f"no contact with Ray, trying again: {NOT_STARTED}" in server.log
        assert server.log.count(NOT_STARTED) == 2
        assert "ray stop" not in server.log
        assert "serve without Ray" in server.log
        assert not list(files.iterdir())


# The last test with these nodes: it ends them.
def test_sessions_continue_without_the_head_of_the_cluster(project: Path, nodes: Nodes) -> None:
    with started(project, *WORKERS, "--ray-address", nodes.address) as server:
        server.wait_for("ready 1 of 2", timeout_s=RAY_S)
        with connect(f"http://127.0.0.1:{server.port}") as session:
            shown(session)
            os.kill(nodes.gcs, signal.SIGKILL)
            server.wait_for("no contact with the cluster", timeout_s=RAY_S)
            shown(session)
