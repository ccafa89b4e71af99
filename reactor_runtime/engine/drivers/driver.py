"""What every driver does and what it is made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from reactor_runtime.clock import Clock
from reactor_runtime.engine.dispatch import Dispatcher
from reactor_runtime.engine.drivers.connected import Connected
from reactor_runtime.engine.drivers.threads import Turns
from reactor_runtime.engine.inputs.inputs import Inputs
from reactor_runtime.engine.output.emitter import Emitter
from reactor_runtime.engine.output.sink import Sink
from reactor_runtime.engine.session import ModelSession


@dataclass(frozen=True, slots=True)
class DriverParts:
    """Hold what drivers use of the host.

    `failed` gets what the author's code raised without a session.
    """

    emitter: Emitter
    inputs: Inputs
    clock: Clock
    sink: Sink
    turns: Turns
    failed: Callable[[BaseException], object] = lambda _: None


class Driver(Protocol):
    """Serve the models of one authoring style, one session after the other; belongs to the model's thread."""

    reports_end: ClassVar[bool]
    """Whether the driver itself logs a session that does not end."""

    def dispatcher(self, session: ModelSession) -> Dispatcher:
        """Return a dispatcher for the events of `session`."""
        ...

    def stop(self, session: ModelSession) -> None:
        """Stop a session that is being served."""

    def start(self) -> None:
        """Start what lives as long as the model."""

    async def aclose(self) -> None:
        """Stop what lives as long as the model."""

    async def serve(self, session: ModelSession, dispatcher: Dispatcher, presence: Connected) -> None:
        """Serve one session until it is stopped or over; raise what the author's code raised to end it."""

    def stalled(self) -> str:
        """Return the stack of author's code in another thread that stood still since the last call, else ""."""
        ...
