"""A model that hangs, told apart from one that is slow: its code doesn't give way for longer than a step may take."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType

from reactor_runtime.clock import Alarm, Clock
from reactor_runtime.ipc.messages import Heartbeat

logger = logging.getLogger(__name__)

LONGEST_ROUND_S = 5.0
WARN_S = 30.0
NO_IDS: Mapping[str, str] = MappingProxyType({})
GIL_HELD = "    (it holds the interpreter's lock: where, only the stack of a crash says)\n"


class Watchdog:
    """Ask the engine for its pulse in rounds, and add up those in which the model's code did not give way.

    Set `ending` while a session is to end: the engine itself says in the log where it is then, as long as it can.
    What the model awaits doesn't count, nor what somebody looks at in a debugger, nor rounds in which the server itself
    was held up: both processes may have been stopped with Ctrl-Z. A `step_timeout_s` of 0 only warns.
    """

    def __init__(
        self, clock: Clock, ask: Callable[[], None], step_timeout_s: float, ids: Mapping[str, str] = NO_IDS
    ) -> None:
        self.held_s = 0.0
        self.ending = False
        self._clock = clock
        self._ask = ask
        self._ids = ids
        self._step_timeout_s = step_timeout_s
        self._round_s = min(LONGEST_ROUND_S, step_timeout_s / 8) if step_timeout_s else LONGEST_ROUND_S
        self._warn_s = WARN_S
        self._pulse: Heartbeat | None = None

    def hear(self, pulse: Heartbeat) -> None:
        """Take the engine's answer."""
        self._pulse = pulse

    async def hung(self) -> str:
        """Wait until the model has been in one step for too long; says where it is, "" when it can't be asked."""
        alarm = Alarm(self._clock)
        while not self._step_timeout_s or self.held_s < self._step_timeout_s:
            self._pulse, began = None, self._clock.now()
            self._ask()
            await alarm.wait(began + self._round_s)
            self._add(self._clock.now() - began)
        return "" if self._pulse is None else self._pulse.where

    def _add(self, elapsed_s: float) -> None:
        held = self._pulse is None or self._pulse.held
        if not held or elapsed_s > 2 * self._round_s:
            self.held_s, self._warn_s = 0.0, WARN_S
            return
        self.held_s += elapsed_s
        if self.held_s < self._warn_s or self._step_timeout_s:
            return
        self._warn_s *= 2
        if self.ending and self._pulse is not None:
            return
        where = GIL_HELD if self._pulse is None else self._pulse.where
        said = self.held_s, where.rstrip("\n")
        logger.warning("the model has been in one step for %.0f s. It is here:\n%s", *said, extra=self._ids)
