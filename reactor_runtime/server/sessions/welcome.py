"""What a client is told when it begins to see a session, and again when the session becomes its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.subscribers import Subscribers
from reactor_runtime.server.sessions.session import ServedSession
from reactor_runtime.server.sessions.turn import TurnLimits, TurnNotice
from reactor_runtime.server.workers.supervisor import EnginePhase
from reactor_runtime.wire.protocol import MAX_MEDIA_BYTES, MAX_TEXT_BYTES, MAX_UPLOAD_BYTES, SUBPROTOCOL
from reactor_runtime.wire.welcome import WelcomeMessage


class DescribedModel(Protocol):
    """What there is to tell of the model, and whether it is loaded."""

    phase: EnginePhase
    contract: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class WelcomeSender:
    """Welcome clients to the model of one server, and let them see what is shown from there on."""

    name_of: Callable[[Mapping[str, Any]], str]
    engine: DescribedModel
    subscribers: Subscribers
    limits: TurnLimits

    def send_welcome(self, client: Client, session: ServedSession | None) -> None:
        """Let a client see the session, as its controller or a viewer, once there is something to tell of the model."""
        contract = self.engine.contract
        if contract is None or self.engine.phase is not EnginePhase.READY:
            return
        controls = session is not None and session.controller is client
        welcome: WelcomeMessage = {
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
        }
        client.send_message("reactor.welcome", welcome)
        if session is not None:
            for notice, left_s in ((TurnNotice.ENDING, session.turn.left_s), (TurnNotice.AWAY, session.turn.away_s)):
                if left_s is not None:
                    client.send_message("reactor.session", {"phase": notice, "seconds": left_s})
        self.subscribers.join(client, controls=controls, held=session is not None)
