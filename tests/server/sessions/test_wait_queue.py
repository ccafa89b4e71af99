from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from reactor_runtime.server.sessions.wait_queue import WaitQueue


def of_address(controller: str) -> str:
    """Return the first letter: "a2" is a controller of address a."""
    return controller[0]


def queue_of(*controllers: str, most: int = 16) -> WaitQueue[str]:
    queue = WaitQueue(most, of_address)
    for controller in controllers:
        assert queue.join(controller, free=0) is None
    return queue


def take_first(queue: WaitQueue[str], slot: int) -> str | None:
    """Take the first controller for a session on a slot, as admission does; return None if none waits."""
    controller = next(iter(queue.waiting), None)
    if controller is not None:
        queue.take(controller, slot)
    return controller


def test_the_controller_that_came_first_is_taken_first() -> None:
    queue = queue_of("a", "b", "c")
    assert [take_first(queue, slot) for slot in range(4)] == ["a", "b", "c", None]


def test_a_full_queue_refuses() -> None:
    queue = queue_of("a", most=1)
    assert queue.join("b", free=0) == "b"
    assert list(queue.waiting) == ["a"]


def test_a_controller_that_gets_a_free_slot_bypasses_the_limit() -> None:
    queue = queue_of(most=0)
    assert queue.join("a", free=1) is None
    assert take_first(queue, 1) == "a"
    assert queue.join("b", free=0) == "b"


def test_a_controller_that_leaves_frees_its_position_and_leaves_once() -> None:
    queue = queue_of("a", most=1)
    assert queue.leave("a")
    assert not queue.leave("a")
    assert queue.join("b", free=0) is None


def test_controllers_that_lost_their_session_wait_before_all_others_in_their_order() -> None:
    queue = queue_of("a", most=1)
    for name in "xyz":
        queue.rejoin(name, first=True)
    queue.leave("y")
    assert take_first(queue, 1) == "x"
    queue.rejoin("w", first=True)
    assert list(queue.waiting) == ["z", "w", "a"]


def test_the_second_controller_of_an_address_waits_behind_the_first_of_each_other() -> None:
    queue = queue_of("a1", "a2", "a3", "b1", "b2", "c1")
    assert list(queue.waiting) == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_a_session_counts_as_the_first_controller_of_its_address() -> None:
    queue = queue_of("a1", "a2")
    assert take_first(queue, 1) == "a1"
    queue.join("b1", free=0)
    assert list(queue.waiting) == ["b1", "a2"]
    queue.join("b2", free=0)
    queue.end_turn(1)
    assert list(queue.waiting) == ["b1", "a2", "b2"]
    assert take_first(queue, 1) == "b1"
    queue.join("c1", free=0)
    assert list(queue.waiting) == ["c1", "a2", "b2"]


def test_each_seat_of_a_slot_has_a_turn_of_its_own() -> None:
    queue = queue_of("a1", "a2", "d1", "d2", "d3", "d4")
    for seat, controller in enumerate(("a1", "a2")):
        queue.take(controller, 1, seat)
    queue.join("a3", free=0)
    assert list(queue.waiting) == ["d1", "d2", "d3", "d4", "a3"]
    queue.leave("a3")
    queue.end_turn(1, 1)
    queue.join("a3", free=0)
    assert list(queue.waiting) == ["d1", "d2", "d3", "a3", "d4"]


def test_a_controller_that_leaves_and_joins_again_is_in_the_same_round() -> None:
    queue = queue_of("a1", "a2", "b1")
    queue.leave("a2")
    queue.join("a3", free=0)
    queue.join("b2", free=0)
    assert list(queue.waiting) == ["a1", "b1", "a3", "b2"]


def test_an_address_that_came_early_with_many_gets_every_second_turn() -> None:
    queue = queue_of("a1", "a2", "a3", "a4", "b1", "b2")
    turns = []
    while (controller := take_first(queue, 1)) is not None:
        turns.append(controller)
        queue.end_turn(1)
    assert turns == ["a1", "b1", "a2", "b2", "a3", "a4"]


def test_a_session_of_an_address_counts_however_many_turns_others_had_since() -> None:
    queue = queue_of("a1", "b1")
    assert [take_first(queue, 1), take_first(queue, 2)] == ["a1", "b1"]
    for turn in range(2, 5):
        queue.join(f"b{turn}", free=0)
        assert take_first(queue, 2) == f"b{turn}"
    queue.join("a2", free=0)
    queue.join("c1", free=0)
    assert list(queue.waiting) == ["c1", "a2"]


