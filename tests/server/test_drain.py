"""SIGTERM with `--drain-timeout`: a running session continues to its end, and no other begins."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from reactor_runtime.server.delivery.client import Role
from reactor_runtime.server.options import TurnLimits
from tests.processes import gone
from tests.server.admission_fixture import AdmissionFixture, phases, told
from tests.server.client import client, controlling
from tests.server.running import RunningServer, listening, started, write_project
from tests.timeouts import TIMEOUT_S

MODEL = """
class MyState(InputState):
    pass


class MyModel(ReactorPipeline):
    state: MyState
    fps = 60

    def load(self, config):
        time.sleep(config.get("load_s", 0))

    @disconnected
    def goodbye(self):
        print("goodbye", flush=True)

    @event(name="die")
    def die(self):
        os._exit(3)

    @event(name="hang")
    def hang(self):
        time.sleep(600)

    def inference(self):
        while True:
            yield gray(100)
"""


@contextlib.contextmanager
def draining_for(tmp_path: Path, seconds: int) -> Iterator[RunningServer]:
    project = write_project(tmp_path, MODEL)
    with started(project, "--drain-timeout", str(seconds), stop_s=TIMEOUT_S) as server:
        server.wait_for("ready in")
        yield server


def terminate(server: RunningServer) -> None:
    os.killpg(server.process.pid, signal.SIGTERM)


async def test_the_session_continues_and_the_server_ends_with_it(tmp_path: Path) -> None:
    with draining_for(tmp_path, 600) as server:
        async with (
            controlling(server.url) as controller,
            client(server.url) as waiting,
            client(server.url, role="viewer") as viewer,
        ):
            await waiting.data("reactor.queue")
            await viewer.data("reactor.welcome")
            terminate(server)
            for each in (controller, viewer):
                assert (await each.data("reactor.session", phase="stopping"))["seconds"] == 600
            assert (await waiting.data("reactor.session", phase="ended"))["reason"] == "server_stopping"
            assert (await waiting.closed())[0] == 1001
            for role in ("controller", "viewer"):
                async with client(server.url, role=role) as late:
                    assert (await late.closed())[0] == 1001
            assert server.get("/ready") == (503, "stopping\n")
            assert (server.health()[0], server.health()[1]["status"]) == (503, "stopping")
            assert server.get("/live")[0] == 200
            for _ in range(60):
                await controller.frame()
            await viewer.frame()
            await controller.socket.close()
            assert (await viewer.closed())[0] == 1001
        assert server.ended() == 0
        assert "goodbye" in server.log


async def test_a_session_longer_than_the_timeout_is_ended(tmp_path: Path) -> None:
    with draining_for(tmp_path, 1) as server:
        async with controlling(server.url) as controller:
            terminate(server)
            await controller.data("reactor.session", phase="stopping")
            assert (await controller.data("reactor.session", phase="ended"))["reason"] == "server_stopping"
            assert (await controller.closed())[0] == 1001
        assert server.ended() == 0
        assert "goodbye" in server.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda number: number.name)
async def test_a_second_signal_stops_at_once(tmp_path: Path, number: signal.Signals) -> None:
    with draining_for(tmp_path, 600) as server:
        async with controlling(server.url) as controller:
            terminate(server)
            await controller.data("reactor.session", phase="stopping")
            os.killpg(server.process.pid, number)
            assert (await controller.data("reactor.session", phase="ended"))["reason"] == "server_stopping"
            assert (await controller.closed())[0] == 1001
        assert server.ended() == 0
        assert "goodbye" in server.log


async def test_a_third_signal_kills(tmp_path: Path) -> None:
    with draining_for(tmp_path, 600) as server:
        async with controlling(server.url) as controller:
            await controller.frame()
            engine = server.engine
            await controller.send("hang")
            terminate(server)
            await controller.data("reactor.session", phase="stopping")
            terminate(server)
            server.wait_for("stopping$")
            terminate(server)
            assert server.ended() == 130
            gone(engine)
            controller.socket.transport.abort()


async def test_a_model_that_dies_meanwhile_ends_the_server(tmp_path: Path) -> None:
    with draining_for(tmp_path, 600) as server:
        async with controlling(server.url) as controller:
            terminate(server)
            await controller.data("reactor.session", phase="stopping")
            await controller.send("die")
            assert (await controller.data("reactor.session", phase="ended"))["reason"] == "model_died"
            assert (await controller.closed())[0] == 1011
        assert server.ended() == 0
        assert "started again" not in server.log


async def test_ctrl_c_does_not_drain(tmp_path: Path) -> None:
    with draining_for(tmp_path, 600) as server:
        async with controlling(server.url) as controller:
            server.interrupt()
            assert (await controller.closed())[0] == 1001
            assert not [text for text in controller.texts if text["data"].get("phase") == "stopping"]
        assert server.ended() == 0


@pytest.mark.parametrize("load_s", [0, 600], ids=["idle", "loading"])
async def test_without_a_session_there_is_nothing_to_wait_for(tmp_path: Path, load_s: int) -> None:
    arguments = ("--drain-timeout", "600", "--set", f"load_s={load_s}")
    with listening(write_project(tmp_path, MODEL), *arguments) as server:
        if not load_s:
            server.wait_for("ready in")
        terminate(server)
        assert server.ended() == 0, server.log


async def test_draining_notifies_each_client() -> None:
    services = AdmissionFixture()
    controller, viewer, waiting = services.come(), services.come(Role.VIEWER), services.come()
    services.begin()
    for each in (controller, viewer, waiting):
        await told(each)
    services.admission.drain(25.0)
    for each in (controller, viewer):
        assert await phases(each) == ["stopping"]
        assert each.closing is None
    assert await phases(waiting) == ["ended"]
    assert waiting.closing is not None
    session = services.slot.session
    assert session is not None
    services.admission.detach(controller)
    assert not session.over.is_set()
    services.end()
    assert session.over.is_set()


async def test_draining_notifies_a_controller_whose_session_is_about_to_begin() -> None:
    services = AdmissionFixture()
    controller = services.come()
    services.admission.drain(25.0)
    assert "stopping" in await phases(controller)
    assert controller.closing is None


async def test_draining_cancels_the_end_of_a_turn() -> None:
    services = AdmissionFixture(limits=TurnLimits(max_session_s=60.0))
    controller, waiting = services.come(), services.come(watches=True)
    services.begin()
    for each in (controller, waiting):
        await told(each)
    services.admission.drain(600.0)
    assert await phases(controller) == ["ending", "stopping"]
    assert await phases(waiting) == ["ended"]
    session = services.slot.session
    assert session is not None
    assert session.seats[0].turn.left_s is None


async def test_a_controller_resumes_its_session_while_the_server_drains() -> None:
    services = AdmissionFixture(limits=TurnLimits(resume_grace_s=10.0))
    controller = services.come()
    session = services.begin()
    assert services.slot.session is not None
    secret = services.slot.session.seats[0].resume_secret
    assert secret is not None
    services.admission.detach(controller, lost=True)
    services.admission.drain(600.0)
    services.clock.move_to(services.clock.now() + 7)
    stranger, back = services.come(resume="another"), services.come(resume=secret)
    assert stranger.closing is not None
    assert back.closing is None
    assert services.session == session
    assert services.slot.session.controller is back
    assert [each for each in await told(back) if each[0] == "reactor.session"][-1][1] == {
        "phase": "stopping",
        "seconds": 593.0,
        "message": "the server is stopping, in 593 s at the latest",
    }
