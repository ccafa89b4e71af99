"""The read-only values that `Session` and `BlockingSession` have in common."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from reactor_runtime.client.address import Role
from reactor_runtime.client.connection import Connection
from reactor_runtime.client.messages import ReloadNotice, Track
from reactor_runtime.client.status import Status


class SessionValues:
    """Return values as of the last message; each is replaced as a whole, so any thread may read them."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._streams = connection.streams

    @property
    def status(self) -> Status:
        """Return the client's phase: waiting, connected, reconnecting, ended …"""
        return self._streams.protocol.status

    @property
    def id(self) -> str | None:
        """Return the session's id at the server; None without a session."""
        return self.status.session

    @property
    def state(self) -> Mapping[str, Any]:
        """Return the public fields of the model's state."""
        return self._streams.protocol.state

    @property
    def schema(self) -> Mapping[str, Any]:
        """Return the model's `events` and `messages`, as JSON Schemas of their data."""
        return self._streams.protocol.welcome.contract.schema

    @property
    def tracks(self) -> tuple[Track, ...]:
        """Return the model's tracks, in both directions."""
        return self._streams.protocol.welcome.contract.tracks

    @property
    def model(self) -> str:
        """Return the model's name; empty before the welcome."""
        return self._streams.protocol.welcome.model

    @property
    def role(self) -> Role:
        """Return the role of this client: controller or viewer."""
        return self._streams.protocol.role

    @property
    def seat(self) -> int:
        """Return the number of the seat that this client has, or that it watches."""
        return self._streams.protocol.welcome.seat

    @property
    def seats(self) -> tuple[str | None, ...]:
        """Return the id of the client in each seat, None for a free one; one None where there is one seat."""
        return self._streams.protocol.seats

    @property
    def room(self) -> str | None:
        """Return the code by which others find a session with several seats; None for any other."""
        return self._streams.protocol.welcome.room

    @property
    def may_send(self) -> bool:
        """Return whether the server accepts events of this client now.

        It does from the controller, and in a shared session from every client.
        """
        return self._streams.protocol.may_send

    @property
    def limits(self) -> Mapping[str, Any]:
        """Return the server's limits, as in its welcome."""
        return self._streams.protocol.welcome.limits

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the `message` with the `reward` of a step, and the names of its fields, as in reactor.yaml."""
        return self._streams.protocol.welcome.environment

    @property
    def last_reload(self) -> ReloadNotice | None:
        """Return the last reload of the project; None before the welcome, and without `--reload`."""
        return self._streams.protocol.last_reload

    @property
    def stats(self) -> Mapping[str, Any]:
        """Return the last `reactor.stats`, which the server sends once a second."""
        return self._streams.protocol.stats

    @property
    def arrived(self) -> Mapping[str, int]:
        """Return how many frames of each track have arrived."""
        return MappingProxyType(self._streams.frames.arrived)

    @property
    def rtt_ms(self) -> float | None:
        """Return the round trip of the last ping."""
        return self._streams.protocol.clock.rtt_ms

    @property
    def input_delay_ms(self) -> float | None:
        """Return the time from sending an event to the first frame made with it, for the last event that has one."""
        return self._streams.protocol.input_delay.last_ms
