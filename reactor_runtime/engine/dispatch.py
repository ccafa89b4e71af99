"""Events in the engine: checked at once, numbered, kept until the step is over, handled in order.

Clients that come and go, and requests for steps, are kept in the same queue, so that hooks, handlers and steps run in
the order of what has happened, for each seat (`seat_queue.py`).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from reactor_runtime.authoring.events.events import EventSpec
from reactor_runtime.authoring.events.messages import (
    ClientInfo,
    CommandError,
    ModelMessage,
    dict_to_json,
    message_to_json,
)
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.values.upload import NO_UPLOADS, UploadedFile
from reactor_runtime.engine.hooks import call_author
from reactor_runtime.engine.seat_queue import SeatQueue
from reactor_runtime.engine.served import ServedModel
from reactor_runtime.engine.session import ModelSession, SessionStopped, must_pass
from reactor_runtime.engine.session_state import SessionState
from reactor_runtime.errors import MOST_MESSAGE, FieldError, InvalidEvent, from_author, shortened
from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.ipc.messages import ClientEvent, EventApplied, EventRefused, StepRequest, ToServer

logger = logging.getLogger(__name__)

# The entries of a log for clients that come and go; no event of a model is called so.
JOINED, LEFT = "reactor.joined", "reactor.left"
# The seat that sets the state of all.
HOST = 0
LONGEST_S = 0.05


@dataclass(frozen=True, slots=True)
class CheckedEvent:
    """Hold an event whose values are valid; `arguments` are those of its handler."""

    event: ClientEvent
    spec: EventSpec
    arguments: dict[str, Any]


def check_event(
    events: Mapping[str, EventSpec], event: ClientEvent, uploads: Mapping[str, UploadedFile] = NO_UPLOADS
) -> CheckedEvent | EventRefused:
    """Check a client's event against the contract and the client's uploads; pure, any thread."""
    spec = events.get(event.name)
    if spec is None:
        known = ", ".join(sorted(events)) or "none"
        return refusal(event, ErrorCode.UNKNOWN_EVENT, f"the model has no event {event.name!r}; it has: {known}")
    if spec.of_host and event.seat != HOST:
        return refusal(
            event, ErrorCode.NOT_CONTROLLER, f"only the host, the client in seat {HOST}, may send {event.name}"
        )
    try:
        return CheckedEvent(event, spec, spec.validate(event.data_json, uploads))
    except InvalidEvent as error:
        fields = [FieldError(field.path, shortened(field.message, MOST_MESSAGE)).to_json() for field in error.fields]
        return refusal(event, error.code, str(error), fields)


def refusal(event: ClientEvent, code: str, message: str, fields: list[dict[str, str]] | None = None) -> EventRefused:
    """Return the answer to an event without effect; the author's code and message are cut to 2,000 characters."""
    code, message = shortened(code, MOST_MESSAGE), shortened(message, MOST_MESSAGE)
    return EventRefused(event.session, event.client, event.ticket, event.name, code, message, fields or [])


def too_many(event: ClientEvent) -> EventRefused:
    """Return the refusal of an event because too many wait for the model."""
    return refusal(
        event, ErrorCode.RATE_LIMITED, f"the model is behind: {event.name} changed nothing; send fewer events"
    )


@dataclass(slots=True)
class _Numbered:
    n: int
    checked: CheckedEvent
    # Known when the event comes: another client may have the seat when its handler runs.
    sender: ClientInfo

    @property
    def seat(self) -> int:
        return self.checked.event.seat

    @property
    def size_bytes(self) -> int:
        return len(self.checked.event.data_json)


