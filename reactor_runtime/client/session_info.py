"""What a session knows of the model and of itself, the same for both fronts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from reactor_runtime.client.address import Role
from reactor_runtime.client.connection import Connection
from reactor_runtime.client.message import Track
from reactor_runtime.client.status import Status


class SessionInfo:
    """Read-only values as of the last message; each is replaced as a whole, so any thread may look."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._exchange = connection.exchange

    @property
    def status(self) -> Status:
        """Where this client stands: in line, running, coming back, ended."""
        return self._exchange.conversation.status

    @property
    def id(self) -> str | None:
        """The session's name at the server; None while there is none."""
        return self.status.session

    @property
    def state(self) -> Mapping[str, Any]:
        """The public fields of the model's state, whoever changed them."""
        return self._exchange.conversation.state

    @property
    def schema(self) -> Mapping[str, Any]:
        """The model's `events` and `messages`, as JSON Schemas of their data."""
        return self._exchange.conversation.welcome.schema

    @property
    def tracks(self) -> tuple[Track, ...]:
        """The model's streams, both ways."""
        return self._exchange.conversation.welcome.tracks

    @property
    def model(self) -> str:
        """The model's name; empty before the server has told it."""
        return self._exchange.conversation.welcome.model

    @property
    def role(self) -> Role:
        """Whether this client controls the model or watches."""
        return self._exchange.conversation.role

    @property
    def limits(self) -> Mapping[str, Any]:
        """The server's limits, as in its welcome."""
        return self._exchange.conversation.welcome.limits

    @property
    def stats(self) -> Mapping[str, Any]:
        """The last `reactor.stats`, which come once a second."""
        return self._exchange.conversation.stats

    @property
    def arrived(self) -> Mapping[str, int]:
        """How many pictures of each track have come."""
        return MappingProxyType(self._exchange.pictures.arrived)

    @property
    def rtt_ms(self) -> float | None:
        """The last ping's round trip."""
        return self._exchange.conversation.clock.rtt_ms

    @property
    def input_delay_ms(self) -> float | None:
        """From sending the last event that is seen to the arrival of the first frame made with it."""
        return self._exchange.conversation.input_delay.last_ms
