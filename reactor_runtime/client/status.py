"""Where a client stands: on its way in, in line, with the model, coming back, or done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class Phase(StrEnum):
    """What a client is waiting for, if anything."""

    CONNECTING = "connecting"
    LOADING = "loading"
    WAITING = "waiting"  # a controller for its turn, a viewer for somebody who controls the model
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Status:
    """One moment of a client's way.

    `position` counts from 1 in a line of `length`. `detail` is a line for people: what the model prints while it loads,
    why the session ended. `notice` is what the server last said of the session (`ending`, `idle`, `away`,
    `resumed`, `stopping`), and `seconds` the time that leaves. `reason` is the wire's, once it has ended.
    """

    phase: Phase = Phase.CONNECTING
    session: str | None = None
    position: int | None = None
    length: int | None = None
    detail: str = ""
    notice: str = ""
    seconds: float | None = None
    reason: str = ""

    def noticed(self, data: Mapping[str, Any]) -> Status:
        """Return the status after a notice of the server's; a limit that is lifted takes its notice away."""
        seconds, notice = data.get("seconds"), str(data["phase"])
        seconds = float(seconds) if seconds is not None else None
        if notice in ("ending", "idle") and seconds is None:
            notice = ""
        return replace(self, notice=notice, seconds=seconds, detail=str(data.get("message", "")))

    def __str__(self) -> str:
        match self.phase:
            case Phase.WAITING if self.position is not None:
                return f"in line, {self.position} of {self.length}"
            case Phase.WAITING:
                return "waiting for a session"
            case Phase.CONNECTED:
                limit = "" if self.seconds is None else f", {self.seconds:.0f} s"
                return f"connected: {self.notice}{limit}" if self.notice else "connected"
            case Phase.ENDED:
                return f"ended: {self.detail or self.reason}"
        return f"{self.phase}: {self.detail}" if self.detail else str(self.phase)
