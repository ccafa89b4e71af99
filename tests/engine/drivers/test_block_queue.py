"""The queue between the threads of a block model and the loop."""

from __future__ import annotations

import threading

from reactor_runtime.engine.drivers.block_queue import MOST_MESSAGES, Block, BlockQueue
from reactor_runtime.engine.drivers.threads import Gate, UntrackedThreads
from reactor_runtime.engine.output.unpack import ByTrack
from reactor_runtime.ipc.messages import EventApplied, EventRefused, MessageSent
from tests.timeouts import TIMEOUT_S

SAID = MessageSent("s-1", "hello", {})
OF_2 = MessageSent("s-1", "hello", {}, n=2)


def block() -> Block:
    return Block(ByTrack({}), 1, None, (0,))


class Counted(UntrackedThreads):
    """Signal when a thread is about to wait."""

    def __init__(self) -> None:
        self.waits = threading.Semaphore(0)

    def gate(self) -> Gate:
        self.waits.release()
        return super().gate()


class Bench:
    def __init__(self) -> None:
        self.threads = Counted()
        self.arrived = 0
        self.queue = BlockQueue(self.threads, self._arrive)

    def _arrive(self) -> None:
        self.arrived += 1

    def putting(self, item: Block | MessageSent) -> threading.Thread:
        """Put in a thread that waits, or is about to, when this returns."""
        thread = threading.Thread(target=lambda: self.queue.put(item))
        thread.start()
        assert self.threads.waits.acquire(timeout=TIMEOUT_S)
        return thread


def ends(thread: threading.Thread) -> bool:
    thread.join(TIMEOUT_S)
    return not thread.is_alive()


def test_put_of_a_block_waits_until_it_was_taken() -> None:
    bench = Bench()
    first, second = block(), block()
    threads = [bench.putting(first), bench.putting(second)]
    assert all(thread.is_alive() for thread in threads)
    for item, thread in zip((first, second), threads, strict=True):
        assert bench.queue.peek() is item
        bench.queue.remove_oldest()
        assert ends(thread)
    assert bench.queue.peek() is None
    assert bench.arrived == 2


def test_put_of_a_message_does_not_wait_and_keeps_the_order() -> None:
    bench = Bench()
    bench.queue.put(SAID)
    thread = bench.putting(block())
    bench.queue.put(SAID)
    kinds = []
    while (item := bench.queue.peek()) is not None:
        kinds.append(type(item))
        bench.queue.remove_oldest()
    assert kinds == [MessageSent, Block, MessageSent]
    assert ends(thread)


def test_put_of_a_message_waits_when_a_thousand_are_queued() -> None:
    bench = Bench()
    for _ in range(MOST_MESSAGES):
        bench.queue.put(SAID)
    thread = bench.putting(SAID)
    for _ in range(MOST_MESSAGES):
        bench.queue.remove_oldest()
    assert thread.is_alive()
    bench.queue.remove_oldest()
    assert ends(thread)


def test_a_stop_drops_everything_and_lets_everybody_go() -> None:
    bench = Bench()
    threads = [bench.putting(block()) for _ in range(3)]
    bench.queue.stop()
    bench.queue.stop()
    assert all(ends(thread) for thread in threads)
    bench.queue.put(block())
    bench.queue.put(SAID)
    assert bench.queue.peek() is None
    bench.queue.remove_oldest()


def test_an_answer_follows_the_messages_of_its_handler_and_survives_the_end_of_the_queue() -> None:
    bench = Bench()
    for message in (SAID, OF_2, SAID):
        bench.queue.put(message)
    assert not bench.queue.put_answer(EventApplied("s-1", "c-1", 1, 1))
    assert not bench.queue.put_answer(EventRefused("s-1", "c-1", 1, "x", "busy", "no"))
    answer = EventApplied("s-1", "c-1", 2, 2)
    assert bench.queue.put_answer(answer)
    order: list[object] = []
    while (item := bench.queue.peek()) is not None:
        order.append(item)
        bench.queue.remove_oldest()
    assert order == [SAID, OF_2, answer, SAID]
    bench.queue.put(OF_2)
    assert bench.queue.put_answer(answer)
    bench.queue.stop()
    assert bench.queue.take_answers() == [answer]
    assert not bench.queue.put_answer(answer)
