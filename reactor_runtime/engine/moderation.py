"""Moderation: the model's `moderate` decides about values of clients before their event is applied.

It runs on a thread of its own, beside the steps. Events and requests for steps of one client stay in order; those of
others do not wait.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from reactor_runtime.authoring.events.messages import ClientInfo, CommandError
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.clock import Clock
from reactor_runtime.engine.dispatch import CheckedEvent, refusal, too_many
from reactor_runtime.engine.drivers.threads import AuthorLoop, ThreadTracker
from reactor_runtime.engine.seat_queue import MOST_WAITING, MOST_WAITING_BYTES
from reactor_runtime.engine.served import ServedModel
from reactor_runtime.engine.session import ModelSession
from reactor_runtime.engine.session_log import messages_unlogged
from reactor_runtime.errors import FieldError, from_author
from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.ipc.messages import EventRefused, ToServer

logger = logging.getLogger(__name__)

LIMIT_S = 5.0

Accept = Callable[[CheckedEvent], object]


@dataclass(slots=True, eq=False)
class _Waiting:
    """Hold an event of a client that waits: for a decision about it, or behind another event of its client."""

    checked: CheckedEvent
    sender: ClientInfo
    accept: Callable[[], object]
    passed: bool
    # The field that is decided about.
    field: str = ""

    @property
    def size_bytes(self) -> int:
        return len(self.checked.event.data_json)


@dataclass(frozen=True, slots=True, eq=False)
class _WaitingRequest:
    """Hold a request for steps that waits behind an event of its client."""

    accept: Callable[[], object]
    size_bytes: int
    passed: ClassVar[bool] = True


@dataclass(slots=True)
class _Current:
    """Hold what belongs to one session: what waits of each client, and the decisions that are awaited."""

    session: ModelSession
    loop: asyncio.AbstractEventLoop
    accept: Accept
    waiting: dict[str, deque[_Waiting | _WaitingRequest]]
    deciding: set[asyncio.Future[Any]]


class Moderation:
    """Pass events on in the order of each client, those with moderated values once the model has accepted the values.

    A refused value, an exception and a decision that takes longer than 5 s are answered with the name of the field. At
    most 1,000 events or 4 MiB wait. Without `enabled`, or a method `moderate`, all events pass at once. Belongs to the
    model's thread.
    """

    def __init__(
        self,
        served: ServedModel,
        clock: Clock,
        threads: ThreadTracker,
        send: Callable[[ToServer], object],
        *,
        enabled: bool = True,
    ) -> None:
        self._served = served
        self._clock = clock
        self._send = send
        self._enabled = enabled
        self._loop = AuthorLoop("reactor-moderation", threads)
        self._current: _Current | None = None

    def start(self) -> None:
        """Start the thread if the model moderates: before the first session, which would seem to leave it behind."""
        if self._enabled and self._served.contract.moderates:
            self._loop.start()

    def close(self) -> None:
        """End the thread; idempotent."""
        self.end_session()
        self._loop.close()

    def begin_session(self, session: ModelSession, accept: Accept) -> None:
        """Pass the events of this session on to `accept`; call it on the loop."""
        self._current = _Current(session, asyncio.get_running_loop(), accept, {}, set())

    def continue_session(self, session: ModelSession) -> None:
        """Go on with what waits in the session that a reset has begun."""
        assert self._current is not None, "another session with its id has begun"
        self._current.session = session

    def end_session(self) -> None:
        """Drop the events that wait."""
        current, self._current = self._current, None
        for decision in () if current is None else tuple(current.deciding):
            decision.cancel()

    def drop_client(self, client_id: str) -> None:
        """Drop the events of a client that has left: their handlers would run after its `@disconnected`."""
        if self._current is not None:
            self._current.waiting.pop(client_id, None)

    def drop_requests(self) -> None:
        """Drop the requests for steps that wait: their client has lost its connection."""
        for entries in () if self._current is None else self._current.waiting.values():
            for entry in [each for each in entries if isinstance(each, _WaitingRequest)]:
                entries.remove(entry)

    def accept_request(self, size_bytes: int, accept: Callable[[], object]) -> bool:
        """Accept a request of the controller for steps, now or after its events that wait; False if too many wait."""
        current = self._current
        before = None if current is None else current.waiting.get(current.session.controller.id)
        if current is None or before is None:
            accept()
        elif _are_too_many(current, size_bytes):
            return False
        else:
            before.append(_WaitingRequest(accept, size_bytes))
        return True

    def accept(self, checked: CheckedEvent) -> None:
        """Pass an event on, now or when its values are accepted and no earlier event of its client waits."""
        current = self._current
        if current is None:
            return
        fields = self._moderated(checked)
        sender = current.session.find_sender(checked.event)
        before = current.waiting.get(sender.id, ())
        if not fields and all(isinstance(entry, _Waiting) and _commutes(entry.checked, checked) for entry in before):
            current.accept(checked)
            return
        if _are_too_many(current, len(checked.event.data_json)):
            self._send(too_many(checked.event))
            return
        entry = _Waiting(checked, sender, functools.partial(current.accept, checked), passed=not fields)
        current.waiting.setdefault(sender.id, deque()).append(entry)
        if fields:
            self._decide(current, entry, fields)

    def _moderated(self, checked: CheckedEvent) -> Sequence[str]:
        """Return the arguments to decide about: those that the client sent, not defaults."""
        fields = checked.spec.arguments.moderated
        if not fields or not self._enabled or not self._served.contract.moderates:
            return ()
        given = json.loads(checked.event.data_json)
        return [field for field in fields if field in given]

    def _decide(self, current: _Current, entry: _Waiting, fields: Sequence[str]) -> None:
        work = functools.partial(_moderate, self._served.model, entry, fields)
        decision = self._loop.run(work, current.loop)
        current.deciding.add(decision)

        def expire() -> None:
            decision.cancel()

        limit = self._clock.call_at(self._clock.now() + LIMIT_S, expire)

        def decided(_: object) -> None:
            limit.cancel()
            current.deciding.discard(decision)
            # An exception that nobody reads would be logged.
            failed = not decision.cancelled() and decision.exception() is not None
            still_waits = entry in current.waiting.get(entry.sender.id, ())
            ends = current.session.stopping and current.session.reset_for is None
            if self._current is current and not ends and still_waits:
                self._apply(current, entry, decision)
            elif failed:
                logger.debug("moderate() failed after the end of its session, or when the client had left")

        decision.add_done_callback(decided)

    def _apply(self, current: _Current, entry: _Waiting, decision: asyncio.Future[Any]) -> None:
        waiting = current.waiting[entry.sender.id]
        refused = self._refusal(current.session, entry, decision)
        if refused is None:
            entry.passed = True
        else:
            waiting.remove(entry)
            self._send(refused)
        while waiting and waiting[0].passed:
            waiting.popleft().accept()
        if not waiting:
            del current.waiting[entry.sender.id]

    def _refusal(self, session: ModelSession, entry: _Waiting, decision: asyncio.Future[Any]) -> EventRefused | None:
        """Return the answer to an event that is refused, None for one that passes."""
        name, path = entry.checked.event.name, f"{entry.checked.event.name}.{entry.field}"
        if decision.cancelled():
            logger.warning("moderate() took longer than %g s, so the value was refused field=%s", LIMIT_S, path)
            return _refused(entry, ErrorCode.INTERNAL_ERROR, f"the moderation took longer than {LIMIT_S:g} s")
        error = decision.exception()
        if error is None:
            return _refused(entry, ErrorCode.INVALID_EVENT, "refused by the moderation") if decision.result() else None
        if isinstance(error, CommandError):
            return _refused(entry, error.code, error.message, verbatim=True)
        session.failed(error)
        logger.error("moderate() failed, so the event %s was refused", name, exc_info=from_author(error))
        return _refused(entry, ErrorCode.INTERNAL_ERROR, "the moderation failed")


async def _moderate(model: Model, entry: _Waiting, fields: Sequence[str]) -> bool:
    """Ask the model about each field; return whether it refuses one, which is then `entry.field`."""
    # The contract has checked that the class has this method.
    author: Any = model
    for field in fields:
        entry.field = field
        value = entry.checked.arguments[field]
        with messages_unlogged():
            verdict = await author.moderate(value, event=entry.checked.event.name, field=field, client=entry.sender)
        if verdict is False:
            return True
        if verdict is not True and verdict is not None:
            raise TypeError(f"moderate() returned {verdict!r:.100}: return False to refuse the value, else True")
    return False


def _commutes(before: CheckedEvent, after: CheckedEvent) -> bool:
    """Return whether the order of two events has no effect: generated ones that set different fields."""
    return before.spec.method is None and after.spec.method is None and before.spec.field != after.spec.field


def _are_too_many(current: _Current, size_bytes: int) -> bool:
    waiting = [entry.size_bytes for entries in current.waiting.values() for entry in entries]
    return len(waiting) >= MOST_WAITING or sum(waiting) + size_bytes > MOST_WAITING_BYTES


def _refused(entry: _Waiting, code: str, reason: str, *, verbatim: bool = False) -> EventRefused:
    field = FieldError(f"{entry.checked.event.name}.{entry.field}", reason)
    message = reason if verbatim else f"{field.path}: {reason}"
    return refusal(entry.checked.event, code, message, [field.to_json()])
