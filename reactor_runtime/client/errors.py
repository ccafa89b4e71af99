"""What a client of a server may be told, split by what it does next.

ClientError
├── AddressError       the address or the role can't be one: another address
├── ConnectError       nobody answers, or no Reactor server: another address, or later
│   ├── Refused        the server lets this client not in: a token, another origin, fewer connections
│   └── Busy           the line or the gallery is full: later
├── SessionEnded       the session is over and `reason` says why; `ready()` waits for another one
├── ConnectionLost     the connection went: whether what was on its way took effect is unknown
├── EventError         an event was refused and changed nothing, `fields` says which values are at fault
└── UploadError        a file was not taken
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from reactor_runtime.errors import FieldError, ReactorError, UsageError


class ClientError(ReactorError):
    """A server could not do what a client wanted."""


class AddressError(ClientError, UsageError):
    """The address of a server, or the role, is wrong."""


class ConnectError(ClientError):
    """The server can't be reached, or what answers there is no Reactor server."""

    exit_code: ClassVar[int] = 3


class Refused(ConnectError):
    """The server doesn't let this client in; `status` is the HTTP status it answered with."""

    def __init__(self, message: str, *, status: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class Busy(ConnectError):
    """As many clients as may are waiting or watching already."""

    exit_code: ClassVar[int] = 5


class SessionEnded(ClientError):
    """The session is over.

    `reason` is that of the wire (`finished`, `turn_over`, `idle`, `model_error`, `model_died`, `server_stopping`, …),
    `closed` when this client closed it, `failed` when the model can't be served.
    """

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(f"the session has ended: {message or reason}")
        self.reason = reason
        self.why = message


class ConnectionLost(ClientError):
    """The connection went, and the session with it unless the status says that it is being resumed."""


class EventError(ClientError):
    """The server answered an event, or a published file, with an error of this `code`; nothing changed.

    `fields` lists every value at fault, `event` is the event's name where it was one.
    """

    def __init__(self, code: str, message: str, *, fields: Iterable[FieldError] = (), event: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.fields = tuple(fields)
        self.event = event

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> EventError:
        """Read the data of a `reactor.error`; what it lacks is left out, since somebody may wait for it."""
        said = data.get("fields")
        faults = [each for each in said if isinstance(each, Mapping)] if isinstance(said, list) else []
        fields = [FieldError(str(each.get("path", "")), str(each.get("message", ""))) for each in faults]
        code = str(data.get("code", "error"))
        return cls(code, str(data.get("message", code)), fields=fields, event=str(data.get("event", "")))


class UploadError(ClientError):
    """The server did not take a file; `status` is the HTTP status, 0 when there was no answer."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
