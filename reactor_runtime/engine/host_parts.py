"""The parts of the host of a loaded model and of its session hosts, and the host as a session host sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from reactor_runtime.clock import Clock
from reactor_runtime.engine.batch import Batch
from reactor_runtime.engine.capacity import CapacityReports, Memory
from reactor_runtime.engine.drivers.driver import OnStep
from reactor_runtime.engine.drivers.threads import ThreadTracker, UntrackedThreads
from reactor_runtime.engine.inputs.inputs import MakeBuffer, make_input_buffer
from reactor_runtime.engine.leaks import Leak
from reactor_runtime.engine.log_ids import LogIds
from reactor_runtime.engine.output.emitter import Lend, np_memory
from reactor_runtime.engine.output.sink import Sink
from reactor_runtime.engine.reload.reloader import LoadingHost, ReloadSettings
from reactor_runtime.engine.seeds import SharedGenerators
from reactor_runtime.engine.served import ServedModel
from reactor_runtime.engine.session_log import SessionLogs
from reactor_runtime.engine.step_turns import StepTurns
from reactor_runtime.engine.trace import TraceRecorder
from reactor_runtime.ipc.credits import CreditReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlet:
    """Hold where the output of one session host goes.

    `lend` returns memory that the server reads, `credits` takes the credits that come by shared memory. `logs` makes
    the log of each session.
    """

    sink: Sink
    lend: Lend = np_memory
    credits: CreditReader | None = None
    trace: TraceRecorder | None = None
    logs: SessionLogs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostParts:
    """Hold what the host of a model and its session hosts share.

    `failed` is called with each exception of the author's code, `threads` at the start and end of work in the author's
    threads. `ids` receives the log fields of the sessions. `seconds` measures the first step if `clock` stands still
    during steps. With `reload` a reloader replaces the code of the model. `make_buffer` makes the buffers of input
    tracks. `on_step` is called with what each step of a generator has made, and with its duration by `seconds`;
    `on_handled` with what a handler of such a model has returned. `read_memory` returns the memory in use and free, by
    kind. With `is_replay`, for events that were applied before, no value is moderated, and no upload adds an event.
    """

    clock: Clock
    project: Path
    failed: Callable[[BaseException], object] = lambda _: None
    threads: ThreadTracker = field(default_factory=UntrackedThreads)
    ids: LogIds = field(default_factory=LogIds)
    seconds: Callable[[], float] | None = None
    reload: ReloadSettings | None = None
    make_buffer: MakeBuffer = make_input_buffer
    on_step: OnStep = lambda _output, _seconds: None
    on_handled: Callable[[object], object] = lambda _: None
    read_memory: Callable[[], Mapping[str, Memory]] = dict
    works_ahead: bool = True
    is_replay: bool = False


class ModelHost(LoadingHost, Protocol):
    """The host of the loaded model, as its session hosts see it."""

    served: ServedModel
    # None for a model that serves one session at a time.
    step_turns: StepTurns | None
    generators: SharedGenerators | None
    capacity: CapacityReports | None
    # None for a model without `batch()`.
    batch: Batch | None

    @property
    def crashed(self) -> bool:
        """Return whether no other session may start with this model."""

    @property
    def lost(self) -> BaseException | None:
        """Return why the model can't be served any longer; None while it can."""

    def crash(self, error: BaseException) -> None:
        """Serve no other session with this model, and end those that run, because of this exception."""

    def begin_session(self, slot: int) -> None:
        """Count a session that starts."""

    def end_session(self, slot: int) -> Sequence[Leak]:
        """Count a session that has ended; return the kinds of resources that keep growing."""
        ...
