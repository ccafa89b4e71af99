"""Moderation: who decides about a value, what waits for the decision, and what a client is answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime import (
    ClientInfo,
    CommandError,
    InputField,
    InputState,
    Output,
    ReactorModel,
    ReactorPipeline,
    UploadedFile,
    Video,
    VideoModel,
    command,
    disconnected,
    event,
    get_ctx,
)
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.engine.dispatch import CheckedEvent, check_event
from reactor_runtime.engine.drivers.threads import UntrackedThreads
from reactor_runtime.engine.host import Host
from reactor_runtime.engine.host_parts import HostParts, Outlet
from reactor_runtime.engine.moderation import LIMIT_S, Moderation
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.engine.session import ModelSession
from reactor_runtime.errors import ClassError
from reactor_runtime.ipc.messages import ClientEvent, EventRefused, Shutdown, StartSession, StepRequest
from reactor_runtime.testing import PipelineExecutor, Studio
from tests.fakes import CollectingSink, FakeClock, settle
from tests.timeouts import TIMEOUT_S


class Picture(Output):
    video: Video


class Prompts(InputState):
    prompt: str = InputField(default="a cat", moderate=True)
    style: str = InputField(default="oil", moderate=True)
    speed: float = 1


class Judge:
    """Decide as the text says; a text "wait …" waits for `go`."""

    asked: list[tuple[object, str, str, str]]
    thread: threading.Thread
    go: threading.Event

    async def moderate(self, value: object, *, event: str, field: str, client: ClientInfo) -> bool:
        self.asked.append((value, event, field, client.id))
        self.thread = threading.current_thread()
        text = value.name if isinstance(value, UploadedFile) else str(value)
        if text.startswith("wait"):
            # A coroutine that can be cancelled, unlike a thread that waits.
            while not self.go.is_set():  # noqa: ASYNC110  # another thread sets it
                await asyncio.sleep(0.001)
        if "block" in text:
            self.go.wait(TIMEOUT_S)
        if "rude" in text:
            raise CommandError("rude", f"{text} is not nice")
        if "crash" in text:
            raise KeyError("the service is down")
        if "odd" in text:
            return text  # type: ignore[return-value]  # that is the mistake
        return "bad" not in text


class World(Judge, ReactorPipeline):
    state: Prompts
    output: Picture

    def load(self, _: dict[str, Any]) -> None:
        self.asked, self.go = [], threading.Event()
        self.log: list[str] = []

    @event(name="begin")
    def begin(self, text: str = InputField(default="hello", moderate=True), times: int = 1) -> None:
        self.log.append(f"{text} with {self.state.prompt} {times}")

    @event(name="show")
    def show(self, image: UploadedFile = InputField(moderate=True)) -> None:  # noqa: B008
        self.log.append(image.name)

    def inference(self) -> Iterator[Picture]:
        while True:
            yield Picture(video=np.zeros((2, 2, 3), np.uint8))


@pytest.fixture
def studio() -> Iterator[Studio[World]]:
    with Studio(World) as studio:
        studio.connect()
        yield studio


def test_the_model_decides_about_each_moderated_value_that_a_client_sends(studio: Studio[World]) -> None:
    studio.send_event("set_prompt", prompt="a dog")
    studio.send_event("set_speed", speed=2)
    studio.send_event("begin", times=2)
    studio.send_event("begin", text="hi")
    studio.send_event("show", image=UploadedFile(b"x", name="cat.png"))
    (image, *where), asked = studio.model.asked.pop(), studio.model.asked
    assert asked == [("a dog", "set_prompt", "prompt", "c-1"), ("hi", "begin", "text", "c-1")]
    assert isinstance(image, UploadedFile)
    assert where == ["show", "image", "c-1"]
    assert studio.model.log == ["hello with a dog 2", "hi with a dog 1", "cat.png"]
    assert studio.model.thread.name == "reactor-moderation"


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("bad", "invalid_event", "set_prompt.prompt: refused by the moderation"),
        ("rude", "rude", "rude is not nice"),
    ],
)
def test_a_refused_value_changes_nothing(studio: Studio[World], text: str, code: str, message: str) -> None:
    with pytest.raises(CommandError) as raised:
        studio.send_event("set_prompt", prompt=text)
    assert (raised.value.code, raised.value.message) == (code, message)
    assert studio.model.state.prompt == "a cat"


@pytest.mark.parametrize(("text", "error"), [("crash", KeyError), ("odd", TypeError)])
def test_an_exception_refuses_the_value_and_is_raised_for_a_test(
    studio: Studio[World], text: str, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(error, match=r"down|moderate\(\) returned 'odd': return False"):
        studio.send_event("set_prompt", prompt=text)
    assert studio.model.state.prompt == "a cat"
    assert "moderate() failed, so the event set_prompt was refused" in caplog.text
    studio.send_event("set_prompt", prompt="a dog")
    assert studio.model.state.prompt == "a dog"


class Loop(Judge, ReactorModel):
    state: Prompts
    output: Picture

    def load(self, _: dict[str, Any]) -> None:
        self.asked, self.go = [], threading.Event()


class Blocks(Judge, VideoModel):
    state: Prompts

    def __init__(self, _: object = None) -> None:
        self.asked, self.go = [], threading.Event()

    @command("begin")
    def begin(self, text: str = InputField(moderate=True)) -> None: ...

    def start_session(self) -> None:
        while not get_ctx().should_stop():
            get_ctx().emit_block(np.zeros((2, 2, 3), np.uint8))


@pytest.mark.parametrize("model", [Loop, Blocks])
def test_all_styles_are_moderated(model: type[Loop | Blocks]) -> None:
    with Studio(model) as studio:
        studio.connect()
        studio.send_event("set_prompt", prompt="a dog")
        with pytest.raises(CommandError, match=r"set_prompt\.prompt: refused"):
            studio.send_event("set_prompt", prompt="bad")
        assert studio.model.state.prompt == "a dog"
        assert len(studio.model.asked) == 2


def test_a_written_setter_is_moderated_as_its_field() -> None:
    class Own(Judge, ReactorPipeline):
        state: Prompts
        output: Picture

        @event(name="set_prompt")
        def set_prompt(self, text: str) -> None: ...

        @event(name="set_style")
        def set_style(self, style: str, strength: float = 1) -> None: ...

    events = Contract.of(Own).events
    assert events["set_prompt"].arguments.moderated == ("text",)
    assert events["set_style"].arguments.moderated == ("style",)
    assert events["set_prompt"].parameters_schema()["properties"]["text"]["x-reactor-moderate"] is True


class Unit:
    """The moderation of a model, without the rest of the engine."""

    def __init__(self, model: World) -> None:
        self.model, self.clock = model, FakeClock()
        self.sink = CollectingSink(self.clock)
        self.contract = Contract.of(type(model))
        self.served = ServedModel(Version(model, self.contract, {}))
        self.moderation = Moderation(self.served, self.clock, UntrackedThreads(), self.sink.send)
        self.accepted: list[str] = []
        self.session = ModelSession("s-1", ClientInfo("c-1", 0.0), self.clock, 0.0, seats=2)
        self.session.clients["c-2"] = ClientInfo("c-2", 0.0, seat=1)
        self._tickets = iter(range(1, 10_000))

    def send(self, name: str, client: str = "c-1", seat: int = 0, **data: object) -> None:
        sent = ClientEvent("s-1", client, next(self._tickets), name, json.dumps(data), seat=seat)
        checked = check_event(self.contract.events, sent)
        assert isinstance(checked, CheckedEvent)
        self.moderation.accept(checked)

    def accept(self, checked: CheckedEvent) -> None:
        self.accepted.append(f"{checked.event.client} {' '.join(map(str, checked.arguments.values()))}")

    @property
    def refused(self) -> list[EventRefused]:
        return [each for each in self.sink.everything if isinstance(each, EventRefused)]

    async def settled(self, accepted: int, refused: int = 0) -> None:
        """Wait until so many events were passed on and refused."""
        async with asyncio.timeout(TIMEOUT_S):
            while (len(self.accepted), len(self.refused)) != (accepted, refused):  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def asked(self, times: int) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.model.asked) != times:  # noqa: ASYNC110
                await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def moderated() -> AsyncIterator[Unit]:
    model = World()
    model.load({})
    unit = Unit(model)
    unit.moderation.begin_session(unit.session, unit.accept)
    try:
        yield unit
    finally:
        model.go.set()
        unit.moderation.close()


async def test_events_of_one_client_stay_in_order_and_others_do_not_wait() -> None:
    async with moderated() as unit:
        unit.send("set_prompt", prompt="wait")
        unit.send("begin", text="first")
        unit.send("begin", times=2)
        unit.send("begin", client="c-2", text="other")
        await unit.settled(1)
        await unit.asked(3)
        assert unit.accepted == ["c-2 other 1"]
        unit.model.go.set()
        await unit.settled(4)
        assert unit.accepted == ["c-2 other 1", "c-1 wait", "c-1 first 1", "c-1 hello 2"]


async def test_requests_for_steps_wait_behind_events_of_their_client_until_it_is_gone() -> None:
    async with moderated() as unit:
        assert unit.moderation.accept_request(2, lambda: unit.accepted.append("first"))
        unit.send("set_prompt", prompt="wait")
        assert unit.moderation.accept_request(2, lambda: unit.accepted.append("dropped"))
        unit.moderation.drop_requests()
        assert unit.moderation.accept_request(2, lambda: unit.accepted.append("second"))
        unit.send("set_speed", speed=2)
        assert unit.accepted == ["first"]
        unit.model.go.set()
        await unit.settled(4)
        assert unit.accepted == ["first", "c-1 wait", "second", "c-1 2.0"]


class Stepped(World):
    @disconnected
    def left(self) -> None:
        self.go.set()

    def inference(self) -> Iterator[Picture]:
        for picture in super().inference():
            self.log.append("step")
            yield picture


def send_without_waiting(executor: PipelineExecutor[Stepped], text: str) -> None:
    sent = ClientEvent(executor._session, "c-1", 77, "begin", json.dumps({"text": text}))
    checked = check_event(executor._host.served.contract.events, sent)
    assert isinstance(checked, CheckedEvent)
    executor._host.receive_message(checked)


def test_a_step_is_made_after_the_events_that_were_sent_before_it() -> None:
    with PipelineExecutor(Stepped) as executor:
        executor.connect(stepped=True)
        send_without_waiting(executor, "wait")
        executor._host.receive_message(StepRequest(executor._session, "c-1", 78, 1, "{}", False, None))
        executor.model.go.set()
        executor.step(1)
        assert executor.model.log == ["wait with a cat 1", "step", "step"]


def test_a_value_that_is_decided_about_during_a_reset_is_applied_after_it() -> None:
    with PipelineExecutor(Stepped) as executor:
        executor.connect(stepped=True)
        executor._host.receive_message(StepRequest(executor._session, "c-1", 76, 1, "{}", True, None))
        send_without_waiting(executor, "wait")
        executor.step(1)
        assert executor.model.log == ["step", "wait with a cat 1", "step"]
        assert 77 in executor._recorder.answers


async def test_a_value_over_another_connection_is_that_of_the_client_in_the_seat_and_is_dropped_with_it() -> None:
    async with moderated() as unit:
        unit.send("begin", client="c-9", seat=1, text="wait")
        unit.send("begin", text="wait as well")
        await unit.asked(2)
        assert {client for *_, client in unit.model.asked} == {"c-1", "c-2"}
        unit.moderation.drop_client("c-2")
        unit.model.go.set()
        await unit.settled(1)
        assert unit.accepted == ["c-1 wait as well 1"]


async def test_a_setter_of_another_field_does_not_wait() -> None:
    async with moderated() as unit:
        unit.send("set_prompt", prompt="wait")
        unit.send("set_speed", speed=2)
        assert unit.accepted == ["c-1 2.0"]
        unit.send("begin", times=2)
        unit.send("set_speed", speed=3)
        assert unit.accepted == ["c-1 2.0"]
        unit.model.go.set()
        await unit.settled(4)
        assert unit.accepted == ["c-1 2.0", "c-1 wait", "c-1 hello 2", "c-1 3.0"]


async def test_a_refusal_releases_the_events_behind_it() -> None:
    async with moderated() as unit:
        unit.send("set_prompt", prompt="wait and be bad")
        unit.send("begin", times=2)
        unit.model.go.set()
        await unit.settled(1, refused=1)
        (refused,) = unit.refused
        assert (refused.code, refused.client, refused.ticket) == ("invalid_event", "c-1", 1)
        assert refused.fields == [{"path": "set_prompt.prompt", "message": "refused by the moderation"}]


@pytest.mark.parametrize("text", ["wait", "block"])
async def test_a_decision_that_takes_too_long_refuses(text: str, caplog: pytest.LogCaptureFixture) -> None:
    async with moderated() as unit:
        unit.send("set_prompt", prompt=text)
        unit.send("begin", times=2)
        await unit.asked(1)
        await unit.clock.advance(LIMIT_S - 0.1)
        assert not unit.accepted
        await unit.clock.advance(0.2)
        await unit.settled(1, refused=1)
        (refused,) = unit.refused
        assert (refused.code, refused.message) == (
            "internal_error",
            "set_prompt.prompt: the moderation took longer than 5 s",
        )
        assert "took longer than 5 s, so the value was refused field=set_prompt.prompt" in caplog.text
        unit.model.go.set()
        unit.send("set_prompt", prompt="a dog")
        await unit.settled(2, refused=1)


async def test_too_many_events_that_wait_are_refused() -> None:
    async with moderated() as unit:
        unit.send("set_prompt", prompt="wait")
        for _ in range(1000):
            unit.send("begin", times=2)
        (refused,) = unit.refused
        assert refused.code == "rate_limited"
        unit.model.go.set()
        await unit.settled(1000, refused=1)


async def test_the_end_of_a_session_drops_what_waits() -> None:
    async with moderated() as unit:
        unit.send("set_prompt", prompt="wait")
        unit.send("begin", times=2)
        await unit.asked(1)
        unit.moderation.end_session()
        unit.model.go.set()
        unit.moderation.begin_session(ModelSession("s-2", ClientInfo("c-2", 0.0), unit.clock, 0.0), unit.accept)
        unit.send("set_prompt", client="c-2", prompt="a dog")
        await unit.settled(1)
        assert (unit.accepted, unit.refused) == (["c-2 a dog"], [])


async def test_without_moderation_events_pass_at_once() -> None:
    model = World()
    model.load({})
    unit = Unit(model)
    moderation = Moderation(unit.served, unit.clock, UntrackedThreads(), unit.sink.send, enabled=False)
    unit.moderation = moderation
    moderation.begin_session(unit.session, unit.accept)
    unit.send("set_prompt", prompt="bad")
    assert (unit.accepted, model.asked) == (["c-1 bad"], [])


class Terse(Prompts):
    prompt: str = InputField(default="", max_length=3, moderate=True)


class TerseWorld(World):
    state: Terse


async def test_an_event_that_waits_is_checked_again_by_new_code(tmp_path: Path) -> None:
    clock, model, newer = FakeClock(), World(), TerseWorld()
    for each in (model, newer):
        each.load({})
    sink, contract = CollectingSink(clock), Contract.of(World)
    host = Host(
        ServedModel(Version(model, contract, {})), [Outlet(sink=sink)], HostParts(clock=clock, project=tmp_path)
    )
    serving = asyncio.create_task(host.serve())
    host.receive_message(StartSession("s-1", "c-1", 0.0))
    await settle()
    checked = check_event(contract.events, ClientEvent("s-1", "c-1", 7, "set_prompt", '{"prompt": "wait"}'))
    assert isinstance(checked, CheckedEvent)
    host.receive_message(checked)
    host.slots[0].serve_version(Version(newer, Contract.of(TerseWorld), {}))
    model.go.set()
    async with asyncio.timeout(TIMEOUT_S):
        while not sink.of(EventRefused):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    (refused,) = sink.of(EventRefused)
    assert (refused.ticket, refused.code) == (7, "invalid_event")
    assert "set_prompt.prompt" in refused.message
    host.receive_message(Shutdown())
    await serving


def _world(**members: object) -> type:
    return type("World", (ReactorPipeline,), {"__annotations__": {"state": Prompts}, "__module__": __name__, **members})


async def _other_arguments(self: object, text: str) -> bool:
    return bool(self and text)


def _not_async(self: object, value: object, **_: object) -> bool:
    return bool(self and value)


def _helper(self: object, text: str) -> bool:
    return bool(self and text)


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        (_not_async, "is not async"),
        (staticmethod(_not_async), "is a staticmethod"),
        (_other_arguments, "can't be called with value, event, field and client"),
    ],
)
def test_a_method_of_a_wrong_form_is_an_error_with_the_form(method: object, problem: str) -> None:
    with pytest.raises(ClassError, match=f"World.moderate {problem}: write `async def moderate"):
        Contract.of(_world(moderate=method))


@pytest.mark.parametrize("members", [{}, {"moderate": _helper}], ids=["none", "another"])
def test_without_the_method_the_values_that_pass_are_known(members: dict[str, object]) -> None:
    contract = Contract.of(_world(**members))
    assert contract.unmoderated == ["set_prompt.prompt", "set_style.style"]
    assert not contract.warnings


def test_a_method_without_values_to_decide_about_is_a_warning() -> None:
    class Nothing(InputState):
        speed: float = 1

    (warning,) = Contract.of(_world(moderate=Judge.moderate, __annotations__={"state": Nothing})).warnings
    assert warning.message == "World.moderate is never called: no value is declared InputField(moderate=True)"


def test_a_reload_replaces_the_method() -> None:
    class Strict(World):
        async def moderate(self, value: object, *, event: str, field: str, client: ClientInfo) -> bool:
            await super().moderate(value, event=event, field=field, client=client)
            return False

    with Studio(World) as studio:
        studio.connect()
        studio.send_event("set_prompt", prompt="a dog")
        studio.reload(Strict)
        with pytest.raises(CommandError, match="refused"):
            studio.send_event("set_prompt", prompt="a bird")
        assert studio.model.state.prompt == "a dog"
