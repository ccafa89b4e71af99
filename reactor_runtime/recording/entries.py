"""The entries of a recording: all that a session's model received, and a hash of all that it returned.

A *step* is one output or Idle of the model. Entries are placed by the number of steps made before them, so a replay
does not depend on time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from reactor_runtime.recording.pieces import Metadata, Pieces, ReloadKind

T = TypeVar("T")

# The limits for a frame that a model may return, and for a piece of sound: two minutes at the highest rate.
MOST_SIDE = 4096
MOST_SAMPLES = 120 * 384_000


def shape_of(hash: str) -> tuple[int, ...]:
    """Return the shape with which the hash of a frame or a piece of sound begins; raise ValueError for any other."""
    shape = tuple(map(int, hash.partition(":")[0].split("x")))
    check_shape(shape)
    return shape


def check_shape(shape: Sequence[int]) -> None:
    """Raise ValueError for the shape of an array that is neither a frame nor a piece of sound of a model."""
    match shape:
        case (height, width, 3) if 1 <= height <= MOST_SIDE and 1 <= width <= MOST_SIDE:
            return
        case (1 | 2, samples) if 1 <= samples <= MOST_SAMPLES:
            return
    raise ValueError(f"{'x'.join(map(str, shape))} is the size of no frame and of no piece of sound")


def _checked_hash(hash: str) -> str:
    shape_of(hash)
    return hash


Count = Annotated[int, Field(ge=0, lt=2**53)]
Microseconds = Annotated[int, Field(ge=0, lt=2**64)]
PieceHash = Annotated[str, AfterValidator(_checked_hash)]


@dataclass(frozen=True, slots=True)
class Header:
    """Describe a session: the model, what it was loaded with, its client and its seed.

    `config` is the config as JSON; `contract` is that of `reactor.welcome`; `files` maps the files of the project
    that were used to the hashes of their content. `started_at` is in Unix seconds, as is `joined_at` of the client,
    which has the `seat`.
    """

    model: str
    config: str
    contract: dict[str, Any]
    seed: Count
    client: str
    joined_at: float
    started_at: float
    versions: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    seat: Count = 0


@dataclass(frozen=True, slots=True)
class EventEntry:
    """Record an event handled after `step` steps, or `skipped` because a later event of its name replaced it.

    `client` is the id of its sender, "" for the controller that has started the session, and `seat` the number of its
    seat. Clients that join and leave are events too, called `reactor.joined` and `reactor.left`, with `waiting` if the
    model waited in a read meanwhile.
    """

    step: Count
    name: str
    data_json: str
    skipped: bool = False
    client: str = ""
    waiting: bool = False
    seat: Count = 0


@dataclass(frozen=True, slots=True)
class SentValues:
    """Record what a client sent with a file, None for what it did not send; `metadata` is in base64."""

    pts: Microseconds | None = None
    metadata: str | None = None
    capture_time_us: Microseconds | None = None


@dataclass(frozen=True, slots=True)
class ReadEntry:
    """Record a read of an input track that returned `files`, JPEG, WAV or `.npy`; without any it raised TimeoutError.

    It was the track's read number `call` since the start of the session or the last reload; reads that returned None
    count too. `sent` has the values that came with each file; it is empty if none came.
    """

    step: Count
    track: str
    call: Count
    files: tuple[bytes, ...]
    sent: tuple[SentValues, ...] = ()


@dataclass(frozen=True, slots=True)
class ReloadEntry:
    """Record that the code that makes frames ended after `step` steps and started again, after a reload of this `kind`.

    With `waiting` it ended in a read that waited for an input. `config` is the JSON of what the model was loaded with
    last, `files` are the hashes of the project's files that are used from here on.
    """

    step: Count
    kind: ReloadKind
    waiting: bool
    config: str
    files: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """Record that step number `step` raised an exception with this message; the session waits for new code."""

    step: Count
    error: str


@dataclass(frozen=True, slots=True)
class UploadEntry:
    """Record a file that a client uploaded; events refer to it by `id`."""

    id: str
    name: str
    content_type: str
    content: bytes


@dataclass(frozen=True, slots=True)
class MessageEntry:
    """Record a message of the model, a reply included."""

    step: Count
    type: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class OutputEntry:
    """Record the hashes of one output: for each track, one of each frame, or of each piece of sound.

    `metadata` has that of each frame, None for none, by the tracks that have any.
    """

    step: Count
    hashes: dict[str, Annotated[list[PieceHash], Field(min_length=1)]]
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FrameEntry:
    """Record frame number `frame` of a track, counted over the session.

    `content` is its pixels, or a JPEG of this `quality`, OWN_QUALITY for one that the model made; b"" if that is left
    out because the disk is too slow.
    """

    track: str
    frame: Count
    content: NDArray[np.uint8] | bytes
    quality: int = 0


@dataclass(frozen=True, slots=True)
class EndEntry:
    """Record the end of a session after `step` steps, with the message of the error that ended it, or "".

    The next step raised the error, unless it came `between_steps`, as from the death of a process of a runner.
    """

    step: Count
    error: str = ""
    between_steps: bool = False


@dataclass(frozen=True, slots=True)
class KeptEntry:
    """Record that the controller kept the session after `step` steps; its last minute begins with `since_step`."""

    step: Count
    since_step: Count


Entry = (
    EventEntry
    | ReadEntry
    | ReloadEntry
    | ErrorEntry
    | UploadEntry
    | MessageEntry
    | OutputEntry
    | FrameEntry
    | EndEntry
    | KeptEntry
)


def name_of(key: str) -> str:
    """Return the name of a track from its key, which may have a seat too."""
    return key.partition("@")[0]


def in_first_seat(values: Mapping[str, T]) -> dict[str, T]:
    """Return the values for all seats and those for the first, by the names of the tracks, from the values by key."""
    return {name_of(key): value for key, value in values.items() if key.partition("@")[2] in ("", "0")}


def hash_pieces(pieces: Pieces) -> dict[str, list[str]]:
    """Return a hash of each array: of its shape and its bytes."""
    return {track: [_hash(array) for array in arrays] for track, arrays in pieces.items()}


def _hash(array: NDArray[Any]) -> str:
    import xxhash

    shape = "x".join(map(str, array.shape))
    return f"{shape}:{xxhash.xxh3_64_hexdigest(np.ascontiguousarray(array).data)}"


def to_pieces(bundles: Sequence[Any]) -> Pieces:
    """Return the arrays of an output by the keys of their tracks; `bundles` map tracks to arrays."""
    pieces: Pieces = {}
    for bundle in bundles:
        for track, array in bundle.items():
            pieces.setdefault(track.key, []).append(array)
    return pieces
