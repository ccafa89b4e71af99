"""Seeds of the random number generators that a model may use, and their states where several sessions use them."""

from __future__ import annotations

import functools
import random
import secrets
import sys
import types
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

import numpy as np
from numpy.random import mtrand

T = TypeVar("T")

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

    A session has its numbers in its steps, handlers and hooks, but not in tasks that these start. The states are kept
    while a session runs that has a seed, since reading and setting them takes some 20 us. Belongs to the loop of the
    sessions.
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
        else:
            mtrand.set_bit_generator(MT19937())
            seed_generators(secrets.randbelow(MOST_SEEDS))
        self._current = session


@types.coroutine
def resumed_by(resume: Callable[[], object], work: Awaitable[T]) -> Generator[Any, None, T]:
    """Await `work`; call `resume` when it starts, and each time it continues after a wait."""
    parts = work.__await__()
    continue_work: Callable[[], Any] = parts.__next__
    while True:
        resume()
        try:
            waited_for = continue_work()
        except StopIteration as ended:
            result: T = ended.value
            return result
        try:
            # The loop sends nothing back.
            yield waited_for
        # It is raised in `work`.
        except BaseException as error:  # noqa: BLE001
            continue_work = functools.partial(parts.throw, error)
        else:
            continue_work = parts.__next__


# A descriptor, where the types of NumPy have a property.
_STATE: Any = vars(np.random.MT19937)["state"]


# NumPy writes the name of the class into the states.
class MT19937(np.random.MT19937):
    """Make the bits of NumPy's global generator in one session.

    A session's object takes the place of another's: NumPy takes ten times as long to read and set a state as `random`.
    While `hides_bits`, `state` leaves out the bits, so that NumPy copies only the second normal number.
    """

    hides_bits = False

    @property
    def state(self) -> Any:
        return {"bit_generator": "MT19937", "state": {}} if self.hides_bits else _STATE.__get__(self)

    @state.setter
    def state(self, value: Any) -> None:
        if not self.hides_bits:
            _STATE.__set__(self, value)


def _numpy_state() -> tuple[Any, Any]:
    """Return the object that makes the bits, and the state of NumPy's global generator, without that of our objects."""
    bits = mtrand.get_bit_generator()
    if not isinstance(bits, MT19937):
        return bits, np.random.get_state(legacy=False)
    bits.hides_bits = True
    state = np.random.get_state(legacy=False)
    bits.hides_bits = False
    return bits, state


def _restore_numpy(bits: Any, state: Any) -> None:
    mtrand.set_bit_generator(bits)
    if not isinstance(bits, MT19937):
        np.random.set_state(state)
        return
    bits.hides_bits = True
    np.random.set_state(state)
    bits.hides_bits = False


def _states() -> list[Any]:
    torch: Any = sys.modules.get("torch")
    states: list[Any] = [random.getstate(), _numpy_state()]
    if torch is not None:
        states.append(torch.get_rng_state())
        states.append(torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [])
    return states


def _restore(states: list[Any]) -> None:
    for_random, for_numpy, *for_torch = states
    random.setstate(for_random)
    _restore_numpy(*for_numpy)
    if for_torch:
        torch: Any = sys.modules["torch"]
        torch.set_rng_state(for_torch[0])
        for device, state in enumerate(for_torch[1]):
            torch.cuda.set_rng_state(state, device)
