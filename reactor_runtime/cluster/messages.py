"""The messages between a front and a worker's control socket: JSON texts, one object each. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from reactor_runtime.cluster.codec import MessageCodec


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """The session of a worker; `client` and `ticket` are the ids of its controller and of that one's ticket."""

    id: str
    phase: str
    started_at_unix: float
    resume: str
    ticket: str
    client: str
    upload_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """The report of a worker, at each change and once a second.

    `phase` is that of its engine, `ended` the id of the session that ended last and the reason, `released` the id of
    the ticket that was released last. Times are in seconds or milliseconds as named; unknown values are None.
    """

    worker: str
    phase: str
    detail: str
    progress: float | None
    loading_s: float
    failed_loads: int
    session: SessionStatus | None
    ended: tuple[str, str]
    released: str
    clients: int
    viewers: int
    draining: bool
    gpu: str
    fps: float | None
    late_ms: float | None
    memory_bytes: int | None
    uptime_s: float | None
    version: str


@dataclass(frozen=True, slots=True)
class ContractChanged:
    """The contract of the model is known, or has changed."""

    contract: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Waiting:
    """So many controllers wait for this worker's slot, which limits its turns."""

    count: int


@dataclass(frozen=True, slots=True)
class Release:
    """Admit nobody with the ticket of this id, and stop the session that began with it.

    Another client gets the slot when the worker's status has the id as `released`.
    """

    ticket: str


@dataclass(frozen=True, slots=True)
class Drain:
    """Finish the session, admit no other client, and end."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End at once, as after a signal."""


FromWorker: TypeAlias = WorkerStatus | ContractChanged
ToWorker: TypeAlias = Waiting | Release | Drain | Stop

FROM_WORKER = MessageCodec[FromWorker]({"status": WorkerStatus, "contract": ContractChanged})
TO_WORKER = MessageCodec[ToWorker]({"waiting": Waiting, "release": Release, "drain": Drain, "stop": Stop})