@dataclass(frozen=True, slots=True)
class ClientChange:
    """Describe a client that has joined the session, or has left it; a client that `was_there` has taken a seat."""

    client: ClientInfo
    joined: bool
    was_there: bool = False

    @property
    def seat(self) -> int | None:
        return self.client.seat

    @property
    def size_bytes(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class RequestedInput:
    """Hold a value for a state field, or a command: an event, which is checked when the request is the next to do.

    `path` is its place in the request, `data_json` the value of the field, or the data of the event.
    """

    path: str
    name: str
    data_json: str
    is_field: bool


@dataclass(frozen=True, slots=True)
class RequestedSteps:
    """Hold a request for steps and its inputs; the first of these is event number `first`."""

    request: StepRequest
    inputs: tuple[RequestedInput, ...]
    first: int = 0

    @property
    def seat(self) -> int:
        # On a server a stepped session has one seat; `PipelineExecutor` sends nothing while events wait.
        return HOST

    @property
    def size_bytes(self) -> int:
        return len(self.request.data_json) + sum(len(each.data_json) for each in self.inputs)


class ClientHooks(Protocol):
    """Call the hooks of the model for clients that come and go."""

    async def apply(self, change: ClientChange) -> None:
        """Call the hooks for a client that has come or gone, as far as they are due."""


class Dispatcher:
    """Keep a session's accepted events and run their handlers between steps; belongs to the model's thread.

    `call` calls a handler or sets a field; `state` sends the fields that it changed before its answer is sent.
    `on_handled` is called with what a handler has returned.
    """

    def __init__(
        self,
        served: ServedModel,
        session: ModelSession,
        state: SessionState,
        send: Callable[[ToServer], None],
        *,
        call: Callable[[Model, EventSpec, ModelSession, Mapping[str, Any]], Awaitable[object]] = call_author,
        on_handled: Callable[[object], object] = lambda _: None,
    ) -> None:
        self._served = served
        self._call = call
        self._on_handled = on_handled
        self._session = session
        self._state = state
        self._send = send
        self._waiting: SeatQueue[_Numbered | ClientChange | RequestedSteps] = SeatQueue()
        # The number of the last event of each seat, and of the last one of each name.
        self._accepted = list(session.applied)
        self._newest: dict[tuple[int, str], int] = {}

    @property
    def waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def requested(self) -> RequestedSteps | None:
        """Return the request for steps that is next in the queue; None if something else is, or nothing."""
        first = self._waiting.first
        return first if isinstance(first, RequestedSteps) else None

    def accept_request(self, requested: RequestedSteps) -> bool:
        """Number the inputs of a request for steps, and keep the request; return False if the queue is full.

        Nothing of the same seat that comes later is handled before `finish_request`.
        """
        if not self._waiting.has_room(HOST, requested.size_bytes):
            return False
        self._waiting.append(replace(requested, first=self._accepted[HOST] + 1))
        self._accepted[HOST] += len(requested.inputs)
        self._session.wake()
        return True

    def finish_request(self) -> None:
        """Remove the request at the head of the queue."""
        assert self.requested is not None, "it stays there until its steps are made"
        self._waiting.popleft()

    def drop_requests(self, *, but: RequestedSteps | None) -> None:
        """Drop the requests for steps, except one that is begun."""
        self._waiting.replace(lambda each: each if each is but or not isinstance(each, RequestedSteps) else None)

    def continue_from(self, former: Dispatcher) -> None:
        """Take over what waits, and the numbers of events, from the dispatcher before a reset."""
        self._waiting, self._accepted, self._newest = former._waiting, former._accepted, former._newest

    def accept(self, checked: CheckedEvent) -> None:
        """Number and keep an event; refuse it if the queue is full and its seat has used its part.

        Of the waiting events of one kind and seat with `dedupe` only the newest runs.
        """
        seat = checked.event.seat
        if not self._waiting.has_room(seat, len(checked.event.data_json)):
            self._send(too_many(checked.event))
            return
        self._accepted[seat] += 1
        self._newest[seat, checked.spec.name] = self._accepted[seat]
        self._waiting.append(_Numbered(self._accepted[seat], checked, self._session.find_sender(checked.event)))
        self._session.wake()

    def accept_change(self, change: ClientChange) -> None:
        """Keep a change of the session's clients.

        A client that leaves before its `@connected`, and of which no event waits, changes nothing.
        """
        client = change.client
        if not change.joined:
            came = ClientChange(client, joined=True)
            if came in self._waiting and not self._has_sent(client):
                self._waiting.replace(lambda each: None if each == came else each)
                self._session.joining.discard(client.id)
                return
            self._session.leaving[client.id] = client
        else:
            self._session.joining.add(client.id)
        self._waiting.append(change)
        self._session.wake()

    def _has_sent(self, client: ClientInfo) -> bool:
        """Return whether an event of a client waits."""
        return any(isinstance(each, _Numbered) and each.sender.id == client.id for each in self._waiting)

    def check_again(self, check: Callable[[ClientEvent], CheckedEvent | EventRefused]) -> None:
        """Check the waiting events against the contract of new code; those that it does not accept are answered."""

        def checked_again(
            each: _Numbered | ClientChange | RequestedSteps,
        ) -> _Numbered | ClientChange | RequestedSteps | None:
            if not isinstance(each, _Numbered):
                return each
            checked = check(each.checked.event)
            if isinstance(checked, CheckedEvent):
                return replace(each, checked=checked)
            self._send(checked)
            return None

        self._waiting.replace(checked_again)

    async def run_waiting(self, hooks: ClientHooks | None = None) -> None:
        """Run as many handlers and hooks as items wait now, seats in turn; SessionStopped skips the rest.

        What is left after that, or after `LONGEST_S`, waits for the next call, so that any number of events leaves time
        for steps. If anything is left, the session is woken. What is behind a request for steps waits for the end of
        that.
        """
        until = self._session.now() + LONGEST_S
        for _ in range(len(self._waiting)):
            # New code may have refused them while a handler waited.
            if not self._waiting or self.requested is not None:
                break
            await self._run_next(hooks)
            if self._session.now() >= until:
                break
        if self._waiting and self.requested is None:
            self._session.wake()
            await asyncio.sleep(0)

    async def apply_input(self, n: int, checked: CheckedEvent) -> EventRefused | None:
        """Run the handler of an input of the request at the head as event `n`; return why it failed, if it did."""
        numbered = _Numbered(n, checked, self._session.find_sender(checked.event))
        return await self._run_event(numbered, sends_refusal=False)

    async def _run_next(self, hooks: ClientHooks | None) -> None:
        waiting = self._waiting.popleft()
        assert not isinstance(waiting, RequestedSteps), "the caller leaves these at the head"
        if isinstance(waiting, ClientChange):
            await self._apply_change(waiting, hooks)
            return
        event, spec = waiting.checked.event, waiting.checked.spec
        await self._run_event(waiting, skipped=spec.dedupe and self._newest[event.seat, spec.name] != waiting.n)

    async def _run_event(
        self, waiting: _Numbered, *, skipped: bool = False, sends_refusal: bool = True
    ) -> EventRefused | None:
        """Run the handler of an event, unless it is skipped, and send its answer; return that if it is a refusal."""
        began, log = self._trace_began(), self._session.log
        if log is not None:
            session = self._session
            log.on_event(session.steps, waiting.checked.event, skipped=skipped, waiting=False)
        event = waiting.checked.event
        with self._session.handling(waiting.n, event.arrived_at, event.seat):
            if skipped:
                answer: EventApplied | EventRefused | None = self._answer(waiting, None)
            else:
                answer = await self._handle(waiting)
        self._record_spans(waiting, began)
        refused = replace(answer, n=waiting.n) if isinstance(answer, EventRefused) else None
        if answer is not None and (refused is None or sends_refusal):
            self._send(replace(answer, n=waiting.n))
        if log is not None:
            log.on_applied()
        return refused

    async def _apply_change(self, change: ClientChange, hooks: ClientHooks | None) -> None:
        session, log, client = self._session, self._session.log, change.client
        known = session.find_client(client.id)
        if change.joined and (known is None or known.seat != client.seat):
            # It came as a viewer, and has taken a seat since, which includes this change, or has even left it again.
            return
        self._log_change(change)
        if change.joined:
            session.joining.discard(client.id)
        if hooks is not None:
            await hooks.apply(change)
        if not change.joined:
            session.leaving.pop(client.id, None)
        if log is not None:
            log.on_applied()

    def _log_change(self, change: ClientChange) -> None:
        session, client = self._session, change.client
        if session.log is None:
            return
        data = {"client": client.id, "role": client.role, "joined_at": client._joined_at_unix}
        if client.seat != HOST:
            data["seat"] = client.seat
        name = JOINED if change.joined else LEFT
        event = ClientEvent(session.id, client.id, None, name, json.dumps(data))
        session.log.on_event(session.steps, event, skipped=False, waiting=session.is_reading())

    def log_clients(self) -> None:
        """Log the clients of the session, except the one that has started it, as clients that join now."""
        for client in self._session.joined:
            if client.id != self._session.client.id:
                self._log_change(ClientChange(client, joined=True))

    def _trace_began(self) -> float:
        return 0.0 if self._session.trace is None else self._session.trace.now()

    def _record_spans(self, waiting: _Numbered, began: float) -> None:
        """Trace how long an event waited for the end of the step, and how long its handler took."""
        trace, event = self._session.trace, waiting.checked.event
        if trace is not None:
            trace.span(self._session.id, "events", f"{event.name} waits", event.arrived_at or began, began, n=waiting.n)
            trace.span(self._session.id, "model", f"handler {event.name}", began, n=waiting.n)

    async def _handle(self, waiting: _Numbered) -> EventApplied | EventRefused | None:
        event = waiting.checked.event
        try:
            try:
                result = await self._call_handler(waiting)
                reply = _reply_of(waiting.checked.spec, result)
                self._on_handled(result)
            finally:
                # Also after a failure: the handler may have changed fields before it.
                self._state.send_changes()
            return self._answer(waiting, reply)
        except SessionStopped:
            raise
        except CommandError as error:
            return refusal(event, error.code, error.message)
        # Author's code, and native extensions, raise more than Exception.
        except BaseException as error:
            if must_pass(error):
                raise
            self._session.failed(error)
            logger.error(
                "the handler of event %s failed; the session continues", event.name, exc_info=from_author(error)
            )
            return refusal(event, ErrorCode.INTERNAL_ERROR, f"the handler of {event.name} failed")

    async def _call_handler(self, waiting: _Numbered) -> object:
        checked, spec = waiting.checked, waiting.checked.spec
        arguments = checked.arguments
        if spec.of_seat and spec.method is None:
            assert spec.field is not None, "an event without a method sets a field"
            setattr(self._state.seats[checked.event.seat].state, spec.field, arguments[spec.field])
            return None
        if spec.client_parameter is not None:
            arguments = {**arguments, spec.client_parameter: waiting.sender}
        return await self._call(self._served.model, spec, self._session, arguments)

    def _answer(self, waiting: _Numbered, reply: tuple[str, dict[str, Any]] | None) -> EventApplied | None:
        event = waiting.checked.event
        if event.ticket is None and reply is None:
            return None
        return EventApplied(event.session, event.client, event.ticket, waiting.n, reply)


def _reply_of(spec: EventSpec, result: object) -> tuple[str, dict[str, Any]] | None:
    """Return type and data of what a handler returned; raise TypeError, with the fix, for what is no reply."""
    if result is None:
        return None
    if isinstance(result, ModelMessage):
        return message_to_json(result)
    if spec.takes_dict and isinstance(result, dict):
        return dict_to_json(result, spec.name, by=f"{spec.method}()")
    raise TypeError(_no_reply(spec, result))


def _no_reply(spec: EventSpec, result: object) -> str:
    """Return the error message for a handler's result that is not a reply; it shows how to write one."""
    values = result if isinstance(result, dict) and result else {"value": result}
    name = "".join(word.capitalize() for word in spec.name.split("_"))
    fields = "; ".join(f"{key}: {type(value).__name__}" for key, value in values.items())
    arguments = ", ".join(f"{key}=…" for key in values)
    return (
        f"{spec.method}() returned {type(result).__name__}; return a ModelMessage or nothing: "
        f"`class {name}(ModelMessage): {fields}` above the model, `return {name}({arguments})` here"
    )[:1000]
