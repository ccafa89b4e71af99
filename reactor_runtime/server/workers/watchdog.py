"""Detects a model that hangs: its code blocks the engine's main thread for longer than a step may take."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from reactor_runtime.clock import Alarm, Clock
from reactor_runtime.ipc.messages import Heartbeat

logger = logging.getLogger(__name__)

LONGEST_ROUND_S = 5.0
WARN_S = 30.0
# On a busy machine so many answers may be late.
MOST_SILENT_ROUNDS = 2
GIL_HELD = "    (the model holds the interpreter lock: its stack is known only after a crash)\n"


class Watchdog:
    """Request a heartbeat in each round, and add up the rounds in which the model's code blocked the main thread.

    These do not count: time in which the model awaits, time in a debugger, and rounds in which the server itself was
    suspended, since Ctrl-Z stops both processes. With a `step_timeout_s` of 0 the watchdog only warns. `ending` has
    the slots whose session ends: the engine logs its own stack then, as long as it responds.
    """

    def __init__(
        self,
        clock: Clock,
        request_heartbeat: Callable[[], None],
        step_timeout_s: float,
        ids: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.blocked_s = 0.0
        self.ending: set[int] = set()
        self._clock = clock
        self._request_heartbeat = request_heartbeat
        self._ids = ids
        self._step_timeout_s = step_timeout_s
        self._round_s = min(LONGEST_ROUND_S, step_timeout_s / 8) if step_timeout_s else LONGEST_ROUND_S
        self._warn_s = WARN_S
        self._heartbeat: Heartbeat | None = None
        # The newest stack of this step, and the rounds since then in which the engine has not answered.
        self._where = ""
        self._silent_rounds = 0

    def record_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Keep the engine's answer for the end of the round."""
        self._heartbeat = heartbeat

    async def wait_for_hang(self) -> str:
        """Wait until the model has been in one step for too long; return its stack, "" when the engine is silent."""
        alarm = Alarm(self._clock)
        while not self._step_timeout_s or self.blocked_s < self._step_timeout_s:
            self._heartbeat, began = None, self._clock.now()
            self._request_heartbeat()
            await alarm.wait(began + self._round_s)
            self._add_round(self._clock.now() - began)
        return self._where if self._silent_rounds <= MOST_SILENT_ROUNDS else ""

    def _add_round(self, elapsed_s: float) -> None:
        blocked = self._heartbeat is None or self._heartbeat.blocked
        if not blocked or elapsed_s > 2 * self._round_s:
            self.blocked_s, self._warn_s = 0.0, WARN_S
            self._where, self._silent_rounds = "", 0
            return
        self.blocked_s += elapsed_s
        if self._heartbeat is None:
            self._silent_rounds += 1
        else:
            self._where, self._silent_rounds = self._heartbeat.where, 0
        if self.blocked_s < self._warn_s or self._step_timeout_s:
            return
        self._warn_s *= 2
        if self.ending and self._heartbeat is not None:
            return
        where = GIL_HELD if self._heartbeat is None else self._heartbeat.where
        logger.warning(
            "the model has been in one step for %.0f s. It is here:\n%s",
            self.blocked_s,
            where.rstrip("\n"),
            extra=self._ids(),
        )
