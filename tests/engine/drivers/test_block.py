"""The driver of the block style: sessions and commands in threads, blocks played from the loop."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime.interface import (
    CommandError,
    ModelMessage,
    VideoModel,
    command,
    get_ctx,
)
from reactor_runtime.ipc.messages import EventApplied
from reactor_runtime.testing import Message, Studio
from tests.engine.blocks import Scripted, paint, reds, studio_of, until
from tests.engine.rig import Rig, batch, frame
from tests.fakes import settle
from tests.timeouts import TIMEOUT_S


class Paced(VideoModel):
    """Spend `block_s` seconds on each block."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.spend: Callable[[float], None]
        self.block_s: Iterator[float] = iter(config["block_s"])

    def start_session(self) -> None:
        ctx = get_ctx()
        for block_s in self.block_s:
            if ctx.should_stop():
                return
            if block_s < 0:
                ctx.disable_monitoring()
            self.spend(abs(block_s))
            if block_s < 0:
                ctx.enable_monitoring()
                continue
            ctx.emit_block(batch(*range(12)))


class Idling(VideoModel):
    def start_session(self) -> None:
        while not get_ctx().should_stop():
            get_ctx().emit_block(frame(1))


def gaps(studio: Studio[Any]) -> list[float]:
    due_s = [shown.due_s for shown in studio.frames]
    return [later - earlier for earlier, later in itertools.pairwise(due_s)]


def paced(*block_s: float) -> Studio[Paced]:
    studio = Studio(Paced, {"block_s": block_s})
    studio.model.spend = studio.clock.spend
    return studio


def test_blocks_play_evenly_at_the_rate_they_are_made() -> None:
    with paced(*[0.6] * 12) as studio:
        studio.connect()
        studio.run(4)
        assert gaps(studio)[12:] == pytest.approx([0.05] * len(gaps(studio)[12:]))
        assert len(gaps(studio)) > 60


def test_time_spent_waiting_for_room_does_not_lower_the_rate() -> None:
    with paced(*[0.1] * 60) as studio:
        studio.connect()
        studio.run(5)
        assert gaps(studio)[48:] == pytest.approx([1 / 60] * len(gaps(studio)[48:]))


@pytest.mark.parametrize("pause_s", [-5.0, 5.0], ids=["pauses on purpose", "is slow"])
def test_a_pause_on_purpose_does_not_lower_the_rate(pause_s: float) -> None:
    with paced(0.4, 0.4, 0.4, 0.4, pause_s, 0.4, 5.0 if pause_s > 0 else 0.4, 0.4) as studio:
        studio.connect()
        studio.run(30)
        slowest_s = max(gaps(studio)[-10:])
        assert (slowest_s > 0.1) is (pause_s > 0)


class Resting(Paced):
    """Wait one second and then pause for five on purpose, before every fifth to eighth block."""

    def start_session(self) -> None:
        ctx = get_ctx()
        for number in range(14):
            if 4 <= number < 8:
                self.spend(1.0)
                ctx.disable_monitoring()
                self.spend(5.0)
            ctx.enable_monitoring()
            self.spend(0.4)
            ctx.emit_block(batch(*range(12)))


def test_waiting_before_pauses_on_purpose_does_not_lower_the_rate() -> None:
    with Studio(Resting, {"block_s": ()}) as studio:
        studio.model.spend = studio.clock.spend
        studio.connect()
        studio.run(40)
        within_blocks = [gap for gap in gaps(studio) if gap < 1]
        assert len(within_blocks) > 12 * 10
        assert max(within_blocks) < 0.05


def test_the_queue_is_two_blocks_and_then_emit_block_waits() -> None:
    def script(model: Scripted) -> None:
        for number in range(9):
            get_ctx().emit_block(batch(number, number, number, number, number, number))
            model.log.append(number)

    with studio_of(script) as studio:
        studio.connect()
        assert studio.model.log == [0, 1]
        studio.run(2)
        assert reds(studio)[:-1] == [number for number in range(9) for _ in range(6)]


def test_a_client_that_goes_ends_a_blocked_emit_block_and_runs_the_finally() -> None:
    with studio_of(paint) as studio:
        for sessions in (1, 2, 3):
            studio.connect()
            studio.run(0.5)
            studio.disconnect()
            assert studio.model.log == ["over"] * sessions


def test_the_next_client_gets_nothing_of_the_one_before() -> None:
    with studio_of(paint) as studio:
        studio.connect()
        studio.send_event("set_level", level=5)
        studio.run(0.5)
        studio.disconnect()
        studio.clear()
        studio.connect()
        assert (studio.frames[0].seq, studio.frames[0].applied) == (0, 0)


