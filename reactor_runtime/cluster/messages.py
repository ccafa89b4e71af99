"""The messages between a front and a worker's control socket: JSON texts, one object each. Pure."""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from pydantic import TypeAdapter, ValidationError

from reactor_runtime.cluster.codec import BadMessage, MessageCodec
from reactor_runtime.server.sessions.slot import SessionEnd


@dataclass(frozen=True, slots=True)
class FrontIdentity:
    """Identify a front at the other end of a control socket: by an id, its machine, its process, and its start."""

    id: str
    host: str
    pid: int
    started_at_unix: float

    @classmethod
    def of_this_process(cls) -> Self:
        return cls(f"f-{secrets.token_hex(4)}", socket.gethostname(), os.getpid(), time.time())

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the identity that a peer has sent. Raises BadMessage."""
        try:
            return TypeAdapter(cls).validate_python(dict(fields))
        except ValidationError as error:
            raise BadMessage(f"the peer does not name its front: {error}") from None

    @classmethod
    def from_json(cls, text: bytes) -> Self:
        """Return the identity that a peer has sent in JSON. Raises BadMessage."""
        try:
            return cls.from_fields(json.loads(text))
        except (ValueError, TypeError) as error:
            raise BadMessage(f"the peer does not name its front: {error}") from None

    def __str__(self) -> str:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(self.started_at_unix))
        return f"process {self.pid} on {self.host}, started {since}"


@dataclass(frozen=True, slots=True)
class SeatStatus:
    """Report a seat of a session, and its controller, or the last one: by the ids of client and ticket.

    `resume` is the secret with which the controller may resume. `turn_s` is how much of the turn has passed, with what
    a lost session had used of it; None before it has begun. `vacancies` is how often controllers have left the seat;
    `is_broken` is whether the connection of the last one broke.
    """

    ticket: str = ""
    client: str = ""
    resume: str = ""
    turn_s: float | None = None
    is_free: bool = False
    vacancies: int = 0
    is_broken: bool = False


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """Report a session of a worker, with its seats in their order.

    The session is found by the code of its `room`, which is "" where there is one seat. If it `is_private`, only
    clients with the code get a seat.
    """

    id: str
    phase: str
    running_s: float
    seats: tuple[SeatStatus, ...]
    upload_key: str = ""
    room: str = ""
    is_private: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotStatus:
    """Report a slot of a worker: its session, the end of the one before, and its clients, with the frames they see."""

    session: SessionStatus | None
    ended: SessionEnd
    clients: int
    viewers: int
    fps: float | None
    age_ms: float | None
    late_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """Report the state of a worker, at each change and once a second.

    `build` is that of its job, `phase` that of its engine, `released` the ids of the tickets that were released in the
    last 10 s. The worker has one of the `slots` until its model is loaded; `fitting` is how many sessions fit on it,
    and `limit` why not more. Times are in seconds or milliseconds as named; unknown values are None.
    """

    build: str
    phase: str
    detail: str
    progress: float | None
    loading_s: float
    failed_loads: int
    slots: tuple[SlotStatus, ...]
    fitting: int
    limit: str
    released: tuple[str, ...]
    draining: bool
    gpu: str
    memory_bytes: int | None
    uptime_s: float | None


@dataclass(frozen=True, slots=True)
class ContractChanged:
    """Report the contract of the model, when it is known and when it has changed."""

    contract: dict[str, Any]


@dataclass(frozen=True, slots=True)
class FrontHeartbeatRequest:
    """Request a heartbeat; without one, another front that has connected replaces this one."""


@dataclass(frozen=True, slots=True)
class FrontHeartbeat:
    """Report that the front runs."""


@dataclass(frozen=True, slots=True)
class LimitTurns:
    """Limit the turns of the controllers that came with the tickets of these ids, and no others."""

    tickets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """Admit nobody with the ticket of this id, and end the turn that began with it.

    Another client gets the slot or the seat when the worker's status has the id in `released`.
    """

    ticket: str


@dataclass(frozen=True, slots=True)
class Drain:
    """Finish the sessions, admit no other client, and end."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End at once, and close the clients with the reason."""


@dataclass(frozen=True, slots=True)
class Abort:
    """End at once, and break the connections of clients: the front counts their sessions as lost."""


FromWorker: TypeAlias = WorkerStatus | ContractChanged | FrontHeartbeatRequest
ToWorker: TypeAlias = FrontHeartbeat | LimitTurns | Release | Drain | Stop | Abort

FROM_WORKER = MessageCodec[FromWorker](
    {"status": WorkerStatus, "contract": ContractChanged, "heartbeat_request": FrontHeartbeatRequest}
)
TO_WORKER = MessageCodec[ToWorker](
    {
        "heartbeat": FrontHeartbeat,
        "limit_turns": LimitTurns,
        "release": Release,
        "drain": Drain,
        "stop": Stop,
        "abort": Abort,
    }
)
