"""The JSON messages of `reactor.v1` as the client sees them: values that are read, and texts to send.

Contains no state; `protocol.py` decides what a message changes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast

from reactor_runtime.client.address import Role
from reactor_runtime.errors import WireError
from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.wire.protocol import MAX_MEDIA_BYTES, MAX_TEXT_BYTES, RESERVED_PREFIX


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the model or of the protocol."""

    type: str
    data: Mapping[str, Any] = field(default_factory=dict)
    id: str | int | None = None

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read a message of the server; ignore unknown keys. Raises `WireError` for a malformed message."""
        try:
            message = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise WireError(ErrorCode.INVALID_JSON, f"not JSON: {error}") from error
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            raise WireError(ErrorCode.INVALID_MESSAGE, "a message is an object with a type")
        data = message.get("data", {})
        if not isinstance(data, dict):
            raise WireError(ErrorCode.INVALID_MESSAGE, "a message's data is an object")
        return cls(message["type"], data, message.get("id"))


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to an event that was applied as number `n` of its session; `message` is the handler's return value.

    The first frame whose `applied` is at least `n` is the first one made with the event.
    """

    n: int
    message: Message | None = None

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        message = data.get("message")
        return cls(int(data["n"]), None if message is None else Message(message["type"], message["data"]))


@dataclass(frozen=True, slots=True)
class StepAnswer:
    """The answer to a request for steps: `frames` has the first number and the count of each track."""

    step: int
    steps: int
    elapsed_s: float = 0.0
    frames: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        frames = {str(track): (int(each["first"]), int(each["count"])) for track, each in data["frames"].items()}
        return cls(int(data["step"]), int(data["steps"]), float(data["elapsed_s"]), frames)

    def has(self, track: str, seq: int) -> bool:
        """Return whether a frame or a piece of sound was made in these steps."""
        first, count = self.frames.get(track, (0, 0))
        return first <= seq < first + count


@dataclass(frozen=True, slots=True)
class Track:
    """A video or audio track of the model; `sample_rate` is None for video."""

    name: str
    kind: Literal["video", "audio"]
    direction: Literal["out", "in"]
    sample_rate: int | None = None

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Read one track of a welcome."""
        if data["kind"] not in ("video", "audio") or data["direction"] not in ("out", "in"):
            raise WireError(ErrorCode.INVALID_MESSAGE, f"a track that is {data['kind']} {data['direction']}")
        kind, direction = (
            cast("Literal['video', 'audio']", data["kind"]),
            cast("Literal['out', 'in']", data["direction"]),
        )
        return cls(str(data["name"]), kind, direction, data.get("sample_rate"))


@dataclass(frozen=True, slots=True)
class ModelContract:
    """The tracks of the model, and the JSON Schemas of its `events` and `messages`."""

    tracks: tuple[Track, ...]
    schema: Mapping[str, Any]

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Read the contract of a welcome or of `reactor.contract`."""
        if not isinstance(data["schema"], Mapping):
            raise WireError(ErrorCode.INVALID_MESSAGE, "a contract whose schema is no object")
        return cls(tuple(Track.from_data(track) for track in data["tracks"]), data["schema"])


@dataclass(frozen=True, slots=True)
class ReloadNotice:
    """The last reload of a project that is served with `--reload`.

    `status` is `applied`, `loading`, `restarting` or `failed`, and `reason` why new code is not applied in place. While
    the model loads, `detail` is the last line that it printed, and `progress` is from 0 to 1, or None if it is unknown.
    `error`, `hint`, `file`, `line` and `text`, the line itself, describe why new code failed; the code before it
    continues.
    """

    status: str
    reason: str = ""
    detail: str = ""
    progress: float | None = None
    error: str = ""
    hint: str = ""
    file: str = ""
    line: int | None = None
    text: str = ""

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Read a `reactor.reload`."""
        error = data.get("error") or {}
        return cls(
            str(data["status"]),
            _optional_text(data.get("reason")) or "",
            _optional_text(data.get("detail")) or "",
            data.get("progress"),
            _optional_text(error.get("message")) or "",
            _optional_text(error.get("hint")) or "",
            _optional_text(error.get("file")) or "",
            error.get("line"),
            _optional_text(error.get("text")) or "",
        )

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line) if part)
        return ": ".join(part for part in (self.status, self.reason, place, self.error) if part)


@dataclass(frozen=True, slots=True)
class Redirect:
    """Hold a worker's `url`, and the `ticket` that admits this client there once; `session` is the session to watch.

    `returning` is the secret that the client shows the front after the loss of the worker.
    """

    url: str
    ticket: str = field(repr=False)
    session: str | None = None
    returning: str | None = field(default=None, repr=False)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Read a `reactor.redirect`."""
        session, returning = _optional_text(data.get("session")), _optional_text(data.get("returning"))
        return cls(str(data["url"]), str(data["ticket"]), session, returning)


