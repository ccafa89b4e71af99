from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from reactor_runtime.engine.drivers.threads import FreeTurns
from reactor_runtime.engine.heartbeat import HeartbeatSource
from reactor_runtime.engine.stacks import author_stack, is_in_debugger, is_in_our_code
from reactor_runtime.ipc.messages import Heartbeat
from tests.timeouts import TIMEOUT_S


class Loop:
    """A loop that turns when it is told to."""

    def __init__(self) -> None:
        self.posted: list[Callable[[], None]] = []
        self.elsewhere = ""
        self.heart = HeartbeatSource(self.posted.append, lambda: self.elsewhere)

    def turn(self) -> None:
        while self.posted:
            self.posted.pop(0)()


def test_a_loop_that_turns_in_between_is_fine() -> None:
    loop = Loop()
    for _ in range(3):
        assert loop.heart.pulse() == Heartbeat(held=False, where="")
        loop.turn()


def test_a_loop_that_does_not_turn_is_held_and_the_pulse_says_where() -> None:
    loop = Loop()
    assert not loop.heart.pulse().held
    held = loop.heart.pulse()
    assert held.held
    assert "in test_a_loop_that_does_not_turn_is_held" in held.where
    loop.turn()
    assert not loop.heart.pulse().held


def test_it_is_posted_to_once_however_long_it_does_not_turn() -> None:
    loop = Loop()
    for _ in range(5):
        loop.heart.pulse()
    assert len(loop.posted) == 1


def test_code_that_stands_still_in_another_thread_counts_as_well() -> None:
    loop = Loop()
    loop.heart.pulse()
    loop.elsewhere = "in another thread\n"
    loop.turn()
    assert loop.heart.pulse() == Heartbeat(held=True, where="in another thread\n")


def in_a_thread(work: Callable[[], Any], look: Callable[[int | None], Any], begun: threading.Event) -> Any:
    """Look at a thread while it is at work."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert begun.wait(TIMEOUT_S)
    return look(thread.ident)


def test_the_stack_leaves_out_what_starts_threads() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def compute() -> None:
        begun.set()
        while not go_on.is_set():
            pass

    stack = in_a_thread(compute, author_stack, begun)
    go_on.set()
    assert "in compute" in stack
    assert threading.__file__ not in stack


def test_a_thread_that_waits_in_a_call_of_ours_is_told_apart() -> None:
    begun, gate = threading.Event(), FreeTurns().gate()

    def wait() -> None:
        begun.set()
        gate.wait()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert begun.wait(TIMEOUT_S)
    while not is_in_our_code(thread.ident):
        assert thread.is_alive()
    gate.open()
    thread.join(TIMEOUT_S)
    assert not is_in_our_code(thread.ident)
    assert author_stack(thread.ident) == ""


def test_a_debugger_is_recognised() -> None:
    begun, go_on = threading.Event(), threading.Event()
    namespace = {"begun": begun, "go_on": go_on}
    exec(compile("def interaction():\n  begun.set()\n  go_on.wait()\n", "/usr/lib/python3/bdb.py", "exec"), namespace)
    interaction: Any = namespace["interaction"]
    assert in_a_thread(interaction, is_in_debugger, begun)
    go_on.set()
    assert not is_in_debugger(threading.get_ident())
