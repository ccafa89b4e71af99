"""`batch()` of a model: one generator makes a step of several sessions at a time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Generator
from types import FrameType, GeneratorType
from typing import Any, Protocol, Self

from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.styles.pipeline import is_idle
from reactor_runtime.clock import Clock, Timer
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.engine.step_turns import call_settled

# How long a batch waits for requests that are on their way: a share of the last step, and at most some milliseconds.
REQUESTS_SHARE = 0.25
REQUESTS_S = 0.005


class BatchMember(Protocol):
    """The steps of a session that are made in batches.

    `sessions` is set to how many paced sessions got frames in its last batch, at least 1.
    """

    sessions: int

    @property
    def session(self) -> object: ...

    @property
    def stepped(self) -> bool:
        """Return whether the session makes steps on request."""

    @property
    def model(self) -> Model: ...

    def wake(self) -> None:
        """Have the session look again when its next step starts."""


class Batch:
    """Make the steps of the sessions that ask for one, all at once; belongs to the loop of the sessions.

    When one asks, the others are woken, and ask too if their step would start within `window_s`, the duration of a
    frame: sessions of one rate whose steps make single frames are always in the same batch. A stepped session waits a
    moment for the requests of those that were stepped in the last batch, because a client that steps several sends them
    one after the other. `served` has the loaded model. An exception of the author's code is raised in each session of
    the batch, and the generator starts again with the next one.
    """

    def __init__(self, served: ServedModel, clock: Clock) -> None:
        self.window_s = 0.0
        self._served = served
        self._clock = clock
        self._members: set[BatchMember] = set()
        self._asked: dict[BatchMember, asyncio.Future[object]] = {}
        # The list that the author's generator has.
        self._sessions: list[Model] = []
        self._generator: Generator[Any, None, Any] | None = None
        self._version: Version | None = None
        # When the first session asked for the batch that is gathered, or else for the last one.
        self._began = 0.0
        # When each session's last step began, plus the duration of its frames; 0 if it had none or is stepped.
        self._shown_until: dict[object, float] = {}
        # The stepped sessions of the last batch, how long its step took, and what ends the wait for their requests.
        self._stepped: set[BatchMember] = set()
        self._step_s = 0.0
        self._timer: Timer | None = None

    @classmethod
    def of(cls, served: ServedModel, clock: Clock) -> Self | None:
        """Return the batches of a loaded model; None if it has no `batch()`."""
        return cls(served, clock) if served.contract.style.frames_method == "batch" else None

    @property
    def frame(self) -> FrameType | None:
        """Return the frame of the author's generator."""
        return self._generator.gi_frame if isinstance(self._generator, GeneratorType) else None

    def step_at(self, session: object, at: float) -> float:
        """Return when a step starts that would start at `at` by itself: at once, if a batch is gathered with it.

        The first step of a session waits for the next batch of those that play. So does a step that should have begun
        more than a frame before the last batch did, if the next one begins within a frame.
        """
        if self._asked:
            return 0.0 if at <= self._began + self.window_s else at
        others = [until for other, until in self._shown_until.items() if other is not session]
        if not any(others) or not self._shown_until.get(session, math.inf):
            return at
        next_at = max(self._shown_until.values())
        is_late = 0.0 < at < self._began - self.window_s and next_at <= self._clock.now() + self.window_s
        return max(at, next_at) if is_late or at == -math.inf else at

    def add_step(self, session: object, shown_until: float) -> None:
        """Note when the frames of a session's step are over; 0 if the step made none, or the session is stepped."""
        self._shown_until[session] = shown_until

    def open(self, member: BatchMember) -> None:
        """Add a session."""
        self._members.add(member)

    def close(self, member: BatchMember) -> None:
        """Remove a session; the generator ends with the last one."""
        self._members.discard(member)
        self._shown_until.pop(member.session, None)
        self._asked.pop(member, None)
        self._stepped.discard(member)
        if self._timer is not None and not self._missing:
            self._make_soon()
        if not self._members and self._generator is not None:
            generator, self._generator = self._generator, None
            generator.close()

    async def make_step(self, member: BatchMember, now: float) -> object:
        """Return the output of a session in the next batch."""
        loop = asyncio.get_running_loop()
        is_first = not self._asked
        made = self._asked[member] = loop.create_future()
        if is_first:
            self._began = now
            if member.stepped and self._missing:
                wait_s = min(REQUESTS_S, REQUESTS_SHARE * self._step_s)
                self._timer = self._clock.call_at(now + wait_s, self._make_soon)
            else:
                self._make_soon()
            for other in self._members - {member}:
                other.wake()
        elif self._timer is not None and not self._missing:
            self._make_soon()
        return await made

    @property
    def _missing(self) -> bool:
        """Return whether a stepped session of the last batch has not asked yet."""
        return not self._stepped <= self._asked.keys()

    def _make_soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Those that are woken need another iteration to ask.
        asyncio.get_running_loop().call_soon(call_settled, self._make_asked)

    def _make_asked(self) -> None:
        # A session may have been cancelled.
        asked = {member: made for member, made in self._asked.items() if not made.done()}
        self._asked = {}
        if asked:
            began = self._clock.now()
            self._make(asked)
            self._step_s = self._clock.now() - began
            self._stepped = {member for member in asked if member.stepped and member in self._members}

    def _make(self, asked: dict[BatchMember, asyncio.Future[object]]) -> None:
        failure: BaseException
        try:
            outputs = self._next([member.model for member in asked])
        except StopIteration:
            failure = StopAsyncIteration()
        except StopAsyncIteration as error:
            failure = RuntimeError("the model raised StopAsyncIteration")
            failure.__cause__ = error
        # The sessions raise it.
        except BaseException as error:  # noqa: BLE001
            failure = error
        else:
            playing = sum(
                not member.stepped and not is_idle(output) for member, output in zip(asked, outputs, strict=True)
            )
            for (member, made), output in zip(asked.items(), outputs, strict=True):
                member.sessions = max(1, playing)
                made.set_result(output)
            return
        self._generator = None
        for made in asked.values():
            made.set_exception(failure)

    def _next(self, sessions: list[Model]) -> list[object]:
        """Make a step of these sessions; raise StopIteration if the generator has ended."""
        self._sessions[:] = sessions
        if self._generator is None or self._version is not self._served.version:
            self._version = self._served.version
            author: Any = self._version.model
            self._generator = author.batch(self._sessions)
        outputs: Any = next(self._generator)
        if not isinstance(outputs, list | tuple) or len(outputs) != len(sessions):
            got = f"{len(outputs)} of them" if isinstance(outputs, list | tuple) else type(outputs).__name__
            raise TypeError(f"batch() yields a list with an output for each of the {len(sessions)} sessions, not {got}")
        return list(outputs)
