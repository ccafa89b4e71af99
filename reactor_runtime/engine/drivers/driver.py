"""The interface of all drivers, and the objects that a driver is made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from reactor_runtime.clock import Clock
from reactor_runtime.engine.dispatch import Dispatcher
from reactor_runtime.engine.drivers.connected import Connected
from reactor_runtime.engine.drivers.threads import ThreadTracker
from reactor_runtime.engine.inputs.inputs import Inputs
from reactor_runtime.engine.output.emitter import Emitter
from reactor_runtime.engine.output.sink import Sink
from reactor_runtime.engine.session import ModelSession
from reactor_runtime.engine.session_state import SessionState


@dataclass(frozen=True, slots=True)
class DriverParts:
    """Hold the parts of the host that drivers use; `failed` is called with exceptions raised outside of sessions."""

    emitter: Emitter
    inputs: Inputs
    clock: Clock
    sink: Sink
    state: SessionState
    threads: ThreadTracker
    failed: Callable[[BaseException], object] = lambda _: None


class Driver(Protocol):
    """Serve the models of one authoring style, one session after the other; belongs to the model's thread."""

    # The driver itself logs a session that does not end.
    reports_end: ClassVar[bool]

    def dispatcher(self, session: ModelSession) -> Dispatcher:
        """Return a dispatcher for the events of `session`."""
        ...

    def stop_session(self, session: ModelSession) -> None:
        """Stop a session that is being served."""

    def start(self) -> None:
        """Start the tasks that live as long as the model."""

    async def aclose(self) -> None:
        """Stop the tasks that live as long as the model."""

    async def serve_session(self, session: ModelSession, dispatcher: Dispatcher, connected: Connected) -> None:
        """Serve one session until it is stopped or over; raise the exception of the author's code that ended it."""

    def stalled(self) -> str:
        """Return the stack of author's code that made no progress in another thread since the last call, else ""."""
        ...
