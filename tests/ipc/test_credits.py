from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.ipc.credits import CREDITS_BYTES, MOST_SESSIONS, SLOTS, UNNEEDED, CreditReader, CreditWriter
from reactor_runtime.ipc.messages import Credit, CreditsTaken
from reactor_runtime.ipc.ring import create_memory


class Ends:
    """The server's and the engine's end, with the messages that are on their way."""

    def __init__(self, memory: int) -> None:
        self.to_server: deque[CreditsTaken] = deque()
        self.to_engine: deque[Credit] = deque()
        self.writer = CreditWriter(memory)
        self.reader = CreditReader(memory, self.to_server.append)
        self.put = 0
        self.taken: list[int] = []
        self.asleep = False

    def put_credit(self) -> None:
        credit = Credit("s", self.put, 1.5 * self.put)
        self.put += 1
        if not self.writer.put_credit(credit):
            self.to_engine.append(credit)

    def take(self) -> None:
        for bundle, ready_at in self.reader.take_credits():
            assert ready_at == 1.5 * bundle
            self.taken.append(bundle)

    def sleep(self) -> None:
        """Wait for a credit, as the emitter does: after a look at those that are there."""
        self.take()
        self.reader.await_message()
        self.asleep = True

    def to_server_arrives(self) -> None:
        if self.to_server and (again := self.writer.credits_taken(self.to_server.popleft())) is not None:
            self.to_engine.append(again)

    def to_engine_arrives(self) -> None:
        if self.to_engine:
            credit = self.to_engine.popleft()
            self.reader.message_received()
            self.take()
            if credit.bundle not in self.taken:
                self.taken.append(credit.bundle)
            self.asleep = False

    def all_arrive(self) -> None:
        while self.to_server or self.to_engine:
            self.to_server_arrives()
            self.to_engine_arrives()


@pytest.fixture
def ends() -> Iterator[Ends]:
    memory = create_memory(CREDITS_BYTES)
    yield Ends(memory)
    os.close(memory)


def test_a_credit_that_nobody_waits_for_comes_without_a_message(ends: Ends) -> None:
    ends.put_credit()
    ends.take()
    assert (ends.taken, ends.to_engine, ends.to_server) == ([0], deque(), deque())


def test_a_model_that_waits_gets_the_next_credit_as_a_message(ends: Ends) -> None:
    ends.sleep()
    ends.to_server_arrives()
    ends.put_credit()
    assert ends.to_engine == deque([Credit("s", 0, 0.0)])


def test_a_credit_that_was_written_while_the_model_asked_wakes_it(ends: Ends) -> None:
    ends.sleep()
    ends.put_credit()
    ends.to_server_arrives()
    ends.to_engine_arrives()
    assert (ends.taken, ends.asleep) == ([0], False)


def test_messages_end_when_the_model_has_not_waited_for_some_time(ends: Ends) -> None:
    ends.sleep()
    for _ in range(UNNEEDED + 1):
        ends.all_arrive()
        ends.put_credit()
    ends.all_arrive()
    ends.put_credit()
    assert not ends.to_engine


def test_messages_go_on_while_the_model_waits_for_each(ends: Ends) -> None:
    for _ in range(3 * UNNEEDED):
        ends.sleep()
        ends.all_arrive()
        ends.put_credit()
    assert len(ends.to_engine) == 1


def test_a_model_that_waits_for_each_credit_asks_once(ends: Ends) -> None:
    requests = 0
    for _ in range(3 * UNNEEDED):
        ends.sleep()
        requests += len(ends.to_server)
        ends.all_arrive()
        ends.put_credit()
    assert requests == 1


def test_a_credit_that_was_taken_is_not_sent_again(ends: Ends) -> None:
    ends.put_credit()
    ends.sleep()
    ends.to_server_arrives()
    assert (ends.taken, ends.to_engine) == ([0], deque())


def test_a_model_that_never_waits_reports_twice_for_each_round_of_the_memory(ends: Ends) -> None:
    reports = 0
    for _ in range(4 * SLOTS):
        ends.put_credit()
        ends.take()
        reports += len(ends.to_server)
        ends.to_server_arrives()
    assert (reports, ends.to_engine) == (8, deque())


def test_the_credits_of_each_slot_have_their_own_memory() -> None:
    memory = create_memory(CREDITS_BYTES)
    writers = [CreditWriter(memory, slot) for slot in (0, 1, MOST_SESSIONS - 1)]
    readers = [CreditReader(memory, lambda _: None, slot) for slot in (0, 1, MOST_SESSIONS - 1)]
    for number, writer in enumerate(writers):
        writer.put_credit(Credit("s", number, 0.5))
    assert [list(reader.take_credits()) for reader in readers] == [[(0, 0.5)], [(1, 0.5)], [(2, 0.5)]]
    os.close(memory)


def test_full_memory_is_not_written_over(ends: Ends) -> None:
    for _ in range(SLOTS + 3):
        ends.put_credit()
    assert len(ends.to_engine) == 3
    ends.take()
    ends.all_arrive()
    assert sorted(ends.taken) == list(range(SLOTS + 3))


def test_a_credit_that_is_written_in_part_is_taken_later(ends: Ends) -> None:
    ends.put_credit()
    written = ends.writer._memory[:28]
    for size in range(28):
        ends.writer._memory[:28] = written[:size] + bytes(28 - size)
        ends.take()
        assert ends.taken == []
    ends.writer._memory[:28] = written
    ends.take()
    assert ends.taken == [0]


STEPS = ("put_credit", "take", "sleep", "to_server_arrives", "to_engine_arrives")


@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(1, 40)), max_size=60))
def test_each_credit_arrives_and_none_is_there_while_the_model_sleeps(steps: list[tuple[str, int]]) -> None:
    memory = create_memory(CREDITS_BYTES)
    ends = Ends(memory)
    for step, times in steps:
        for _ in range(times):
            # A model that sleeps does nothing until a message comes.
            if not (ends.asleep and step in ("take", "sleep")):
                getattr(ends, step)()
    ends.all_arrive()
    if ends.asleep:
        assert sorted(ends.taken) == list(range(ends.put))
    ends.take()
    assert sorted(ends.taken) == list(range(ends.put))
    os.close(memory)
