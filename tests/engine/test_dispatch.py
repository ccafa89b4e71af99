from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.values.jsonable import MOST_JSON_BYTES
from reactor_runtime.engine.dispatch import ClientChange, check_event, refusal
from reactor_runtime.engine.seat_queue import MOST_WAITING, MOST_WAITING_BYTES
from reactor_runtime.interface import (
    ClientInfo,
    CommandError,
    Idle,
    InputField,
    ModelMessage,
    ReactorModel,
    ReactorPipeline,
    connected,
    event,
    joined,
    session_started,
)
from reactor_runtime.ipc.messages import ClientEvent, EventApplied, EventRefused, MessageSent, StateChanged
from tests.engine.rig import Bright, Picture, Plain, Rig, frame, log, rig_of
from tests.fakes import settle


class Pong(ModelMessage):
    text: str


class Handlers(ReactorPipeline):
    state: Bright
    output: Picture
    fps = 10

    def load(self, config: dict[str, object]) -> None:  # noqa: ARG002  (the signature authors write)
        self.calls: list[str] = []
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = False

    def inference(self):  # type: ignore[no-untyped-def]  # as authors write it
        while True:
            yield frame(1)

    @event(name="note")
    def note(self, text: str) -> None:
        self.calls.append(text)

    @event(name="seek", dedupe=True)
    def seek(self, to: int = InputField(default=0, ge=0)) -> None:
        self.calls.append(f"seek {to}")

    @event(name="ping")
    async def ping(self, client: ClientInfo) -> Pong:
        await client.send(Pong(text="only you"))
        return Pong(text=client.role)

    @event(name="refuse")
    def refuse(self) -> None:
        raise CommandError("too_late", "the show is over")

    @event(name="fail")
    def fail(self) -> None:
        self.state.brightness = 0.5
        raise KeyError("secret")

    @event(name="leave")
    def leave(self) -> None:
        sys.exit(3)

    @event(name="cancelled")
    async def cancel(self) -> None:
        raise asyncio.CancelledError

    @event(name="answer")
    def answer(self) -> int:
        return 42

    @event(name="wait")
    async def wait(self) -> None:
        await self.go_on.wait()

    @event(name="hang")
    async def hang(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled = True


def calls(rig: Rig) -> list[str]:
    assert isinstance(rig.model, Handlers)
    return rig.model.calls


async def test_handlers_run_in_the_order_of_arrival_and_are_numbered() -> None:
    rig = Rig(Handlers)
    async with rig.running():
        for ticket, text in enumerate("abc"):
            rig.event("note", ticket, text=text)
        await rig.play(0.2)
    assert calls(rig) == ["a", "b", "c"]
    assert [(answer.ticket, answer.n) for answer in rig.sink.of(EventApplied)] == [(0, 1), (1, 2), (2, 3)]


async def test_an_event_is_refused_while_1000_wait() -> None:
    rig = Rig(Handlers)
    async with rig.running():
        for ticket in range(MOST_WAITING + 1):
            rig.event("note", ticket, text="x")
        (refused,) = rig.sink.of(EventRefused)
        assert (refused.ticket, refused.code) == (MOST_WAITING, "rate_limited")


class Seated(Handlers):
    seats = 2


async def test_the_events_of_one_seat_neither_delay_nor_refuse_those_of_another() -> None:
    rig = Rig(Seated)
    async with rig.running():
        for ticket in range(MOST_WAITING + 1):
            rig.event("note", ticket, _seat=1, text="flood")
        for ticket in range(2):
            rig.event("note", ticket, text=f"host {ticket}")
        (refused,) = rig.sink.of(EventRefused)
        assert refused.ticket == MOST_WAITING
        await rig.play(0.2)
    assert calls(rig)[:5] == ["flood", "host 0", "flood", "host 1", "flood"]
    assert len(calls(rig)) == MOST_WAITING + 2


async def test_viewers_that_come_all_the_time_do_not_delay_the_events_of_seats() -> None:
    class Watched(Seated):
        viewers = 0

        @session_started
        def on_session(self) -> None: ...

        @connected
        def on_client(self, client: ClientInfo) -> None:
            if client.role == "viewer":
                self.calls.append("viewer")
            self.viewers += 1
            viewer = ClientInfo(f"v-{self.viewers}", 0.0, role="viewer", seat=None)
            rig.session.clients[viewer.id] = viewer
            rig.dispatcher.accept_change(ClientChange(viewer, joined=True))

    rig = Rig(Watched)
    async with rig.running():
        calls(rig).clear()
        for number in range(2):
            rig.event("note", _seat=1, text=f"note {number}")
        await rig.play(1.0)
    assert calls(rig)[:4] == ["viewer", "note 0", "viewer", "note 1"]


async def test_an_event_is_refused_while_4_mib_wait_and_accepted_when_they_have_run() -> None:
    rig = Rig(Handlers)
    async with rig.running():
        for ticket in range(3):
            rig.event("note", ticket, text="x" * (MOST_WAITING_BYTES // 2 - 100))
        (refused,) = rig.sink.of(EventRefused)
        assert (refused.ticket, refused.code) == (2, "rate_limited")
        await rig.play(0.2)
        rig.event("note", 3, text="x" * (MOST_WAITING_BYTES // 2 - 100))
        await rig.play(0.2)
    assert len(calls(rig)) == 3


async def test_of_waiting_events_that_dedupe_only_the_newest_runs_and_all_are_answered() -> None:
    rig = Rig(Handlers)
    async with rig.running():
        rig.event("seek", 1, to=1)
        rig.event("note", 2, text="between")
        rig.event("seek", 3, to=3)
        await rig.play(0.2)
    assert calls(rig) == ["between", "seek 3"]
    assert [(answer.ticket, answer.n) for answer in rig.sink.of(EventApplied)] == [(1, 1), (2, 2), (3, 3)]


class Wiping(ReactorPipeline):
    """Show one picture, and black at an event."""

    state: Bright
    output: Picture

    def inference(self):  # type: ignore[no-untyped-def]  # as authors write it
        yield frame(10)
        while True:
            yield None

    @event(name="wipe")
    def wipe(self) -> None:
        self.output_buffer.flush()


class Painting(ReactorModel):
    """Draw in handlers, while `run` draws as well."""

    output: Picture

    def load(self, config: dict[str, object]) -> None:  # noqa: ARG002  (the signature authors write)
        self.drawn = asyncio.Event()
        self.may_end = asyncio.Event()

    async def run(self) -> None:
        await self.drawn.wait()
        await self.emit(Picture(video=frame(99)))
        self.may_end.set()
        await asyncio.Event().wait()

    @event(name="draw")
    async def draw(self, red: int) -> None:
        await asyncio.create_task(self.emit(Picture(video=frame(red))))
        self.drawn.set()
        await self.may_end.wait()


def told(rig: Rig) -> list[tuple[int, ...]]:
    return [(shown.red, *shown.bundle.applied) for shown in rig.sink.shown]


async def test_the_black_of_a_flush_in_a_handler_is_made_with_its_event() -> None:
    rig = Rig(Wiping)
    async with rig.running():
        await rig.play(0.5)
        rig.event("wipe", 1)
        await rig.play(0.5)
        assert told(rig) == [(10, 0), (0, 1)]


async def test_output_of_a_handler_is_made_with_its_event_and_other_output_is_not() -> None:
    rig = Rig(Painting)
    async with rig.running():
        rig.event("draw", 1, red=10)
        await rig.play(0.5)
        rig.event("draw", 2, red=20)
        await rig.play(0.5)
        assert told(rig) == [(10, 1), (99, 0), (20, 2)]


async def test_an_event_without_id_is_answered_by_nothing() -> None:
    rig = Rig(Handlers)
    async with rig.running():
        rig.event("note", text="a")
        await rig.play(0.2)
    assert not rig.sink.of(EventApplied)


async def test_a_returned_message_is_the_reply_and_a_handler_may_know_its_client() -> None:
    rig = Rig(Handlers)
    async with rig.running():
        rig.event("ping", 7)
        await rig.play(0.2)
    assert rig.sink.of(MessageSent) == [MessageSent("s-1", "pong", {"text": "only you"}, "c-1", n=1)]
    assert rig.sink.of(EventApplied) == [EventApplied("s-1", "c-1", 7, 1, ("pong", {"text": "controller"}))]


async def test_a_command_error_is_the_answer_and_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(Handlers)
    async with rig.running():
        rig.event("refuse", 7)
        await rig.play(0.2)
    assert rig.sink.of(EventRefused) == [EventRefused("s-1", "c-1", 7, "refuse", "too_late", "the show is over", n=1)]
    assert not caplog.records


async def test_a_long_message_of_a_command_error_is_cut() -> None:
    class Verbose(Handlers):
        @event(name="refuse")
        def refuse(self) -> None:
            raise CommandError("too_late", "x" * 10_000_000)

    rig = Rig(Verbose)
    async with rig.running():
        rig.event("refuse", 7)
        await rig.play(0.2)
    (refusal,) = rig.sink.of(EventRefused)
    assert len(refusal.message) < 2_100
    assert "9998000 characters left out" in refusal.message


async def test_a_reply_or_message_of_more_than_1_mib_fails_its_handler(caplog: pytest.LogCaptureFixture) -> None:
    class Large(Handlers):
        @event(name="large_reply")
        def large_reply(self) -> Pong:
            return Pong("x" * MOST_JSON_BYTES)

        @event(name="large_message")
        async def large_message(self, client: ClientInfo) -> None:
            await client.send(Pong("x" * MOST_JSON_BYTES))

    rig = Rig(Large)
    async with rig.running():
        rig.event("large_reply", 1)
        rig.event("large_message", 2)
        await rig.play(0.2)
    assert [(refusal.ticket, refusal.code) for refusal in rig.sink.of(EventRefused)] == [
        (1, "internal_error"),
        (2, "internal_error"),
    ]
    assert not rig.sink.of(MessageSent)
    assert caplog.text.count("ValueError: Pong.text has 1.05 MB as JSON") == 2


@pytest.mark.parametrize("name", ["fail", "leave", "cancelled", "answer"])
async def test_a_failing_handler_is_logged_and_the_session_continues(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    rig, failures = Rig(Handlers), list[BaseException]()
    async with rig.running():
        rig.session.failed = failures.append
        rig.event(name, 7)
        rig.event("note", 8, text="next")
        await rig.play(0.2)
    assert len(failures) == 1
    (refusal,) = rig.sink.of(EventRefused)
    assert (refusal.ticket, refusal.code) == (7, "internal_error")
    assert "secret" not in refusal.message
    assert calls(rig) == ["next"]
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info


async def test_a_handler_that_returns_a_dict_is_shown_the_message_to_return(caplog: pytest.LogCaptureFixture) -> None:
    class Old(Handlers):
        @event(name="set_style")
        def set_style(self) -> dict[str, object]:
            return {"ok": True, "count": 3}

    rig = Rig(Old)
    async with rig.running():
        rig.event("set_style", 7)
        rig.event("note", text="next")
        await rig.play(0.2)
    (refusal,) = rig.sink.of(EventRefused)
    assert (refusal.ticket, refusal.code) == (7, "internal_error")
    assert calls(rig) == ["next"]
    assert "`class SetStyle(ModelMessage): ok: bool; count: int`" in caplog.text
    assert "`return SetStyle(ok=…, count=…)`" in caplog.text


async def test_a_change_of_a_failing_handler_is_sent() -> None:
    rig = Rig(Handlers)
    async with rig.running():
        rig.event("fail")
        await rig.play(1.0)
    assert rig.sink.of(StateChanged) == [StateChanged("s-1", {"brightness": 0.5})]


async def test_a_change_is_sent_before_the_answer() -> None:
    rig = Rig(Handlers)
    async with rig.running():
        rig.event("set_brightness", 1, brightness=2)
        await rig.play(0.2)
    told = [message for message in rig.sink.sent if isinstance(message, StateChanged | EventApplied)]
    assert told == [StateChanged("s-1", {"brightness": 2.0}), EventApplied("s-1", "c-1", 1, 1)]


async def test_an_async_handler_is_cancelled_when_the_session_stops(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(Handlers)
    assert isinstance(rig.model, Handlers)
    async with rig.running():
        rig.event("hang", 1)
        rig.event("note", 2, text="never")
        await rig.play(0.2)
        assert rig.model.started.is_set()
    assert rig.model.cancelled
    assert calls(rig) == []
    assert not rig.sink.of(EventApplied)
    assert not rig.sink.of(EventRefused)
    assert not caplog.records


async def test_frames_wait_for_the_handler_and_no_time_is_lost_to_a_spin() -> None:
    rig = Rig(Handlers)
    async with rig.running():
        rig.event("hang")
        await rig.play(0.2)
        before = len(rig.sink.shown)
        await rig.play(1.0)
        assert len(rig.sink.shown) == before
        await settle()


def check(name: str, data_json: str) -> EventRefused:
    refusal = check_event(Contract.of(Handlers).events, ClientEvent("s", "c", 1, name, data_json))
    assert isinstance(refusal, EventRefused)
    return refusal


def test_an_unknown_event_is_refused_with_those_there_are() -> None:
    refusal = check("brightnes", "{}")
    assert refusal.code == "unknown_event"
    assert "set_brightness" in refusal.message


def test_wrong_values_are_refused_with_their_fields() -> None:
    refusal = check("set_brightness", '{"brightness": 3.2}')
    assert refusal.code == "invalid_event"
    assert refusal.fields == [{"path": "set_brightness.brightness", "message": "3.2 is above 2.0"}]


def test_several_wrong_values_are_all_named() -> None:
    refusal = check("seek", '{"to": -1, "from": 2}')
    assert sorted(field["path"] for field in refusal.fields) == ["seek.from", "seek.to"]


async def test_events_of_two_seats_are_counted_apart_and_do_not_replace_each_other() -> None:
    class Seated(Handlers):
        seats: Any = 2

    rig = Rig(Seated)
    async with rig.running():
        for to, seat in ((1, 0), (2, 1), (3, 0)):
            rig.event("seek", to, _seat=seat, to=to)
        await rig.play(0.2)
    assert rig.model.calls == ["seek 2", "seek 3"]
    assert [(answer.ticket, answer.n) for answer in rig.sink.of(EventApplied)] == [(1, 1), (2, 1), (3, 2)]


async def test_the_sender_of_an_event_over_another_connection_is_the_client_that_had_the_seat_when_it_came() -> None:
    class Seated(Handlers):
        seats: Any = 2

        @joined
        def joined(self, client: ClientInfo) -> None:
            self.calls.append(f"{client.id} joined")

        @event(name="act")
        def act(self, client: ClientInfo) -> None:
            self.calls.append(f"{client.id} acts")

    def change(client: ClientInfo, *, joined: bool) -> None:
        rig.session.clients = {"c-1": rig.session.client} | ({client.id: client} if joined else {})
        rig.dispatcher.accept_change(ClientChange(client, joined=joined))

    rig = Rig(Seated)
    async with rig.running():
        guest = ClientInfo("c-2", 0.0, seat=1)
        change(guest, joined=True)
        rig.event("act", _seat=1, _client="c-9")
        change(guest, joined=False)
        change(ClientInfo("c-3", 0.0, seat=1), joined=True)
        await rig.play(0.2)
    assert rig.model.calls == ["c-1 joined", "c-2 joined", "c-2 acts", "c-3 joined"]


async def test_of_events_that_dedupe_the_newest_runs_though_it_came_while_another_was_handled() -> None:
    class Slow(Handlers):
        @event(name="look", dedupe=True)
        async def look(self, at: int) -> None:
            self.calls.append(f"look {at}")
            if at == 0:
                await self.started.wait()

    rig = Rig(Slow)
    async with rig.running():
        rig.event("look", at=0)
        await settle()
        for at in (1, 2, 3):
            rig.event("look", at, at=at)
        rig.model.started.set()
        await settle()
        assert rig.model.calls == ["look 0", "look 3"]
        assert [answer.ticket for answer in rig.sink.of(EventApplied)] == [1, 2, 3]


class WaitingLoop(ReactorModel):
    """Show nothing, and take long for each event."""

    output: Picture

    def load(self, config: dict[str, object]) -> None:  # noqa: ARG002  (the signature authors write)
        self.log: list[str] = []
        self.rig: Rig

    @event(name="work")
    def work(self) -> None:
        self.log.append("work")
        self.rig.clock.spend(0.1)

    async def run(self) -> None:
        await asyncio.Event().wait()


async def test_a_loop_that_waits_handles_all_events_though_each_takes_long() -> None:
    rig = Rig(WaitingLoop)
    rig.model.rig = rig
    rig.driver.start()
    async with rig.running():
        for _ in range(4):
            rig.event("work")
        await settle()
        assert rig.model.log == 4 * ["work"]


class Flooded(Plain):
    """Send itself another event from each handler, and note what comes when."""

    @event(name="again")
    async def again(self, left: int) -> None:
        self.log.append("event")
        await asyncio.sleep(0)
        if left:
            self.rig.event("again", left=left - 1)

    @event(name="slow")
    def slow(self) -> None:
        self.log.append("event")
        self.rig.clock.spend(0.03)

    def inference(self) -> Iterator[Any]:
        while True:
            self.log.append("step")
            yield Idle()


async def test_events_that_come_while_others_are_handled_wait_for_the_step_between() -> None:
    rig = rig_of(Flooded)
    async with rig.running():
        rig.event("again", left=5)
        await rig.play(1.0)
    assert "".join(entry[0] for entry in log(rig)).count("es") == 6


async def test_slow_handlers_leave_the_model_its_turn_after_50_ms() -> None:
    rig = rig_of(Flooded)
    async with rig.running():
        log(rig).clear()
        for ticket in range(6):
            rig.event("slow", ticket)
        await rig.play(1.0)
        assert "".join(entry[0] for entry in log(rig)).startswith("eeseesee")
        assert [answer.ticket for answer in rig.sink.of(EventApplied)] == list(range(6))


async def test_a_loop_continues_while_events_come_faster_than_they_are_handled() -> None:
    class Looped(ReactorModel):
        output: Picture

        def load(self, config: dict[str, object]) -> None:  # noqa: ARG002
            self.log: list[str] = []

        @event(name="again")
        def again(self, left: int) -> None:
            self.log.append("event")
            if left:
                rig.event("again", left=left - 1)

        async def run(self) -> None:
            while True:
                self.log.append("step")
                await asyncio.sleep(0)

    rig = Rig(Looped)
    rig.driver.start()
    async with rig.running():
        rig.model.log.clear()
        rig.event("again", left=20)
        for _ in range(20):
            await settle()
        assert rig.model.log.count("event") == 21
        assert "".join(entry[0] for entry in rig.model.log).count("es") >= 10
    await rig.driver.aclose()


async def test_events_that_new_code_refuses_while_a_handler_waits_are_answered() -> None:
    rig = Rig(Handlers)
    async with rig.running():
        rig.event("wait", 1)
        rig.event("note", 2, text="a")
        await settle()
        rig.dispatcher.check_again(lambda event: refusal(event, "unknown_event", "it is gone"))
        rig.model.go_on.set()
        await settle()
        rig.event("note", 3, text="b")
        await rig.play(0.1)
    assert [answer.ticket for answer in rig.sink.of(EventApplied)] == [1, 3]
    assert [answer.ticket for answer in rig.sink.of(EventRefused)] == [2]
    assert calls(rig) == ["b"]
