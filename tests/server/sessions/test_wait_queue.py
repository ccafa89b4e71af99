from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reactor_runtime.server.sessions.wait_queue import WaitQueue


def test_the_controller_that_came_first_is_taken_first() -> None:
    queue: WaitQueue[str] = WaitQueue(16)
    for name in "abc":
        assert queue.join(name, free=0)
    assert [queue.next(), queue.next(), queue.next(), queue.next()] == ["a", "b", "c", None]


def test_a_full_queue_refuses() -> None:
    queue: WaitQueue[str] = WaitQueue(1)
    assert queue.join("a", free=0)
    assert not queue.join("b", free=0)
    assert list(queue.waiting) == ["a"]


def test_a_controller_that_gets_a_free_slot_bypasses_the_limit() -> None:
    queue: WaitQueue[str] = WaitQueue(0)
    assert queue.join("a", free=1)
    assert queue.next() == "a"
    assert not queue.join("b", free=0)


def test_a_controller_that_leaves_frees_its_position_and_leaves_once() -> None:
    queue: WaitQueue[str] = WaitQueue(1)
    queue.join("a", free=0)
    assert queue.leave("a")
    assert not queue.leave("a")
    assert queue.join("b", free=0)


def test_controllers_that_lost_their_session_wait_before_all_others_in_their_order() -> None:
    queue: WaitQueue[str] = WaitQueue(1)
    queue.join("a", free=0)
    for name in "xyz":
        queue.rejoin(name, first=True)
    queue.leave("y")
    assert queue.next() == "x"
    queue.rejoin("w", first=True)
    assert list(queue.waiting) == ["z", "w", "a"]


class WaitQueueMachine(RuleBasedStateMachine):
    """Join, take and leave in any order: no controller is lost or overtaken, and the limit holds."""

    @initialize(most=st.integers(0, 4))
    def start(self, most: int) -> None:
        self.most = most
        self.queue: WaitQueue[int] = WaitQueue(most)
        self.expected: list[int] = []
        self.serving: int | None = None
        self.count = 0

    @rule()
    def join(self) -> None:
        self.count += 1
        free = self.serving is None
        joined = self.queue.join(self.count, free=int(free))
        assert joined == (len(self.expected) < self.most or (free and not self.expected))
        if joined:
            self.expected.append(self.count)

    @rule()
    def take(self) -> None:
        if self.serving is None:
            self.serving = self.queue.next()
            assert self.serving == (self.expected.pop(0) if self.expected else None)

    @rule(pick=st.integers(0))
    def leave(self, pick: int) -> None:
        everyone = [*self.expected, *([] if self.serving is None else [self.serving])]
        if not everyone:
            return
        gone = everyone[pick % len(everyone)]
        assert self.queue.leave(gone) == (gone in self.expected)
        if gone == self.serving:
            self.serving = None
        else:
            self.expected.remove(gone)

    @invariant()
    def the_queue_has_every_controller_that_joined_and_has_not_left(self) -> None:
        assert list(self.queue.waiting) == self.expected
        assert len(self.expected) <= max(self.most, 1)


TestWaitQueueMachine = WaitQueueMachine.TestCase


def test_a_controller_that_waits_already_moves_when_it_rejoins() -> None:
    queue: WaitQueue[str] = WaitQueue(2)
    for name in ("a", "b"):
        assert queue.join(name, free=0)
    queue.rejoin("b", first=True)
    assert queue.waiting == ["b", "a"]
    queue.rejoin("b", first=False)
    queue.rejoin("c", first=False)
    assert queue.waiting == ["a", "b", "c"]
    queue.rejoin("c", first=True)
    assert queue.waiting == ["c", "a", "b"]