def test_blocks_begun_after_a_command_show_it_and_have_its_number() -> None:
    with studio_of(paint) as studio:
        studio.connect()
        studio.run(0.5)
        studio.send_event("set_level", level=5)
        studio.run(0.5)
        told = {(int(shown.array.flat[0]), shown.applied) for shown in studio.frames}
        assert {(1, 0), (5, 1)} <= told <= {(1, 0), (5, 0), (5, 1)}
        late = [int(shown.array.flat[0]) for shown in studio.frames if shown.applied == 1]
        assert set(late) == {5}


class Drawing(Scripted):
    @command("draw")
    def draw(self) -> None:
        get_ctx().emit_block(batch(7))


def test_a_block_that_a_command_emits_is_made_with_it() -> None:
    def wait(_: Scripted) -> None:
        while not get_ctx().should_stop():
            time.sleep(0.001)

    with studio_of(wait, Drawing) as studio:
        studio.connect()
        for applied in (1, 2):
            studio.send_event("draw")
            studio.run(0.5)
            shown = studio.frames[-1]
            assert (int(shown.array.flat[0]), shown.applied) == (7, applied)


def test_commands_reply_refuse_and_fail_as_events_do() -> None:
    class Hello(ModelMessage):
        number: int

    class Talking(Scripted):
        @command("hello")
        def hello(self, number: int) -> Hello:
            return Hello(number=number)

        @command("refuse")
        def refuse(self) -> None:
            raise CommandError("full", "no more")

        @command("fail")
        def fail(self) -> None:
            raise KeyError("broken")

    with studio_of(paint, Talking) as studio:
        studio.connect()
        assert studio.send_event("hello", number=3) == Message("hello", {"number": 3})
        with pytest.raises(ValueError, match=r"set_level\.level: 10 is above 9"):
            studio.send_event("set_level", level=10)
        with pytest.raises(CommandError, match="no more"):
            studio.send_event("refuse")
        with pytest.raises(KeyError, match="broken"):
            studio.send_event("fail")
        assert studio.send_event("hello", number=4) == Message("hello", {"number": 4})


@pytest.mark.parametrize(
    ("returned", "reply"),
    [
        ({"ok": True, "at": np.float32(0.5)}, Message("get", {"ok": True, "at": 0.5})),
        ({"type": "status", "data": {"ok": True}}, Message("status", {"ok": True})),
        ({}, Message("get", {})),
        (None, None),
    ],
)
def test_a_dict_that_a_command_returns_is_its_reply(returned: object, reply: Message | None) -> None:
    class Answering(Idling):
        @command("get")
        def get(self) -> object:
            return returned

    with Studio(Answering) as studio:
        studio.connect()
        assert studio.send_event("get") == reply


def test_a_dict_that_json_lacks_is_an_error_that_names_the_value() -> None:
    class Answering(Idling):
        @command("get")
        def get(self) -> object:
            return {"ok": object()}

    with Studio(Answering) as studio:
        studio.connect()
        with pytest.raises(TypeError, match=r"get\.ok: object can't be sent as JSON"):
            studio.send_event("get")


def test_a_command_has_the_session_too_and_another_thread() -> None:
    class Emitting(Scripted):
        @command("flash")
        def flash(self) -> None:
            get_ctx().emit_block(frame(8))
            self.log.append(threading.current_thread().name)

    def script(model: Scripted) -> None:
        model.log.append(threading.current_thread().name)
        paint(model)

    with studio_of(script, Emitting) as studio:
        studio.connect()
        studio.model.level = 2
        studio.send_event("flash")
        studio.run(0.5)
        assert 8 in reds(studio)
        assert studio.model.log == ["reactor-session", "reactor-commands"]


def test_a_session_that_returns_ends_when_all_of_it_has_been_shown() -> None:
    with studio_of(lambda _: get_ctx().emit_block(batch(*range(24)))) as studio:
        studio.connect()
        assert studio.model.log == ["over"]
        studio.run(2)
        assert reds(studio) == [*range(24), 0]  # the black frame after the end
        studio.connect()


def test_an_exception_of_a_session_ends_it_and_the_next_session_starts() -> None:
    def script(model: Scripted) -> None:
        get_ctx().emit_block(batch(1, 2))
        raise ZeroDivisionError(f"session {len(model.log)}")

    with studio_of(script) as studio:
        for number in range(3):
            with pytest.raises(ZeroDivisionError, match=f"session {number}"):
                studio.connect()


async def test_a_session_that_ignores_the_stop_is_reported_with_where_it_is(caplog: pytest.LogCaptureFixture) -> None:
    here, go_on = threading.Event(), threading.Event()

    def ignore_everything(_: Scripted) -> None:
        here.set()
        go_on.wait(TIMEOUT_S)

    rig = Rig(Scripted, config={"script": ignore_everything})
    rig.start()
    await asyncio.to_thread(here.wait, TIMEOUT_S)
    rig.driver.stop_session(rig.session)
    for seconds in (10, 20):
        await rig.clock.advance(9.9)
        assert len(caplog.records) == seconds / 10 - 1
        await rig.clock.advance(0.1)
        report = caplog.records[-1]
        assert report.levelno == logging.WARNING
        assert f"start_session() of Scripted has not returned, {seconds} s after its client left" in report.message
        assert "in ignore_everything" in report.message
    assert not rig.serving.done()
    go_on.set()
    await rig.stop()
    assert rig.clock.pending == 0


