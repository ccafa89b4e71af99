"""Events that have been sent and not been answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reactor_runtime.client.errors import ClientError
from reactor_runtime.client.message import Message, Reply

Answer = Reply | ClientError


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """One event; `done` is called with its answer, exactly once."""

    sent_at: float
    done: Callable[[Answer], object]


class PendingEvents:
    """Find the question that an answer belongs to, by its id; `next_id` is that of the next one."""

    def __init__(self) -> None:
        self.next_id = 1
        self._open: dict[int, PendingEvent] = {}

    def add(self, question: PendingEvent) -> None:
        self._open[self.next_id] = question
        self.next_id += 1

    def answered(self, message: Message) -> PendingEvent | None:
        """Take the question that a message answers, if it answers one."""
        return self._open.pop(message.id, None) if isinstance(message.id, int) else None

    def reject(self, error: ClientError) -> None:
        """Answer all that are open with an error."""
        questions, self._open = self._open, {}
        for question in questions.values():
            question.done(error)
