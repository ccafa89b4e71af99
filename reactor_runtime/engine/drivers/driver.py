"""The interface of all drivers, and the objects that a driver is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from reactor_runtime.authoring.values.upload import NO_UPLOADS, UploadedFile
from reactor_runtime.clock import Clock
from reactor_runtime.engine.dispatch import ClientHooks, Dispatcher
from reactor_runtime.engine.drivers.connected import Connected
from reactor_runtime.engine.drivers.threads import ThreadTracker
from reactor_runtime.engine.inputs.inputs import Inputs
from reactor_runtime.engine.output.emitter import Emitter
from reactor_runtime.engine.output.sink import Sink
from reactor_runtime.engine.served import ServedModel
from reactor_runtime.engine.session import ModelSession, SessionStopped
from reactor_runtime.engine.session_state import SessionState


class CodeSwap(Protocol):
    """Replace the code of the model; a driver decides when, and reports how its first step went.

    `pending` is true while new code waits, `on_trial` until its first step has succeeded or failed, and `broken` while
    the model has no code that runs.
    """

    @property
    def pending(self) -> bool: ...

    @property
    def on_trial(self) -> bool: ...

    @property
    def broken(self) -> bool: ...

    def apply(self) -> None:
        """Apply the code that waits; the driver has ended all of the author's code that makes frames."""

    def step_made(self) -> None:
        """Keep the new code: its first step has succeeded."""

    def keep_session(self, error: BaseException) -> bool:
        """Return whether the session continues after an exception of the author's code.

        New code on trial has then been replaced by the old one. `broken` is true if none runs until the next.
        """
        ...


class NoSwap:
    """Never replace the code of the model."""

    pending = on_trial = broken = False

    def apply(self) -> None: ...

    def step_made(self) -> None: ...

    def keep_session(self, error: BaseException) -> bool:  # noqa: ARG002  (the signature of CodeSwap)
        return False


async def wait_for_code(
    swap: CodeSwap, session: ModelSession, dispatcher: Dispatcher, hooks: ClientHooks | None = None
) -> None:
    """Apply new code, and handle events until there is code that runs; raise SessionStopped if the session stops."""
    while True:
        if swap.pending:
            swap.apply()
        if not swap.broken:
            return
        if session.stopping:
            raise SessionStopped
        await dispatcher.run_waiting(hooks)
        await session.alarm.wait()


OnStep = Callable[[object, float], None]


@dataclass(frozen=True, slots=True)
class DriverParts:
    """Hold the parts of the host that drivers use; `failed` is called with exceptions raised outside of sessions.

    A driver whose models make steps calls `on_step` with what each has made and its duration by the clock `seconds`,
    and `on_handled` with what a handler has returned. `uploads` are the files that requests for steps may refer to.
    `crash` is called with such an exception of a model that has to be loaded again.
    """

    served: ServedModel
    emitter: Emitter
    inputs: Inputs
    clock: Clock
    sink: Sink
    state: SessionState
    threads: ThreadTracker
    failed: Callable[[BaseException], object] = lambda _: None
    crash: Callable[[BaseException], object] = lambda _: None
    swap: CodeSwap = field(default_factory=NoSwap)
    seconds: Callable[[], float] = lambda: 0.0
    on_step: OnStep = lambda _output, _seconds: None
    on_handled: Callable[[object], object] = lambda _: None
    uploads: Mapping[str, UploadedFile] = field(default_factory=lambda: NO_UPLOADS)


class Driver(Protocol):
    """Serve the models of one authoring style, one session after the other; belongs to the model's thread."""

    # The driver itself logs a session that does not end.
    reports_end: ClassVar[bool]
    # The author's code that makes the frames runs between sessions too, on the same instance.
    runs_between_sessions: ClassVar[bool]

    def dispatcher(self, session: ModelSession) -> Dispatcher:
        """Return a dispatcher for the events of `session`."""
        ...

    def swap_soon(self) -> None:
        """Apply the code that waits in `parts.swap` at the end of the current step."""

    def stop_session(self, session: ModelSession) -> None:
        """Stop a session that is being served."""

    def drop_requests(self) -> None:
        """Make no other requested step: the controller has gone."""

    def start(self) -> None:
        """Start the tasks that live as long as the model."""

    async def aclose(self) -> None:
        """Stop the tasks that live as long as the model."""

    async def serve_session(self, session: ModelSession, dispatcher: Dispatcher, connected: Connected) -> None:
        """Serve one session until it is stopped or over; raise the exception of the author's code that ended it.

        `session.crashed` is set before an exception after which the model has to be loaded again.
        """

    def stalled(self) -> str:
        """Return the stack of author's code that made no progress in another thread since the last call, else ""."""
        ...
