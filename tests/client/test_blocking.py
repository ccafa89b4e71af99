"""The client without an event loop: the start and the end of its thread."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from reactor_runtime.client import BlockingSession, Session, SessionEnded, connect
from tests.server.running import RunningServer, serving, write_project
from tests.timeouts import TIMEOUT_S

MODEL = """
class MyState(InputState):
    level: int = InputField(default=100, ge=0, le=255)


class MyModel(ReactorPipeline):
    state: MyState
    fps = 30

    def inference(self):
        yield MyOutput(main_video=gray(self.state.level))
        while True:
            yield Idle

    @event(name="wait")
    async def wait(self):
        await asyncio.Event().wait()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("model"), MODEL)) as server:
        yield server


@pytest.fixture
def url(server: RunningServer) -> str:
    server.wait_for_health("ready")
    return f"http://127.0.0.1:{server.port}"


def parameters_of(session: type) -> dict[str, dict[str, tuple[Any, Any, Any]]]:
    """Return the kind, default and annotation of each parameter of the public methods of a class."""
    methods = {name: each for name, each in vars(session).items() if inspect.isfunction(each) and name[0] != "_"}
    return {
        name: {
            each.name: (each.kind, each.default, each.annotation)
            for each in inspect.signature(method).parameters.values()
        }
        for name, method in methods.items()
    }


def test_it_has_the_methods_of_a_session_with_the_same_parameters() -> None:
    session, blocking = parameters_of(Session), parameters_of(BlockingSession)
    session["close"] = session.pop("aclose")
    # A program on an event loop has `asyncio.timeout`.
    del blocking["ready"]["timeout_s"]
    assert blocking == session


class Waiter(threading.Thread):
    """Call a method of a session on a thread, until it returns or raises."""

    def __init__(self, session: BlockingSession, method: str) -> None:
        super().__init__(daemon=True)
        self._session = session
        self._method = method
        self.begun = threading.Event()
        self.outcome: object = None
        self.start()

    def run(self) -> None:
        try:
            if self._method == "frames":
                for frame in self._session.frames():
                    self.outcome = frame.seq
                    self.begun.set()
            else:
                self.begun.set()
                self._session.send("wait")
        except SessionEnded as ended:
            self.outcome = ended.reason


@pytest.mark.parametrize(("method", "outcome"), [("frames", 0), ("send", "closed")])
def test_the_end_of_the_block_ends_calls_on_other_threads(url: str, method: str, outcome: object) -> None:
    with connect(url) as session:
        waiter = Waiter(session, method)
        assert waiter.begun.wait(TIMEOUT_S)
    waiter.join(TIMEOUT_S)
    assert not waiter.is_alive()
    assert waiter.outcome == outcome


def test_after_the_block_methods_raise_session_ended(url: str) -> None:
    with connect(url) as session:
        frames, messages = session.frames(), session.messages()
        next(frames)
    for method in (session.ready, session.here, session.latest, lambda: session.send("wait")):
        with pytest.raises(SessionEnded) as ended:
            method()
        assert ended.value.reason == "closed"
    for iterator in (frames, messages, session.frames()):
        assert list[object](iterator) == []
    session.close()


def test_a_wait_for_the_turn_can_time_out_and_be_repeated(url: str) -> None:
    with connect(url) as first, connect(url, wait=False) as second:
        with pytest.raises(TimeoutError):
            second.ready(timeout_s=0.01)
        first.close()
        second.ready(timeout_s=TIMEOUT_S)
        assert second.role == "controller"


def test_the_thread_ends_with_the_block(url: str) -> None:
    with connect(url) as session:
        assert next(session.frames()).track == "main_video"
        assert "reactor-client" in [thread.name for thread in threading.enumerate()]
        session.close()
    assert "reactor-client" not in [thread.name for thread in threading.enumerate()]