@dataclass(frozen=True, slots=True)
class Welcome:
    """The server's description of the model and of the session; `resume` and `upload_key` are secrets.

    With `shared` every client of the session may send events. A session with several `seats` is found by the code of
    its `room`; `seat` is the one that this client has, or watches. A session that is `stepped` makes the steps that its
    controller requests. `environment` names the message with the reward of a step.
    """

    model: str
    role: Role
    session: str | None
    contract: ModelContract
    state: Mapping[str, Any]
    limits: Mapping[str, Any]
    resume: str | None = field(default=None, repr=False)
    upload_key: str | None = field(default=None, repr=False)
    reload: ReloadNotice | None = None
    shared: bool = False
    encodings: tuple[str, ...] = ()
    stepped: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    seat: int = 0
    seats: int = 1
    room: str | None = None

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        for name in ("state", "limits", "environment"):
            if not isinstance(data.get(name, {}), Mapping):
                raise WireError(ErrorCode.INVALID_MESSAGE, f"a welcome whose {name} is no object")
        return cls(
            str(data["model"]),
            "controller" if data["role"] == "controller" else "viewer",
            _optional_text(data["session"]),
            ModelContract.from_data(data),
            data["state"],
            data.get("limits", {}),
            _optional_text(data.get("resume")),
            _optional_text(data.get("upload_key")),
            None if data.get("reload") is None else ReloadNotice.from_data(data["reload"]),
            data.get("shared") is True,
            tuple(map(str, data.get("encodings") or ())),
            data.get("generation") == "stepped",
            data.get("environment", {}),
            int(data.get("seat", 0)),
            int(data.get("seats", 1)),
            _optional_text(data.get("room")),
        )

    @property
    def max_text_bytes(self) -> int:
        """Return the size of the longest text message that the server accepts."""
        limit = self.limits.get("max_text_bytes")
        return limit if isinstance(limit, int) else MAX_TEXT_BYTES

    @property
    def max_media_bytes(self) -> int:
        """Return the size of the longest media file, with its header, that the server accepts."""
        limit = self.limits.get("max_media_bytes")
        return limit if isinstance(limit, int) else MAX_MEDIA_BYTES

    @property
    def resume_grace_s(self) -> float | None:
        """Return how long the server keeps the session of a broken connection; None if it does not."""
        grace_s = self.limits.get("resume_grace_s")
        return float(grace_s) if self.resume is not None and isinstance(grace_s, int | float) else None

    def watched_by(self, role: Role) -> str | None:
        """Return the session of another controller that a client watches while it waits for `role`."""
        return self.session if self.role != role else None

    def track(self, name: str | None, kind: str, direction: str) -> Track:
        """Return the track of this name, or the first of its kind. Raises `ValueError` that lists the tracks."""
        found = [track for track in self.contract.tracks if (track.kind, track.direction) == (kind, direction)]
        for track in found:
            if name in (None, track.name):
                return track
        names = ", ".join(track.name for track in found) or "none"
        wanted = f"no {kind} track" + (f" {name!r}" if name is not None else "")
        raise ValueError(
            f"{self.model} has {wanted} {'to receive' if direction == 'out' else 'to publish'}; there are: {names}"
        )


NO_WELCOME = Welcome("", "viewer", None, ModelContract((), {"events": {}, "messages": {}}), {}, {})


def write(type: str, data: Mapping[str, Any], id: int | None = None) -> str:
    """Return a message as text; NumPy's numbers and arrays become numbers and lists.

    Raises `TypeError` for a value that JSON cannot represent, and `ValueError` for NaN and infinity.
    """
    message: dict[str, Any] = {"type": type, "data": data}
    if id is not None:
        message["id"] = id
    return json.dumps(message, allow_nan=False, separators=(",", ":"), default=_plain)


def write_event(event: str, data: Mapping[str, Any], id: int | None = None, *, max_bytes: int) -> str:
    """Return an event as text. Raises `ValueError` for a reserved name and for too much text; see also `write`."""
    if event.startswith(RESERVED_PREFIX) or not event:
        raise ValueError(f'"{event}" is not an event of a model')
    text = write(event, data, id)
    if len(text) > max_bytes:
        raise ValueError(f"{event} with {len(text)} bytes of data: at most {max_bytes}; use upload() for a file")
    return text


def _plain(value: object) -> object:
    import numpy as np

    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"JSON cannot represent a {type(value).__name__}: {value!r:.60}")


def _optional_text(value: object) -> str | None:
    return None if value is None else str(value)
