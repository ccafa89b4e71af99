"""What engine and server say to each other, one frozen dataclass a message.

Fields hold JSON values only. Times are seconds of CLOCK_MONOTONIC, which both processes share, unless named otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Load:
    """server → engine, once: import the class, check it, load it.

    `config` is YAML, whose dates and sets JSON hasn't; load() gets what it says. `engine` is its number in log lines,
    "" where there is only one.
    """

    project: str
    module: str
    class_name: str
    config: str
    log_level: str
    log_format: str
    trace: bool = False
    engine: str = ""


@dataclass(frozen=True, slots=True)
class StartSession:
    """server → engine: a controller has come; answered by Started, later by Ended."""

    session: str
    client: str
    joined_at_unix: float


@dataclass(frozen=True, slots=True)
class StopSession:
    """server → engine: the controller has gone; answered by Ended when the model has let go of it."""

    session: str


@dataclass(frozen=True, slots=True)
class Hold:
    """server → engine: the controller has lost its connection, make nothing more; or it is there again, go on."""

    session: str
    held: bool


@dataclass(frozen=True, slots=True)
class ClientEvent:
    """server → engine: a client's event, its data still JSON text; `ticket` comes back with the answer.

    `arrived_at` is when the server read it, 0 if nobody wants to know how long it takes to show.
    """

    session: str
    client: str
    ticket: str | int | None
    name: str
    data_json: str
    arrived_at: float = 0.0


@dataclass(frozen=True, slots=True)
class ClientMedia:
    """server → engine: a picture or a piece of sound for an input track, `file` a JPEG or WAV as the client sent it."""

    session: str
    track: str
    file: bytes


@dataclass(frozen=True, slots=True)
class UploadedBytes:
    """server → engine: a file for events of this session to name by `id`; at `path`, or `file` itself where that is "".

    Whoever opens the path removes it.
    """

    session: str
    id: str
    name: str
    content_type: str
    path: str
    file: bytes


@dataclass(frozen=True, slots=True)
class Credit:
    """server → engine: the moment was shown or dropped; its memory and its place in the queue are free again.

    `ready_at` is when it could have been shown, encoded and all; 0 when it was dropped before.
    """

    session: str
    bundle: int
    ready_at: float


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """server → engine: give a sign of life; answered by Pulse at once, whatever the model does."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    """server → engine: end the session there may be, then the process."""


@dataclass(frozen=True, slots=True)
class Loading:
    """engine → server: the last line the model logged or printed while loading."""

    detail: str


@dataclass(frozen=True, slots=True)
class Described:
    """engine → server: the class is fine; what a client needs to know of it (tracks and schema)."""

    contract: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ready:
    """engine → server: load() is done, sessions may come."""

    load_s: float


@dataclass(frozen=True, slots=True)
class Failed:
    """engine → server: the model can't be imported, checked or loaded; the process ends. See `errors.to_json`."""

    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """engine → server: whether the model's code has not given way since the Probe before, and `where` it is then."""

    held: bool
    where: str


@dataclass(frozen=True, slots=True)
class Started:
    """engine → server: the session has a fresh state."""

    session: str
    started_at: float
    state: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """engine → server: the model has let go of the session; `error` says why it failed, if it did."""

    session: str
    error: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Suspicion:
    """engine → server: the first step made what is probably not meant; `error` is written by `errors.to_json`."""

    session: str
    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BundleFrame:
    """One frame within a moment: `offset` into the ring, -1 for a black frame that has no pixels there."""

    track: str
    seq: int
    offset: int
    height: int
    width: int


@dataclass(frozen=True, slots=True)
class BundleSound:
    """One piece of sound within a moment, int16 of shape (channels, samples) at `offset` in the ring.

    It begins at `at`, which is the moment's `due` but for rounding: the pieces of a track are end to end.
    """

    track: str
    seq: int
    offset: int
    channels: int
    samples: int
    sample_rate: int
    at: float


@dataclass(frozen=True, slots=True)
class Bundle:
    """engine → server: what to show at `due`, answered by Credit; the ring keeps it until then.

    `first` of those that one step made: `step_s` is how long that took. `inputs` holds `arrived_at` of the events
    that no moment before this one could show. `nudges` tells how many encoder threads were nudged for it.
    """

    session: str
    number: int
    due: float
    interval_s: float
    handed_over: float
    wall_us: int
    applied: int
    step_s: float
    pictures: tuple[BundleFrame, ...]
    sounds: tuple[BundleSound, ...] = ()
    first: bool = True
    inputs: tuple[float, ...] = ()
    hints: int = 0


@dataclass(frozen=True, slots=True)
class Flush:
    """engine → server: show nothing of the moments before `moment`; the one that follows is black."""

    session: str
    before: int


@dataclass(frozen=True, slots=True)
class MessageSent:
    """engine → server: a model message, for every client of the session or for `client` alone.

    It reaches clients after the moments that were handed over before it.
    """

    session: str
    type: str
    data: dict[str, Any]
    client: str | None = None


@dataclass(frozen=True, slots=True)
class StateChanged:
    """engine → server: the public state fields that have another value."""

    session: str
    changes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EventApplied:
    """engine → server: event `n` was applied; `reply` is the message its handler returned."""

    session: str
    client: str
    ticket: str | int | None
    n: int
    reply: tuple[str, dict[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class EventRefused:
    """engine → server: the event changed nothing, or its handler failed; `fields` are {path, message} objects."""

    session: str
    client: str
    ticket: str | int | None
    event: str
    code: str
    message: str
    fields: list[dict[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class InputsTaken:
    """engine → server: at `at`, how many pictures of an input track had come in this session, and the model had taken.

    `missed` counts those that it asked for before they had come.
    """

    session: str
    track: str
    at: float
    came: int
    taken: int
    missed: int


@dataclass(frozen=True, slots=True)
class UploadTaken:
    """engine → server: the file of this Upload is open or dropped; it takes no more room on the way."""

    session: str
    id: str


@dataclass(frozen=True, slots=True)
class TraceSpans:
    """engine → server, when asked for in Load: what the process did in this session; see `engine.trace`."""

    session: str
    process: int
    spans: list[dict[str, Any]]


ToEngine = (
    Load
    | StartSession
    | StopSession
    | Hold
    | ClientEvent
    | ClientMedia
    | UploadedBytes
    | Credit
    | HeartbeatRequest
    | Shutdown
)
ToServer = (
    Loading
    | Described
    | Ready
    | Failed
    | Heartbeat
    | Started
    | Ended
    | Suspicion
    | Bundle
    | Flush
    | MessageSent
    | StateChanged
    | EventApplied
    | EventRefused
    | InputsTaken
    | UploadTaken
    | TraceSpans
)
Message = ToEngine | ToServer
