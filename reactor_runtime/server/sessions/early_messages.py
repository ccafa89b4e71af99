"""What clients send to a session before the engine has started it."""

from __future__ import annotations

from typing import TypeAlias

from reactor_runtime.ipc import messages as ipc
from reactor_runtime.wire.codec import size_bytes_of

MOST_EARLY = 100
MOST_EARLY_BYTES = 4 << 20

EarlyMessage: TypeAlias = ipc.ClientEvent | ipc.StepRequest | ipc.ClientMedia


class EarlyMessages:
    """Keep messages in their order: events and requests for steps within the limits, the newest media of each track."""

    def __init__(self) -> None:
        self._messages: list[EarlyMessage] = []

    def put(self, message: EarlyMessage) -> bool:
        """Keep a message; return False for one beyond 100 events and requests, or 4 MiB of them."""
        others, media = self._messages, ipc.ClientMedia
        if isinstance(message, media):
            self._messages = [each for each in others if not (isinstance(each, media) and each.track == message.track)]
        else:
            sizes = [size_bytes_of(each.data_json) for each in (*others, message) if not isinstance(each, media)]
            if len(sizes) > MOST_EARLY or sum(sizes) > MOST_EARLY_BYTES:
                return False
        self._messages.append(message)
        return True

    def take_all(self) -> list[EarlyMessage]:
        """Remove all messages, and return them."""
        taken, self._messages = self._messages, []
        return taken
