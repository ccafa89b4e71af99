"""Seeds of the random number generators that a model may use, and their states where several sessions use them."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

# NumPy takes no larger seed.
MOST_SEEDS = 2**32


def seed_generators(seed: int) -> None:
    """Seed `random`, NumPy's global generator and, if it is imported, torch with its devices."""
    random.seed(seed)
    np.random.seed(seed)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)


class SharedGenerators:
    """Keep the states of the generators for each session of a shared model: none sees the numbers of another.

    A session has its numbers in its steps, handlers and hooks until these wait. The states are kept while a session
    runs that has a seed, since reading and setting them takes some 50 us. Belongs to the loop of the sessions.
    """

    def __init__(self) -> None:
        # The states of the sessions whose numbers are not drawn now.
        self._states: dict[str, list[Any]] = {}
        self._current = ""
        self._seeded: set[str] = set()

    def begin_session(self, session: str, seed: int) -> None:
        """Seed the generators for a session."""
        self._seeded.add(session)
        self.enter(session)
        seed_generators(seed)

    def end_session(self, session: str) -> None:
        """Forget a session; may be called for one without a seed."""
        self._seeded.discard(session)
        self._states.pop(session, None)
        if session == self._current:
            self._current = ""

    def enter(self, session: str) -> None:
        """Draw the numbers of this session from here on."""
        if session == self._current or not self._seeded:
            return
        self._states[self._current] = _states()
        if (states := self._states.pop(session, None)) is not None:
            _restore(states)
        self._current = session


def _states() -> list[Any]:
    torch: Any = sys.modules.get("torch")
    states: list[Any] = [random.getstate(), np.random.get_state()]
    if torch is not None:
        states.append(torch.get_rng_state())
        states.append(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [])
    return states


def _restore(states: list[Any]) -> None:
    for_random, for_numpy, *for_torch = states
    random.setstate(for_random)
    np.random.set_state(for_numpy)
    if for_torch:
        torch: Any = sys.modules["torch"]
        torch.set_rng_state(for_torch[0])
        for device, state in enumerate(for_torch[1]):
            torch.cuda.set_rng_state(state, device)
