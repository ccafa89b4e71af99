"""The client's side of `reactor.v1`, without sockets, tasks or clocks: what it has been told, and what is open."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from reactor_runtime.client.address import Role
from reactor_runtime.client.delay import InputDelay, ServerClock
from reactor_runtime.client.errors import ClientError, ConnectionLost, EventError, SessionEnded
from reactor_runtime.client.message import Message, Reply, write_event
from reactor_runtime.client.pending import Answer, PendingEvent, PendingEvents
from reactor_runtime.client.status import Phase, Status
from reactor_runtime.client.welcome import NO_WELCOME, Welcome
from reactor_runtime.wire.protocol import RESERVED_PREFIX

logger = logging.getLogger(__name__)

KEPT_MESSAGES = 1000
ENDS_WELL = ("closed", "finished")
FINAL = ("finished", "turn_over", "idle")  # another session is for the program to ask for

_NOT_KEPT = "the connection was lost, and the server did not keep the session"


class SessionScope:
    """Hold what ends with a controller's session: the messages not taken yet, and the `error` that ended it.

    A viewer's scope lasts over the sessions it sees. Of more than 1,000 messages the oldest is dropped.
    """

    def __init__(self) -> None:
        self.messages: deque[Message] = deque(maxlen=KEPT_MESSAGES)
        self.error: ClientError | None = None

    def is_done(self) -> bool:
        """Return whether it ended as it should; raise why, when it ended otherwise."""
        well = isinstance(self.error, SessionEnded) and self.error.reason in ENDS_WELL
        if not well:
            self.check()
        return well

    def check(self) -> None:
        """Raise why it ended, if it did."""
        if self.error is not None:
            raise self.error.with_traceback(None)


class ClientProtocol:
    """Keep what the server has said: status, state, messages; match answers with events.

    `over` is why nothing more will come, once that is so. After a session that was lost the `scope` keeps its error
    until there is a connection again. `complaints` holds the last error that is about no event: it is about what was
    published.
    """

    def __init__(self, role: Role) -> None:
        self.role = role
        self.status = Status()
        self.welcome = NO_WELCOME
        self.state: Mapping[str, Any] = MappingProxyType({})
        self.stats: Mapping[str, Any] = MappingProxyType({})
        self.scope = SessionScope()
        self.complaints: deque[EventError] = deque(maxlen=1)
        self.over: ClientError | None = None
        self.clock = ServerClock()
        self.input_delay = InputDelay()
        self._questions = PendingEvents()

    def ask(self, event: str, data: Mapping[str, Any], now: float, done: Callable[[Answer], object]) -> str:
        """Return the text that sends an event; `done` is called with its reply or error, exactly once.

        Raises what `write_event` does.
        """
        text = write_event(event, data, self._questions.next_id, most_bytes=self.welcome.max_text_bytes)
        self._questions.add(PendingEvent(now, done))
        return text

    def hear(self, message: Message, now: float, wall_s: float) -> None:
        """Take note of a message; `now` is monotonic, `wall_s` our wall clock."""
        data = message.data
        match message.type:
            case "reactor.welcome":
                self._welcome(Welcome.from_data(data))
            case "reactor.state":
                self.state = MappingProxyType({**self.state, **data})
            case "reactor.reply" if (question := self._questions.answered(message)) is not None:
                answer = _answer(data)
                if isinstance(answer, Reply):
                    self.input_delay.accepted(answer.n, question.sent_at)
                question.done(answer)
            case "reactor.error":
                self._error(message)
            case "reactor.session":
                self._session(data)
            case "reactor.queue":
                if self.kept:
                    self.lose(ConnectionLost(_NOT_KEPT))
                    self.reopened()
                position, length = int(data["position"]), int(data["length"])
                self.status = Status(Phase.WAITING, self.welcome.watched_by(self.role), position, length)
            case "reactor.stats":
                self.stats = MappingProxyType(dict(data))
            case "reactor.pong":
                self.clock.pong(float(data["t"]), now, wall_s, int(data["server_us"]))
            case other if not other.startswith(RESERVED_PREFIX):
                self.scope.messages.append(message)

    @property
    def known(self) -> bool:
        """Whether the model is, with its tracks."""
        return self.welcome is not NO_WELCOME and self.status.phase in (Phase.CONNECTED, Phase.WAITING)

    @property
    def ready(self) -> bool:
        """Whether a controller has its turn, or a viewer knows the model."""
        return self.known and (self.role == "viewer" or self.status.phase is Phase.CONNECTED)

    @property
    def kept(self) -> bool:
        """Whether there is a session that the server should still have for this controller."""
        return self.role == "controller" and self.welcome.resume is not None and self.scope.error is None

    @property
    def welcomed(self) -> bool:
        """Whether a controller has a session of its own, or a viewer knows the model."""
        if self.role == "viewer":
            return self.welcome is not NO_WELCOME
        return self.welcome.role == "controller" and self.scope.error is None

    def broken(self, error: ClientError) -> None:
        """Note that the connection went and is being restored: open events end with `error`."""
        self._questions.reject(error)
        self.status = replace(self.status, phase=Phase.RECONNECTING, detail=error.message, notice="", seconds=None)

    def lose(self, error: ClientError) -> None:
        """End what belongs to the session with `error`; the client goes on. Does nothing the second time."""
        if self.scope.error is not None:
            return
        self.scope.error = error
        reason = error.reason if isinstance(error, SessionEnded) else "lost"
        detail = error.why if isinstance(error, SessionEnded) else error.message
        self.status = Status(Phase.ENDED, self.status.session, detail=detail, reason=reason)
        self._questions.reject(error)

    def reopened(self) -> None:
        """Begin anew after a session that was lost: there is a connection again."""
        if self.scope.error is not None and self.over is None:
            self.scope = SessionScope()
            self.welcome = NO_WELCOME
            self.status = Status()

    def end(self, error: ClientError) -> None:
        """Finish: open events and everything that waits raise the error. Does nothing the second time."""
        if self.over is not None:
            return
        self.over = error
        self.scope.error = None  # the last error counts
        self.lose(error)

    def _welcome(self, welcome: Welcome) -> None:
        before = self.welcome
        if self.kept and welcome.session != before.session:
            self.lose(ConnectionLost(_NOT_KEPT))
            self.reopened()
        self.welcome = welcome
        self.state = MappingProxyType(dict(welcome.state))
        if welcome.session != before.session:
            self.input_delay.reset()
        if welcome.session is None or self.welcome.watched_by(self.role) is not None:
            self.status = Status(Phase.WAITING, welcome.session, self.status.position, self.status.length)
        else:
            self.status = Status(Phase.CONNECTED, welcome.session)

    def _session(self, data: Mapping[str, Any]) -> None:
        match data["phase"]:
            case "loading":
                self.status = Status(Phase.LOADING, detail=str(data.get("detail", "")))
            case "failed":
                self.lose(SessionEnded("failed", str(data.get("message", ""))))
            case "started":
                self.status = Status(Phase.CONNECTED, data["session"])
            case "resumed" if self.welcome.watched_by(self.role) is None:
                self.status = Status(Phase.CONNECTED, data["session"], notice="resumed")
            case "ended":
                self._ended(str(data["reason"]), str(data.get("message", "")))
            case "ending" | "idle" | "away" | "stopping":
                self.status = self.status.noticed(data)

    def _ended(self, reason: str, message: str) -> None:
        if self.role == "viewer":
            self.status = Status(Phase.WAITING, reason=reason, detail=message)
            self.state = MappingProxyType({})
            self.input_delay.reset()
        elif reason in FINAL:
            self.end(SessionEnded(reason, message))
        elif self.welcomed:
            self.lose(SessionEnded(reason, message))

    def _error(self, message: Message) -> None:
        error = EventError.from_data(message.data)
        question = self._questions.answered(message)
        if question is not None:
            question.done(error)
            return
        logger.warning("the server says code=%s message=%s", error.code, error.message)
        if not error.event:
            self.complaints.append(error)


def _answer(data: Mapping[str, Any]) -> Answer:
    """Read a reply. Whoever waits for one is told also where it can't be understood."""
    try:
        return Reply.from_data(data)
    except (LookupError, TypeError, ValueError) as error:
        return ConnectionLost(f"the server's answer can't be understood: {type(error).__name__}: {error}")
