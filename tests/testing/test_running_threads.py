"""Threads of a model on a fake clock: block models in the Studio."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import numpy as np
import pytest

from reactor_runtime.interface import InputField, VideoModel, command, get_ctx
from reactor_runtime.testing import Studio
from reactor_runtime.testing.clock import FakeClock, RunningThreads
from tests.testing.models import frame
from tests.timeouts import TIMEOUT_S


class Prompted(VideoModel):
    """Wait for a prompt as the reference page does, then take half a second of the clock for each block."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.nap_s = config.get("nap_s", 0.0)
        self.prompt = ""
        self.polls = 0
        self.clock: FakeClock

    @command("set_prompt")
    def set_prompt(self, prompt: str = InputField(max_length=20)) -> None:
        time.sleep(self.nap_s * random.random())  # real time, of which nothing may depend
        self.prompt = prompt

    def start_session(self) -> None:
        self.prompt = ""
        while not get_ctx().should_stop():
            while not self.prompt:
                if get_ctx().should_stop():
                    return
                self.polls += 1
                get_ctx().disable_monitoring()
                time.sleep(self.nap_s)
            get_ctx().enable_monitoring()
            self.clock.spend(0.5)
            time.sleep(self.nap_s * random.random())
            get_ctx().emit_block(np.stack([frame(len(self.prompt))] * 10))
            get_ctx().send({"type": "progress", "data": {"frames": 10}})


def studio_of(nap_s: float = 0.0) -> Studio[Prompted]:
    studio = Studio(Prompted, {"nap_s": nap_s})
    studio.model.clock = studio.clock
    return studio


def play(nap_s: float) -> list[Any]:
    told: list[Any] = []
    with studio_of(nap_s) as studio:
        for _ in range(2):
            studio.connect()
            studio.run(1)
            studio.send_event("set_prompt", prompt="cat")
            studio.run(2)
            studio.send_event("set_prompt", prompt="a lighthouse")
            studio.run(2)
            studio.disconnect()
        told += [(shown.due_s, shown.seq, shown.applied, int(shown.array.flat[0])) for shown in studio.frames]
        told += studio.messages
    return told


def test_a_block_model_does_not_depend_on_real_time() -> None:
    first = play(0.0)
    assert len(first) > 100
    assert [play(nap_s) for nap_s in (0.001, 0.004, 0.0)] == [first] * 3


def test_the_seconds_of_a_model_are_not_waited_for() -> None:
    began = time.monotonic()
    with studio_of() as studio:
        studio.connect()
        studio.send_event("set_prompt", prompt="a")
        studio.run(20)
        assert len(studio.frames) > 300
    assert time.monotonic() - began < 20


def test_a_session_that_waits_for_a_prompt_polls_ten_times_a_second_and_continues_with_it() -> None:
    with studio_of() as studio:
        studio.connect()
        studio.run(2)
        assert 20 <= studio.model.polls <= 22
        studio.send_event("set_prompt", prompt="cat")
        studio.run(0.5)
        assert studio.frames[0].due_s == pytest.approx(2.5)


def test_a_poll_without_a_pause_takes_ten_milliseconds() -> None:
    class Polling(Prompted):
        def start_session(self) -> None:
            while not get_ctx().should_stop():
                self.polls += 1

    with Studio(Polling) as studio:
        studio.connect()
        studio.run(1)
        assert 100 <= studio.model.polls <= 102


def test_nothing_is_left_of_a_studio_that_was_closed_while_a_session_ran(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reactor_runtime.engine.drivers.threads.JOIN_S", TIMEOUT_S)
    before = set(threading.enumerate())
    with studio_of() as studio:
        studio.connect()
        studio.send_event("set_prompt", prompt="cat")
        assert len(set(threading.enumerate()) - before) == 2
    assert set(threading.enumerate()) <= before


def test_threads_of_others_never_make_the_clock_wait() -> None:
    clock = FakeClock(spend_in_thread=lambda seconds: threads.spend(seconds))
    threads = RunningThreads(clock, lambda callback: callback())
    threads.resume(threading.current_thread())
    assert not threads.running
    clock.spend(1.0)
    assert clock.now() == 1001.0
    threads.poll(paused=True)


def test_an_input_makes_the_loop_wait_again_for_a_slow_thread() -> None:
    threads = RunningThreads(FakeClock(), lambda callback: callback())
    thread = threading.Thread()
    seen: list[bool] = []
    threads.begin_work(thread)
    for step in (
        threads.stop_waiting,
        threads.notify_input,
        threads.stop_waiting,
        lambda: threads.end_work(thread),
        threads.notify_input,
    ):
        step()
        seen.append(threads.running)
    assert seen == [False, True, False, False, False]


def test_a_thread_counts_as_running_as_soon_as_its_gate_is_opened() -> None:
    threads = RunningThreads(FakeClock(), lambda callback: callback())
    made, done = threading.Event(), threading.Event()
    gates: list[Any] = []

    def wait() -> None:
        gates.append(threads.gate())
        made.set()
        gates[0].wait()
        done.wait(TIMEOUT_S)
        threads.end_work(thread)

    thread = threading.Thread(target=wait)
    threads.begin_work(thread)
    thread.start()
    assert made.wait(TIMEOUT_S)
    gates[0].open()
    gates[0].open()
    assert threads.running
    done.set()
    thread.join(TIMEOUT_S)
    assert not threads.running


def test_a_thread_that_got_more_work_before_it_has_ended_the_last_counts_as_running() -> None:
    threads = RunningThreads(FakeClock(), lambda callback: callback())
    thread = threading.Thread()
    threads.begin_work(thread)
    # The loop gets the result of work before its thread ends that.
    threads.begin_work(thread)
    threads.end_work(thread)
    assert threads.running
    threads.end_work(thread)
    assert not threads.running


def test_more_work_for_a_thread_that_waits_at_a_gate_does_not_make_the_loop_wait() -> None:
    threads = RunningThreads(FakeClock(), lambda callback: callback())
    thread = threading.Thread()
    threads.begin_work(thread)
    threads.rest(thread)
    threads.begin_work(thread)
    assert not threads.running
    threads.end_work(thread)
    assert threads.running
