from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from pathlib import Path
from typing import Any, cast

import pytest

from reactor_runtime.engine.recorder import CLOSE_S
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.ipc.channel import Channel
from reactor_runtime.ipc.credits import CREDITS_BYTES
from reactor_runtime.ipc.messages import Heartbeat
from reactor_runtime.ipc.ring import create_memory
from reactor_runtime.oom_kills import OomKills
from reactor_runtime.server.options import ServeOptions
from reactor_runtime.server.workers.engine_run import EngineRun
from reactor_runtime.server.workers.watchdog import LONGEST_ROUND_S, WARN_S, Watchdog
from tests.fakes import FakeClock, settle
from tests.server.admission_fixture import MANIFEST
from tests.timeouts import TIMEOUT_S

FINE = Heartbeat(blocked=False, where="")
BLOCKED = Heartbeat(blocked=True, where='  File "model.py", line 3, in inference\n')


class Watched:
    """A watchdog of a model whose heartbeats the test sets; `requests` counts those requested."""

    def __init__(self, step_timeout_s: float) -> None:
        self.clock = FakeClock()
        self.answer: Heartbeat | None = FINE
        self.requests = 0
        self.watchdog = Watchdog(self.clock, self._answer, step_timeout_s)
        self.hung = asyncio.create_task(self.watchdog.wait_for_hang())

    def _answer(self) -> None:
        self.requests += 1
        if self.answer is not None:
            self.watchdog.record_heartbeat(self.answer)

    async def pass_s(self, seconds: float) -> None:
        await self.clock.advance(seconds)


async def test_a_model_that_yields_does_not_hang() -> None:
    watched = Watched(8.0)
    await watched.pass_s(100.0)
    assert not watched.hung.done()
    assert watched.requests > 90
    watched.hung.cancel()


@pytest.mark.parametrize("answer", [BLOCKED, None], ids=["a step goes on and on", "nothing answers"])
async def test_a_model_that_does_not_yield_for_the_timeout_hangs(answer: Heartbeat | None) -> None:
    watched = Watched(8.0)
    watched.answer = answer
    await watched.pass_s(6.0)
    assert not watched.hung.done()
    await watched.pass_s(4.0)
    assert watched.hung.result() == (BLOCKED.where if answer else "")


@pytest.mark.parametrize(("answers_s", "where"), [(6.0, BLOCKED.where), (5.0, BLOCKED.where), (4.0, "")])
async def test_the_stack_of_a_hang_is_kept_while_two_answers_are_late(answers_s: float, where: str) -> None:
    watched = Watched(8.0)
    watched.answer = BLOCKED
    await watched.pass_s(answers_s)
    watched.answer = None
    await watched.pass_s(8.0)
    assert watched.hung.result() == where


async def test_consecutive_slow_steps_are_no_hang() -> None:
    watched = Watched(8.0)
    for _ in range(10):
        watched.answer = BLOCKED
        await watched.pass_s(6.0)
        watched.answer = FINE
        await watched.pass_s(2.0)
    assert not watched.hung.done()
    watched.hung.cancel()


async def test_rounds_in_which_the_server_was_suspended_too_do_not_count() -> None:
    watched = Watched(8.0)
    watched.answer = None
    for _ in range(5):
        await settle()
        watched.clock.spend(60.0)  # Ctrl-Z stops both processes
        await watched.pass_s(0.0)
    assert not watched.hung.done()
    watched.hung.cancel()