async def test_a_command_that_arrives_during_the_setup_of_a_session_is_not_overwritten() -> None:
    here, go_on = threading.Event(), threading.Event()

    def set_up_and_paint(model: Scripted) -> None:
        here.set()
        go_on.wait(TIMEOUT_S)
        model.level = 1
        paint(model)

    rig = Rig(Scripted, config={"script": set_up_and_paint})
    rig.start()
    rig.event("set_level", 1, level=5)
    await until(here.is_set)
    await settle()
    go_on.set()
    await until(lambda: rig.sink.shown and rig.sink.of(EventApplied))
    assert rig.model.level == 5
    await rig.stop()


async def test_a_session_that_waits_for_a_command_without_a_call_gets_it_after_a_second() -> None:
    come = threading.Event()

    class Waiting(Scripted):
        @command("come")
        def come(self) -> None:
            come.set()

    rig = Rig(Waiting, config={"script": lambda _: come.wait(TIMEOUT_S)})
    rig.start()
    rig.event("come", 1)
    await rig.clock.advance(0.9)
    assert not come.is_set()
    await rig.clock.advance(0.2)
    await until(come.is_set)
    await rig.stop()
    assert rig.clock.pending == 0


async def test_a_running_command_delays_the_end_of_its_session() -> None:
    here, go_on = threading.Event(), threading.Event()

    class Busy(Scripted):
        @command("work")
        def work(self) -> None:
            here.set()
            go_on.wait(TIMEOUT_S)
            self.log.append("worked")

    rig = Rig(Busy, config={"script": paint})
    rig.start()
    rig.event("work", 1)
    rig.event("set_level", 2, level=5)
    await until(here.is_set)
    rig.driver.stop_session(rig.session)
    await settle()
    assert not rig.serving.done()
    go_on.set()
    await rig.stop()
    assert rig.model.log.count("worked") == 1
    assert rig.model.level == 1  # the client of the command that waited has gone
    assert [answer.ticket for answer in rig.sink.of(EventApplied)] == [1]


async def test_a_client_that_leaves_before_the_start_starts_no_session() -> None:
    rig = Rig(Scripted, config={"script": paint})
    rig.start()
    rig.session.stop()
    await rig.serving
    assert rig.model.log == []


async def test_no_thread_is_left_after_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reactor_runtime.engine.drivers.threads.JOIN_S", TIMEOUT_S)
    before = set(threading.enumerate())
    rig = Rig(Scripted, config={"script": paint})
    for sessions in (1, 2, 3):
        rig.start()
        rig.event("set_level", 1, level=3)
        await until(lambda: len(rig.sink.of(EventApplied)) == sessions)  # noqa: B023  # it is called at once
        assert len(set(threading.enumerate()) - before) == 2
        await rig.stop()
        assert set(threading.enumerate()) <= before


def test_two_models_in_one_process_are_not_mixed_up() -> None:
    def script(model: Scripted) -> None:
        while not get_ctx().should_stop():
            get_ctx().emit_block(frame(model.level))

    class Other(Scripted):
        pass

    def from_a_thread() -> str:
        said: list[str] = []

        def ask() -> None:
            try:
                get_ctx()
            except RuntimeError as error:
                said.append(str(error))

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        return said[0] if said else "found"

    with studio_of(script) as one, studio_of(script, Other) as other:
        other.model.level = 2
        one.connect()
        assert from_a_thread() == "found"
        other.connect()
        assert "several sessions run in this process (Scripted, Other)" in from_a_thread()
        for _ in range(5):
            one.run(0.2)
            other.run(0.2)
        assert (set(reds(one)), set(reds(other))) == ({1}, {2})


def test_a_block_longer_than_the_queue_is_played_as_a_whole_at_its_rate() -> None:
    def script(model: Scripted) -> None:
        for _ in range(4):
            model.level += 1
            clock.spend(2.0)
            get_ctx().emit_block(batch(*[model.level] * 80))

    with studio_of(script) as studio:
        clock = studio.clock
        studio.connect()
        studio.run(12)
        assert [reds(studio).count(level) for level in (2, 3, 4, 5)] == [80] * 4
        assert gaps(studio)[160:240] == pytest.approx([1 / 40] * 80)


def test_a_declared_rate_is_kept() -> None:
    class Fixed(Paced):
        fps = 10

    studio = Studio(Fixed, {"block_s": [0.2] * 20})
    studio.model.spend = studio.clock.spend
    with studio:
        studio.connect()
        studio.run(5)
        assert gaps(studio) == pytest.approx([0.1] * len(gaps(studio)))
