"""Sends clients in the wait queue their positions: at a bounded rate, however many wait."""

from __future__ import annotations

from collections.abc import Callable

from reactor_runtime.clock import Clock, Timer
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.sessions.wait_estimate import WaitEstimate
from reactor_runtime.server.sessions.wait_queue import WaitQueue

MOST_AT_ONCE = 16
PASS_S = 1.0
SLICE = 20
SLICE_S = 0.02


class QueuePositions:
    """Send each waiting client its position when that, or the length of the queue, has changed.

    A position comes with the time that `estimate()` gives it, as far as that is known, and with the `reason()` why no
    slot is free, if there is another than that all have a session.

    While at most 16 clients wait, they get each change at once. In a longer queue they get it in a pass, at most one
    pass a second and 1,000 clients a second: messages to thousands at each change would hold up the event loop.
    """

    def __init__(
        self,
        wait_queue: WaitQueue[Client],
        clock: Clock,
        estimate: Callable[[], WaitEstimate | None] = lambda: None,
        reason: Callable[[], str] = lambda: "",
    ) -> None:
        self._wait_queue = wait_queue
        self._clock = clock
        self._estimate = estimate
        self._reason = reason
        self._sent: dict[Client, tuple[int, int, bool]] = {}
        self._pass_at = clock.now()
        self._pass_timer: Timer | None = None
        self._changed = False

    def send_changes(self) -> None:
        """Send clients their changed positions, now or in the next pass."""
        self._changed = True
        self._start_pass()

    def send_position(self, position: int) -> None:
        """Send the client at a position this position now, unless it has it."""
        self._send_range(position - 1, position)

    def forget(self, client: Client) -> None:
        """Forget what a client was sent: it waits no more."""
        self._sent.pop(client, None)

    def _start_pass(self) -> None:
        if len(self._wait_queue.waiting) <= MOST_AT_ONCE:
            self._changed = False
            self._send_range(0, MOST_AT_ONCE)
        elif self._changed and self._pass_timer is None:
            self._changed = False
            at = max(self._pass_at, self._clock.now())
            self._pass_at = at + PASS_S
            self._pass_timer = self._clock.call_at(at, lambda: self._send_slice(0))

    def _send_slice(self, start: int) -> None:
        end = start + SLICE
        self._send_range(start, end)
        if end < len(self._wait_queue.waiting):
            self._pass_timer = self._clock.call_at(self._clock.now() + SLICE_S, lambda: self._send_slice(end))
        else:
            self._pass_timer = None
            # A client that moved up meanwhile may have been passed over.
            self._start_pass()

    def _send_range(self, start: int, end: int) -> None:
        waiting = self._wait_queue.waiting
        estimate, reason = (self._estimate(), self._reason()) if waiting else (None, "")
        for position, client in enumerate(waiting[start:end], start=start + 1):
            place = position, len(waiting), bool(reason)
            if self._sent.get(client) != place:
                self._sent[client] = place
                wait = {} if estimate is None else {"wait_s": round(estimate.wait_s(position), 1)}
                why = {"reason": reason} if reason else {}
                client.send_message("reactor.queue", {"position": position, "length": len(waiting), **wait, **why})
