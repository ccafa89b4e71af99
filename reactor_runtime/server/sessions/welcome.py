"""The `reactor.welcome` message: the only place that builds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from reactor_runtime.server.delivery.client import Role
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.sessions.session import ServedSession
from reactor_runtime.wire.protocol import MAX_MEDIA_BYTES, MAX_TEXT_BYTES, MAX_UPLOAD_BYTES, SUBPROTOCOL
from reactor_runtime.wire.reload import ReloadMessage
from reactor_runtime.wire.welcome import WelcomeMessage


def welcome_message(
    session: ServedSession | None,
    contract: dict[str, Any],
    *,
    model: str,
    client: str,
    controls: bool,
    seat: int = 0,
    seats: int = 1,
    room: str | None = None,
    shared: bool = False,
    limits: TurnLimits,
    encodings: Sequence[str],
    environment: Mapping[str, str] = MappingProxyType({}),
    reload: ReloadMessage | None = None,
) -> WelcomeMessage:
    """Return the data of the welcome to a session, or to a model without one; `client` is the id of the receiver.

    Only a client that `controls` the session gets the secret to resume it, and a key for uploads; with `shared` every
    client of the session gets a key. `seat` is the one that the receiver has or watches, `room` the code that it may
    know.
    """
    controlled = session if controls else None
    known_as = client if controlled is None else controlled.seats[seat].client_id
    return {
        "protocol": SUBPROTOCOL,
        "session": None if session is None else session.id,
        "client": client,
        "role": Role.CONTROLLER if controls else Role.VIEWER,
        "seat": seat,
        "seats": seats,
        "room": room,
        "model": model,
        "tracks": contract["tracks"],
        "schema": contract["schema"],
        "state": {} if session is None else session.state_in(seat),
        "resume": None if controlled is None else controlled.seats[seat].resume_secret,
        "upload_key": session.uploads.key_of(known_as) if session is not None and (controls or shared) else None,
        "generation": "stepped" if session is not None and session.stepped else "realtime",
        "environment": dict(environment),
        "shared": shared,
        "limits": {
            "max_text_bytes": MAX_TEXT_BYTES,
            "max_media_bytes": MAX_MEDIA_BYTES,
            "max_upload_bytes": MAX_UPLOAD_BYTES,
            "max_session_s": limits.max_session_s or None,
            "idle_timeout_s": limits.idle_timeout_s or None,
            "resume_grace_s": limits.resume_grace_s or None,
        },
        "encodings": encodings,
        "reload": reload,
    }