def test_an_address_gives_way_in_a_full_queue_from_its_last_controller_on() -> None:
    queue = queue_of("a1", "a2", "a3", most=3)
    assert queue.join("b1", free=0) == "a3"
    assert queue.join("b2", free=0) == "b2"
    assert queue.join("c1", free=0) == "a2"
    assert queue.join("d1", free=0) == "d1"
    assert list(queue.waiting) == ["a1", "b1", "c1"]


def test_a_controller_that_lost_its_session_never_gives_way() -> None:
    queue = queue_of(most=1)
    queue.rejoin("a1", first=True)
    assert queue.join("b1", free=0) == "b1"


class WaitQueueMachine(RuleBasedStateMachine):
    """Join, return, take and leave in any order, against rounds that are computed from the whole past."""

    @initialize(most=st.integers(0, 6))
    def start(self, most: int) -> None:
        self.most = most
        self.queue = WaitQueue(most, of_address)
        self.rounds: dict[str, int] = {}
        self.taken: list[tuple[int, str]] = []
        self.serving: list[str] = []
        self.count = 0

    @property
    def waiting(self) -> list[str]:
        """Return the controllers by round; those of one round are in the order of their arrival."""
        return sorted(self.rounds, key=lambda each: (self.rounds[each], int(each[1:])))

    @property
    def present(self) -> int:
        return max([0, *(round for round, _ in self.taken)])

    def arrive(self, address: str) -> str:
        self.count += 1
        return f"{address}{self.count}"

    @rule(address=st.sampled_from("abc"), free=st.integers(0, 2))
    def join(self, address: str, free: int) -> None:
        before = [round for controller, round in self.rounds.items() if of_address(controller) == address]
        before += [round for round, taken in self.taken if taken == address]
        sessions = [of_address(controller) for controller in self.serving].count(address)
        has_room = len(self.rounds) < max(self.most, free)
        controller = self.arrive(address)
        self.rounds[controller] = max(self.present + sessions, max(before, default=-1) + 1)
        refused = None if has_room else self.waiting[-1]
        assert self.queue.join(controller, free=free) == refused
        if refused is not None:
            del self.rounds[refused]

    @rule(address=st.sampled_from("abc"))
    def rejoin(self, address: str) -> None:
        controller = self.arrive(address)
        self.rounds[controller] = -1
        self.queue.rejoin(controller, first=True)

    @rule()
    def take(self) -> None:
        expected = self.waiting[0] if self.rounds else None
        # The number of a controller is also that of its slot.
        assert take_first(self.queue, 0 if expected is None else int(expected[1:])) == expected
        if expected is not None:
            self.taken.append((self.rounds.pop(expected), of_address(expected)))
            self.serving.append(expected)

    @precondition(lambda self: self.serving)
    @rule(pick=st.integers(0))
    def end_turn(self, pick: int) -> None:
        self.queue.end_turn(int(self.serving.pop(pick % len(self.serving))[1:]))

    @rule(pick=st.integers(0))
    def leave(self, pick: int) -> None:
        everyone = [*self.rounds, *self.serving]
        if everyone:
            gone = everyone[pick % len(everyone)]
            assert self.queue.leave(gone) == (gone in self.rounds)
            self.rounds.pop(gone, None)

    @invariant()
    def the_queue_has_the_controllers_in_their_order(self) -> None:
        assert list(self.queue.waiting) == self.waiting

    @invariant()
    def another_address_is_admitted_if_it_would_get_a_place(self) -> None:
        last = self.rounds[self.waiting[-1]] if self.rounds else -1
        admitted = len(self.rounds) < self.most or last > self.present
        assert self.queue.admits_another_address(free=0) == admitted


TestWaitQueueMachine = WaitQueueMachine.TestCase


def test_a_controller_that_waits_already_moves_when_it_rejoins() -> None:
    queue = queue_of("a", "b", most=2)
    queue.rejoin("b", first=True)
    assert queue.waiting == ["b", "a"]
    queue.rejoin("b", first=False)
    queue.rejoin("c", first=False)
    assert queue.waiting == ["a", "b", "c"]
    queue.rejoin("c", first=True)
    assert queue.waiting == ["c", "a", "b"]
