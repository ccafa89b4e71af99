from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reactor_runtime.server.sessions.wait_queue import WaitQueue


def test_first_come_first_served() -> None:
    line: WaitQueue[str] = WaitQueue(16)
    for name in "abc":
        assert line.join(name, free=0)
    assert [line.next(), line.next(), line.next(), line.next()] == ["a", "b", "c", None]


def test_a_full_line_refuses() -> None:
    line: WaitQueue[str] = WaitQueue(1)
    assert line.join("a", free=0)
    assert not line.join("b", free=0)
    assert list(line.waiting) == ["a"]


def test_a_free_slot_is_given_even_where_nobody_may_wait() -> None:
    line: WaitQueue[str] = WaitQueue(0)
    assert line.join("a", free=1)
    assert line.next() == "a"
    assert not line.join("b", free=0)


def test_who_leaves_frees_its_place_and_leaves_once() -> None:
    line: WaitQueue[str] = WaitQueue(1)
    line.join("a", free=0)
    assert line.leave("a")
    assert not line.leave("a")
    assert line.join("b", free=0)


class Lines(RuleBasedStateMachine):
    """Come, be served and go in any order: nobody is lost, nobody overtakes, the bound holds."""

    @initialize(most=st.integers(0, 4))
    def start(self, most: int) -> None:
        self.most = most
        self.line: WaitQueue[int] = WaitQueue(most)
        self.expected: list[int] = []
        self.serving: int | None = None
        self.count = 0

    @rule()
    def come(self) -> None:
        self.count += 1
        free = self.serving is None
        let_in = self.line.join(self.count, free=int(free))
        assert let_in == (len(self.expected) < self.most or (free and not self.expected))
        if let_in:
            self.expected.append(self.count)

    @rule()
    def serve(self) -> None:
        if self.serving is None:
            self.serving = self.line.next()
            assert self.serving == (self.expected.pop(0) if self.expected else None)

    @rule(pick=st.integers(0))
    def leave(self, pick: int) -> None:
        everyone = [*self.expected, *([] if self.serving is None else [self.serving])]
        if not everyone:
            return
        gone = everyone[pick % len(everyone)]
        assert self.line.leave(gone) == (gone in self.expected)
        if gone == self.serving:
            self.serving = None
        else:
            self.expected.remove(gone)

    @invariant()
    def the_line_is_who_has_come_and_not_gone(self) -> None:
        assert list(self.line.waiting) == self.expected
        assert len(self.expected) <= max(self.most, 1)


TestLines = Lines.TestCase
TestLines.settings = settings(max_examples=60)
