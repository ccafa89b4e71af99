"""The messages between a front and a worker's control socket: JSON texts, one object each. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from reactor_runtime.errors import ReactorError


class BadMessage(ReactorError):
    """Report a control message that can't be decoded: the peer has another version."""


@dataclass(frozen=True, slots=True)
class SessionStatus:
    """The session of a worker; `ticket` is the id of the ticket that its controller came with."""

    id: str
    phase: str
    started_at_unix: float
    resume: str
    ticket: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """What a worker reports at each change and once a second.

    `phase` is that of its engine, `ended` the id of the session that ended last and the reason. Times are in seconds or
    milliseconds as named; unknown values are None.
    """

    worker: str
    phase: str
    detail: str
    progress: float | None
    loading_s: float
    failed_loads: int
    session: SessionStatus | None
    ended: tuple[str, str]
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
    """What the model takes and returns is known, or has changed."""

    contract: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Waiting:
    """So many controllers wait for this worker's slot, which limits its turns."""

    count: int


@dataclass(frozen=True, slots=True)
class Drain:
    """Finish the session, admit no other client, and end."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End at once, as after a signal."""


FromWorker: TypeAlias = WorkerStatus | ContractChanged
ToWorker: TypeAlias = Waiting | Drain | Stop

_KINDS: dict[str, type[Any]] = {
    "status": WorkerStatus,
    "contract": ContractChanged,
    "waiting": Waiting,
    "drain": Drain,
    "stop": Stop,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_ADAPTERS = {name: TypeAdapter(kind) for name, kind in _KINDS.items()}


def encode(message: FromWorker | ToWorker) -> str:
    """Return the text of a message."""
    return json.dumps({"type": _NAMES[type(message)], **asdict(message)}, separators=(",", ":"))


def decode_from_worker(text: str) -> FromWorker:
    """Return a message of a worker. Raises BadMessage."""
    message: FromWorker = _decode(text, ("status", "contract"))
    return message


def decode_to_worker(text: str | bytes) -> ToWorker:
    """Return a message of a front. Raises BadMessage."""
    message: ToWorker = _decode(text, ("waiting", "drain", "stop"))
    return message


def _decode(text: str | bytes, names: tuple[str, ...]) -> Any:
    try:
        fields = json.loads(text)
        name = fields.pop("type")
        if name not in names:
            raise BadMessage(f"unexpected control message {name!r}")
        return _ADAPTERS[name].validate_python(fields)
    except (ValueError, KeyError, AttributeError, TypeError, ValidationError) as error:
        raise BadMessage(f"a control message can't be decoded: {error}") from None
