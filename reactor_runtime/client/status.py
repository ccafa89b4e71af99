"""The status of a client: connecting, waiting, connected, reconnecting or ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class Phase(StrEnum):
    """The phase of a client. `WAITING`: a controller waits for its turn, a viewer for a session to watch."""

    CONNECTING = "connecting"
    LOADING = "loading"
    WAITING = "waiting"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Status:
    """The phase of a client and its details.

    `position` counts from 1 in a wait queue of `length`. `detail` is a line for people: the output of the model while
    it loads, why it has to wait, or the reason of the end. `notice` is the server's last notice about the session
    (`ending`, `idle`, `away`, `resumed`, `stopping`), and `seconds` the time left. `reason` is the reason on the wire
    of an ended session; it is `lost`, with a `detail`, in the wait queue after the machine of the session failed.
    `progress` is how far the model has loaded, from 0 to 1, None if it is unknown.
    """

    phase: Phase = Phase.CONNECTING
    session: str | None = None
    position: int | None = None
    length: int | None = None
    detail: str = ""
    notice: str = ""
    seconds: float | None = None
    reason: str = ""
    progress: float | None = None

    def with_position(self, data: Mapping[str, Any], watched: str | None) -> Status:
        """Return the status at a position in the wait queue; the reason of a session that was lost stays."""
        lost = self.phase is Phase.WAITING and self.reason == "lost"
        reason = str(data.get("reason", ""))
        status = Status(Phase.WAITING, watched, int(data["position"]), int(data["length"]), detail=reason)
        return replace(status, detail=self.detail, reason=self.reason) if lost else status

    def with_notice(self, data: Mapping[str, Any]) -> Status:
        """Return the status after a notice of the server; a notice without seconds removes `ending` and `idle`."""
        seconds, notice = data.get("seconds"), str(data["phase"])
        seconds = float(seconds) if seconds is not None else None
        if notice in ("ending", "idle") and seconds is None:
            notice = ""
        return replace(self, notice=notice, seconds=seconds, detail=str(data.get("message", "")))

    def __str__(self) -> str:
        match self.phase:
            case Phase.LOADING if self.progress is not None:
                return f"loading, {self.progress:.0%}: {self.detail}"
            case Phase.WAITING if self.position is not None:
                reason = f": {self.detail}" if self.detail else ""
                return f"in the wait queue, {self.position} of {self.length}{reason}"
            case Phase.WAITING if self.reason == "lost":
                return f"waiting: {self.detail}"
            case Phase.WAITING:
                return "waiting for a session"
            case Phase.CONNECTED:
                limit = "" if self.seconds is None else f", {self.seconds:.0f} s"
                return f"connected: {self.notice}{limit}" if self.notice else "connected"
            case Phase.ENDED:
                return f"ended: {self.detail or self.reason}"
        return f"{self.phase}: {self.detail}" if self.detail else str(self.phase)
