"""The client's side of `reactor.v1` without sockets, tasks and clocks: the effects of messages and lost connections.

Owns status, welcome, state and unanswered events. Media and the items to send belong to `streams.py`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from reactor_runtime.client.address import Role
from reactor_runtime.client.delay import InputDelay, ServerClock
from reactor_runtime.client.errors import ClientError, ConnectionLost, EventError, SessionEnded
from reactor_runtime.client.messages import (
    NO_WELCOME,
    Message,
    ModelContract,
    Redirect,
    ReloadNotice,
    Reply,
    StepAnswer,
    Welcome,
    write,
    write_event,
)
from reactor_runtime.client.status import Phase, Status
from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.wire.protocol import RESERVED_PREFIX

logger = logging.getLogger(__name__)

MAX_MESSAGES = 1000
REGULAR_ENDS = ("closed", "finished")
# After these reasons the client ends with its session; for another session the program connects again.
FINAL_REASONS = ("finished", "turn_over", "idle")

_NOT_KEPT = "the connection was lost, and the server did not keep the session"

# Of a server without `--reload`, or to a client that may not keep.
KEEP_REFUSALS = (ErrorCode.INVALID_MESSAGE, ErrorCode.NOT_CONTROLLER)

Answer = Reply | StepAnswer | ClientError


class SessionScope:
    """Hold the messages of a controller's session that were not read yet, and the `error` that ended it.

    A viewer's scope spans all sessions that it watches. Above 1,000 messages the oldest is dropped.
    """

    def __init__(self) -> None:
        self.messages: deque[Message] = deque(maxlen=MAX_MESSAGES)
        self.error: ClientError | None = None

    def is_done(self) -> bool:
        """Return whether the session ended regularly; raise the error of any other end."""
        regular = isinstance(self.error, SessionEnded) and self.error.reason in REGULAR_ENDS
        if not regular:
            self.check()
        return regular

    def check(self) -> None:
        """Raise the error that ended the session, if it has ended."""
        if self.error is not None:
            raise self.error.with_traceback(None)


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """Hold an event without an answer yet; `on_answer` is called exactly once."""

    sent_at: float
    on_answer: Callable[[Any], object]


class PendingEvents:
    """Match answers with events by id; `next_id` is the id of the next event."""

    def __init__(self) -> None:
        self.next_id = 1
        # Each `reactor.keep` is sent without an id; the answers come in order.
        self.keeps: deque[Callable[[Path | ClientError], object]] = deque()
        self._events: dict[int, PendingEvent] = {}

    def add(self, event: PendingEvent) -> None:
        self._events[self.next_id] = event
        self.next_id += 1

    def take_answered(self, message: Message) -> PendingEvent | None:
        """Remove and return the event that a message answers, None if it answers none."""
        return self._events.pop(message.id, None) if isinstance(message.id, int) else None

    def reject_all(self, error: ClientError) -> None:
        """Answer every event, and every `reactor.keep`, with an error."""
        events, self._events = self._events, {}
        for event in events.values():
            event.on_answer(error)
        self.answer_keeps(error, len(self.keeps))

    def answer_keeps(self, answer: Path | ClientError, count: int = 1) -> None:
        """Answer the oldest `reactor.keep`s, if there are any."""
        for _ in range(min(count, len(self.keeps))):
            self.keeps.popleft()(answer)


class ClientProtocol:
    """Update status, state and messages from the server's messages, and match its answers with events.

    `final_error` ends the client; an error in `scope` ends a session, and stays until the client is connected again.
    `redirect` is that of the last message until the connection takes it.
    `publish_errors` holds the last error without an event: such an error is about published media.
    """

    def __init__(self, role: Role) -> None:
        self.role = role
        self.status = Status()
        self.welcome = NO_WELCOME
        self.state: Mapping[str, Any] = MappingProxyType({})
        self.seats: tuple[str | None, ...] = ()
        # Whether the message about the clients in several seats, which follows the welcome, has not come yet.
        self._awaits_seats = False
        self.stats: Mapping[str, Any] = MappingProxyType({})
        self.scope = SessionScope()
        self.publish_errors: deque[EventError] = deque(maxlen=1)
        self.last_reload: ReloadNotice | None = None
        self.redirect: Redirect | None = None
        self.final_error: ClientError | None = None
        self.clock = ServerClock()
        self.input_delay = InputDelay()
        self._pending = PendingEvents()
        self._expected_types: str | None = None

    def prepare_event(
        self, event: str, data: Mapping[str, Any], now: float, on_answer: Callable[[Reply | ClientError], object]
    ) -> str:
        """Return the text that sends an event; `on_answer` is called exactly once. Raises as `write_event` does."""
        text = write_event(event, data, self._pending.next_id, max_bytes=self.welcome.max_text_bytes)
        self._pending.add(PendingEvent(now, on_answer))
        return text

    def prepare_steps(
        self, request: Mapping[str, Any], now: float, on_answer: Callable[[StepAnswer | ClientError], object]
    ) -> str:
        """Return the text that requests steps; `on_answer` is called exactly once.

        Raises `TypeError` and `ValueError` for values that can't be sent.
        """
        text = write("reactor.step", request, self._pending.next_id)
        if len(text) > self.welcome.max_text_bytes:
            raise ValueError(f"steps with {len(text)} bytes of inputs: at most {self.welcome.max_text_bytes}")
        self._pending.add(PendingEvent(now, on_answer))
        return text

    def prepare_keep(self, on_answer: Callable[[Path | ClientError], object]) -> str:
        """Return the text that asks to keep the session; `on_answer` is called exactly once."""
        self._pending.keeps.append(on_answer)
        return write("reactor.keep", {})

    def expect_types(self, types: str) -> None:
        """Log a warning once if the model has other types than those of a generated client, now or after a reload."""
        self._expected_types = types
        self._check_types()

    def receive_message(self, message: Message, now: float, wall_s: float) -> None:
        """Apply a message; `now` is monotonic, `wall_s` the client's wall clock."""
        data = message.data
        match message.type:
            case "reactor.welcome":
                self._on_welcome(Welcome.from_data(data))
            case "reactor.state":
                self.state = MappingProxyType({**self.state, **data})
            case "reactor.contract" if self.welcome is not NO_WELCOME:
                self._on_contract(ModelContract.from_data(data))
            case "reactor.reload":
                self.last_reload = ReloadNotice.from_data(data)
            case "reactor.keep":
                self._pending.answer_keeps(_read_kept(data))
            case "reactor.reply" if (event := self._pending.take_answered(message)) is not None:
                answer = _read_answer(Reply.from_data, data)
                if isinstance(answer, Reply):
                    self.input_delay.on_reply(answer.n, event.sent_at)
                event.on_answer(answer)
            case "reactor.stepped" if (event := self._pending.take_answered(message)) is not None:
                event.on_answer(_read_answer(StepAnswer.from_data, data))
            case "reactor.error":
                self._on_error(message)
            case "reactor.session":
                self._on_session(data)
            case "reactor.queue":
                if self.has_resumable_session:
                    self.end_session(ConnectionLost(_NOT_KEPT))
                    self.on_reconnected()
                self.status = self.status.with_position(data, self.welcome.watched_by(self.role))
            case "reactor.redirect":
                self.redirect = Redirect.from_data(data)
            case "reactor.seats":
                self.seats = tuple(data["clients"])
                self._awaits_seats = False
            case "reactor.stats":
                self.stats = MappingProxyType(dict(data))
            case "reactor.pong":
                self.clock.add_pong(float(data["t"]), now, wall_s, int(data["server_us"]))
            case other if not other.startswith(RESERVED_PREFIX):
                self.scope.messages.append(message)

    @property
    def knows_model(self) -> bool:
        """Return whether the model and its tracks are known."""
        return self.welcome is not NO_WELCOME and self.status.phase in (Phase.CONNECTED, Phase.WAITING)

    @property
    def ready(self) -> bool:
        """Return whether a controller has its turn, or a viewer's welcome has arrived, and the seats are known."""
        if self._awaits_seats:
            return False
        return self.knows_model and (self.role == "viewer" or self.status.phase is Phase.CONNECTED)

    @property
    def may_send(self) -> bool:
        """Return whether the server accepts events of this client now."""
        return self.ready and (self.role == "controller" or (self.welcome.shared and self.welcome.session is not None))

    @property
    def has_resumable_session(self) -> bool:
        """Return whether the server is expected to keep a session for this controller."""
        return self.role == "controller" and self.welcome.resume is not None and self.scope.error is None

    @property
    def welcomed(self) -> bool:
        """Return whether a controller's session has started, or a viewer's welcome has arrived."""
        if self.role == "viewer":
            return self.welcome is not NO_WELCOME
        return self.welcome.role == "controller" and self.scope.error is None

    def reject_events(self, error: ClientError) -> None:
        """Answer pending events with `error`."""
        self._pending.reject_all(error)

    def on_connection_lost(self, error: ClientError) -> None:
        """Answer pending events with `error` while the connection is being restored."""
        self.reject_events(error)
        self.status = replace(self.status, phase=Phase.RECONNECTING, detail=error.message, notice="", seconds=None)

    def on_reconnected(self) -> None:
        """Start a new scope if the session was lost."""
        if self.scope.error is not None and self.final_error is None:
            self.scope = SessionScope()
            self.welcome = NO_WELCOME
            self.status = Status()

    def end_session(self, error: ClientError) -> None:
        """End the session with `error`; the client continues. Does nothing the second time."""
        if self.scope.error is not None:
            return
        self.scope.error = error
        reason = error.reason if isinstance(error, SessionEnded) else "lost"
        detail = error.why if isinstance(error, SessionEnded) else error.message
        self.status = Status(Phase.ENDED, self.status.session, detail=detail, reason=reason)
        self._pending.reject_all(error)

    def end_client(self, error: ClientError) -> None:
        """End session and client: pending events and all waits raise `error`. Does nothing the second time."""
        if self.final_error is not None:
            return
        self.final_error = error
        # The final error replaces the error of a session that had ended before.
        self.scope.error = None
        self.end_session(error)

    def _on_welcome(self, welcome: Welcome) -> None:
        before = self.welcome
        if self.has_resumable_session and welcome.session != before.session:
            self.end_session(ConnectionLost(_NOT_KEPT))
            self.on_reconnected()
        self.welcome = welcome
        self.last_reload = welcome.reload
        self._check_types()
        self.state = MappingProxyType(dict(welcome.state))
        self.seats = (None,) * welcome.seats
        self._awaits_seats = welcome.session is not None and welcome.seats > 1
        if welcome.session != before.session:
            self.input_delay.reset()
        if welcome.session is None or self.welcome.watched_by(self.role) is not None:
            self.status = Status(Phase.WAITING, welcome.session, self.status.position, self.status.length)
        else:
            self.status = Status(Phase.CONNECTED, welcome.session)

    def _on_contract(self, contract: ModelContract) -> None:
        self.welcome = replace(self.welcome, contract=contract)
        events, read_only = contract.schema["events"], contract.schema.get("state", {})
        fields = {*(event.get("field") for event in events.values()), *read_only}
        self.state = MappingProxyType({name: value for name, value in self.state.items() if name in fields})
        self._check_types()

    def _check_types(self) -> None:
        types = self.welcome.contract.schema.get("types")
        if self._expected_types is None or types in (None, self._expected_types):
            return
        self._expected_types = None
        logger.warning(
            "the typed client of %s is out of date, because the model has changed; generate it again with "
            "`reactor schema --format python`",
            self.welcome.model,
        )

    def _on_session(self, data: Mapping[str, Any]) -> None:
        match data["phase"]:
            case "loading":
                self.status = Status(Phase.LOADING, detail=str(data.get("detail", "")), progress=data.get("progress"))
            case "lost":
                self.status = Status(Phase.WAITING, detail=str(data["message"]), reason="lost")
            case "failed":
                self.end_session(SessionEnded("failed", str(data.get("message", ""))))
            case "started":
                self.status = Status(Phase.CONNECTED, data["session"])
            case "preparing" if self.status.phase is Phase.CONNECTED:
                self.status = replace(self.status, detail=str(data["detail"]), progress=data["progress"])
            case "resumed" if self.welcome.watched_by(self.role) is None:
                self.status = Status(Phase.CONNECTED, data["session"], notice="resumed")
            case "ended":
                self._on_session_ended(str(data["reason"]), str(data.get("message", "")))
            case "ending" | "idle" | "away" | "stopping":
                self.status = self.status.with_notice(data)

    def _on_session_ended(self, reason: str, message: str) -> None:
        if self.role == "viewer":
            self.status = Status(Phase.WAITING, reason=reason, detail=message)
            self.state = MappingProxyType({})
            self.input_delay.reset()
        elif reason in FINAL_REASONS:
            self.end_client(SessionEnded(reason, message))
        elif self.welcomed:
            self.end_session(SessionEnded(reason, message))

    def _on_error(self, message: Message) -> None:
        error = EventError.from_data(message.data)
        event = self._pending.take_answered(message)
        if event is not None:
            event.on_answer(error)
            return
        if error.code in KEEP_REFUSALS and self._pending.keeps:
            self._pending.answer_keeps(error)
            return
        logger.warning("the server sent an error code=%s message=%s", error.code, error.message)
        if not error.event:
            self.publish_errors.append(error)


def _read_kept(data: Mapping[str, Any]) -> Path | ClientError:
    message, hint = str(data.get("message") or ""), str(data.get("hint") or "")
    if not data.get("file"):
        return ClientError(f"the session can't be kept: {message}", hint=hint)
    if message:
        logger.warning("%s: %s", message, hint)
    return Path(str(data["file"]))


def _read_answer(read: Callable[[Mapping[str, Any]], Answer], data: Mapping[str, Any]) -> Answer:
    """Return the answer, or an error if it is malformed, so that every event gets one."""
    try:
        return read(data)
    except (LookupError, TypeError, ValueError) as error:
        return ConnectionLost(f"the server's reply is malformed: {type(error).__name__}: {error}")
