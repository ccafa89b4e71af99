"""The errors of a client, split by what its program does next.

ClientError
├── AddressError       the address or the role is malformed: correct it
├── ConnectError       no answer, or not a Reactor server: try another address, or later
│   ├── Refused        the server rejects this client: give a token, another origin, fewer connections
│   └── Busy           the wait queue is full, or there are too many viewers: try later
├── SessionEnded       the session is over, `reason` is the cause; `ready()` waits for another one
├── ConnectionLost     the connection was lost: the effect of unanswered events is unknown
├── EventError         an event was refused and changed nothing, `fields` lists the wrong values
│   └── StepRefused    steps were refused, `made` has those that were made (in `steps.py`)
└── UploadError        a file was refused
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from reactor_runtime.errors import FieldError, ReactorError, UsageError


class ClientError(ReactorError):
    """A request of a client failed."""


class AddressError(ClientError, UsageError):
    """The address of a server, or the role, is wrong."""


class ConnectError(ClientError):
    """There is no answer at the address, or not from a Reactor server."""

    exit_code: ClassVar[int] = 3


class Refused(ConnectError):
    """The server rejects this client; `status` is its HTTP status."""

    def __init__(self, message: str, *, status: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status


class Busy(ConnectError):
    """The wait queue is full, or the server has its maximum of viewers."""

    exit_code: ClassVar[int] = 5


class SessionEnded(ClientError):
    """The session is over.

    `reason` is the reason on the wire (`finished`, `turn_over`, `idle`, `model_error`, `model_died`, `server_stopping`,
    …), `closed` when this client closed it, `failed` when the model can't be served.
    """

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(f"the session has ended: {message or reason}")
        self.reason = reason
        self.why = message


class ConnectionLost(ClientError):
    """The connection was lost, and the session with it unless the status is `reconnecting`."""


class EventError(ClientError):
    """The server answered an event or published media with an error of this `code`; nothing changed.

    `fields` lists every wrong value; `event` is the event's name, empty for media. `made` is what was made of requested
    steps before the error, as in its message.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        fields: Iterable[FieldError] = (),
        event: str = "",
        made: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        super().__init__(message)
        self.made = made
        self.code = code
        self.fields = tuple(fields)
        self.event = event

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> EventError:
        """Read the data of a `reactor.error`; accepts missing fields, so that its event always gets an answer."""
        given = data.get("fields")
        faults = [each for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []
        fields = [FieldError(str(each.get("path", "")), str(each.get("message", ""))) for each in faults]
        code = str(data.get("code", "error"))
        made = data.get("made")
        return cls(
            code,
            str(data.get("message", code)),
            fields=fields,
            event=str(data.get("event", "")),
            made=made if isinstance(made, Mapping) else {},
        )


class UploadError(ClientError):
    """An upload failed; `status` is the HTTP status, 0 without an answer."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