async def test_without_a_timeout_a_hang_is_logged_at_doubling_intervals(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched(0.0)
    watched.answer = BLOCKED
    with caplog.at_level(logging.WARNING):
        await watched.pass_s(9 * WARN_S)
    assert [record.message.partition(".")[0] for record in caplog.records] == [
        "the model has been in one step for 30 s",
        "the model has been in one step for 60 s",
        "the model has been in one step for 120 s",
        "the model has been in one step for 240 s",
    ]
    assert all(BLOCKED.where.strip() in record.message for record in caplog.records)
    watched.hung.cancel()


async def test_a_hang_at_the_end_of_a_session_is_logged_only_when_the_engine_is_silent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watched = Watched(0.0)
    watched.answer = BLOCKED
    watched.watchdog.ending.add(0)
    with caplog.at_level(logging.WARNING):
        await watched.pass_s(5 * WARN_S)
        assert not caplog.records
        watched.answer = None  # the engine can't log any more
        await watched.pass_s(4 * WARN_S)
    assert len(caplog.records) == 1
    watched.hung.cancel()


async def test_a_hang_at_the_end_of_a_session_times_out_as_well() -> None:
    watched = Watched(8.0)
    watched.answer = BLOCKED
    watched.watchdog.ending.add(0)
    await watched.pass_s(10.0)
    assert watched.hung.result() == BLOCKED.where


class SocketOfEngine:
    """An engine without its process: the test writes to the other end of its socket."""

    def __init__(self) -> None:
        self.socket, self.engine_socket = socket.socketpair()
        self.socket.setblocking(False)
        self.engine = Channel(self.engine_socket)
        self.memory_fd = create_memory(CREDITS_BYTES)

    def wait(self, timeout_s: float) -> int:  # noqa: ARG002
        return 0

    def end(self, deadline: float) -> int:
        self.deadline = deadline
        return 0

    def close(self) -> None:
        os.close(self.memory_fd)


async def test_a_hang_after_the_first_session_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock, process = FakeClock(), SocketOfEngine()
    received: asyncio.Queue[ipc.Message] = asyncio.Queue()

    def start(**_: object) -> Any:
        return process

    options = ServeOptions(manifest=MANIFEST, config={})
    run = EngineRun(
        lambda _, message: received.put_nowait(message),
        clock,
        start,
        options,
        on_bundle=[lambda _, __: None],
        ids=dict,
        oom_kills=OomKills(),
    )
    running = asyncio.create_task(run.run(ipc.Load("", "", "", {}, "", "")))

    async def answer(*messages: ipc.Message) -> None:
        for message in messages:
            process.engine.send(message)
        while await asyncio.wait_for(received.get(), TIMEOUT_S) != messages[-1]:
            pass
        await settle()

    await answer(ipc.Ready(1.0))
    run.send(ipc.StartSession("s-1", "c-1", 0.0))
    run.send(ipc.StopSession("s-1"))
    await answer(ipc.Ended("s-1", None))
    for number in range(8):
        # the run passes on no heartbeat: the message after it shows that it has been received
        await answer(BLOCKED, ipc.Loading(f"round {number}"))
        await clock.advance(LONGEST_ROUND_S)
    process.engine_socket.close()
    await asyncio.wait_for(running, TIMEOUT_S)
    await run.end()
    assert "the model has been in one step for 30 s" in caplog.text


async def test_a_recording_engine_has_time_to_write_the_rest(tmp_path: Path) -> None:
    process = SocketOfEngine()
    options = ServeOptions(manifest=MANIFEST, config={}, record=tmp_path)
    run = EngineRun(
        lambda _slot, _message: None,
        FakeClock(),
        lambda **_: cast("Any", process),
        options,
        on_bundle=[lambda _, __: None],
        ids=dict,
        oom_kills=OomKills(),
    )
    before = time.monotonic()
    await run.stop()
    assert process.deadline > before + CLOSE_S
    process.engine_socket.close()
    process.socket.close()
    await run.end()


async def test_an_engine_that_has_started_ranks_has_time_to_end_them() -> None:
    process = SocketOfEngine()
    received: asyncio.Queue[ipc.Message] = asyncio.Queue()
    run = EngineRun(
        lambda _, message: received.put_nowait(message),
        FakeClock(),
        lambda **_: cast("Any", process),
        ServeOptions(manifest=MANIFEST, config={}),
        on_bundle=[lambda _, __: None],
        ids=dict,
        oom_kills=OomKills(),
    )
    running = asyncio.create_task(run.run(ipc.Load("", "", "", {}, "", "")))
    # As after a reload: the model was ready before.
    for message in (ipc.Ready(1.0), ipc.Grace(30.0), ipc.Reloaded("applied")):
        process.engine.send(message)
    while await asyncio.wait_for(received.get(), TIMEOUT_S) != ipc.Reloaded("applied"):
        pass
    before = time.monotonic()
    await run.stop()
    assert process.deadline >= before + 30.0
    process.engine_socket.close()
    await asyncio.wait_for(running, TIMEOUT_S)
    await run.end()
