"""What a client is told when it begins to see a session, and again when the session becomes its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from reactor_runtime.server.audience import Audience
from reactor_runtime.server.connection import Connection, Role
from reactor_runtime.server.session import Session
from reactor_runtime.server.supervisor import EnginePhase
from reactor_runtime.server.turn import TurnLimits, TurnNotice
from reactor_runtime.wire.protocol import MAX_MEDIA_BYTES, MAX_TEXT_BYTES, MAX_UPLOAD_BYTES, SUBPROTOCOL


class Described(Protocol):
    """What there is to tell of the model, and whether it is loaded."""

    phase: EnginePhase
    contract: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Greeter:
    """Welcome clients to the model of one server, and let them see what is shown from there on."""

    name_of: Callable[[Mapping[str, Any]], str]
    engine: Described
    audience: Audience
    limits: TurnLimits

    def greet(self, connection: Connection, session: Session | None) -> None:
        """Let a client see the session, as its controller or a viewer, once there is something to tell of the model."""
        contract = self.engine.contract
        if contract is None or self.engine.phase is not EnginePhase.READY:
            return
        controls = session is not None and session.controller is connection
        connection.tell(
            "reactor.welcome",
            {
                "protocol": SUBPROTOCOL,
                "session": None if session is None else session.id,
                "role": Role.CONTROLLER if controls else Role.VIEWER,
                "model": self.name_of(contract),
                "tracks": contract["tracks"],
                "schema": contract["schema"],
                "state": {} if session is None else session.state,
                "resume": session.resume_secret if controls and session is not None else None,
                "upload_key": session.upload_key if controls and session is not None else None,
                "limits": {
                    "max_text_bytes": MAX_TEXT_BYTES,
                    "max_media_bytes": MAX_MEDIA_BYTES,
                    "max_upload_bytes": MAX_UPLOAD_BYTES,
                    "max_session_s": self.limits.max_session_s or None,
                    "idle_timeout_s": self.limits.idle_timeout_s or None,
                    "resume_grace_s": self.limits.resume_grace_s or None,
                },
            },
        )
        if session is not None:
            for notice, left_s in ((TurnNotice.ENDING, session.turn.left_s), (TurnNotice.AWAY, session.turn.away_s)):
                if left_s is not None:
                    connection.tell("reactor.session", {"phase": notice, "seconds": left_s})
        self.audience.join(connection, controls=controls, held=session is not None)
