"""What the server says of the model and of the session, first of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from reactor_runtime.client.address import Role
from reactor_runtime.client.message import Track
from reactor_runtime.error_codes import ErrorCode
from reactor_runtime.errors import WireError
from reactor_runtime.wire.protocol import MAX_MEDIA_BYTES, MAX_TEXT_BYTES


@dataclass(frozen=True, slots=True)
class Welcome:
    """The model's name, tracks, events and messages; the session's id, its secret and the key of its uploads."""

    model: str
    role: Role
    session: str | None
    tracks: tuple[Track, ...]
    schema: Mapping[str, Any]
    state: Mapping[str, Any]
    limits: Mapping[str, Any]
    resume: str | None = field(default=None, repr=False)
    upload_key: str | None = field(default=None, repr=False)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        for name in ("schema", "state", "limits"):
            if not isinstance(data.get(name, {}), Mapping):
                raise WireError(ErrorCode.INVALID_MESSAGE, f"a welcome whose {name} is no object")
        return cls(
            str(data["model"]),
            "controller" if data["role"] == "controller" else "viewer",
            _text(data["session"]),
            tuple(Track.from_data(track) for track in data["tracks"]),
            data["schema"],
            data["state"],
            data.get("limits", {}),
            _text(data.get("resume")),
            _text(data.get("upload_key")),
        )

    @property
    def max_text_bytes(self) -> int:
        """The longest message the server takes."""
        most = self.limits.get("max_text_bytes")
        return most if isinstance(most, int) else MAX_TEXT_BYTES

    @property
    def max_media_bytes(self) -> int:
        """The longest file the server takes as a picture or a piece of sound, with its header."""
        most = self.limits.get("max_media_bytes")
        return most if isinstance(most, int) else MAX_MEDIA_BYTES

    @property
    def resume_grace_s(self) -> float | None:
        """How long the server keeps the session of a connection that broke; None when it doesn't."""
        grace_s = self.limits.get("resume_grace_s")
        return float(grace_s) if self.resume is not None and isinstance(grace_s, int | float) else None

    def watched_by(self, role: Role) -> str | None:
        """The session of somebody else that a client sees while it waits for this role."""
        return self.session if self.role != role else None

    def track(self, name: str | None, kind: str, direction: str) -> Track:
        """Find a track by name, or the first of its kind. Raises `ValueError` that lists those there are."""
        found = [track for track in self.tracks if (track.kind, track.direction) == (kind, direction)]
        for track in found:
            if name in (None, track.name):
                return track
        there = ", ".join(track.name for track in found) or "none"
        wanted = f"no {kind} track" + (f" {name!r}" if name is not None else "")
        raise ValueError(
            f"{self.model} has {wanted} {'to receive' if direction == 'out' else 'to publish'}; there are: {there}"
        )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


NO_WELCOME = Welcome("", "viewer", None, (), {"events": {}, "messages": {}}, {}, {})
