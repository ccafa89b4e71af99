"""The statistics of a server for its operator: one line about all sessions."""

from __future__ import annotations

from statistics import fmean

from reactor_runtime.clock import Clock
from reactor_runtime.server.options import LoadingProgress, ServerStatistics
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.engine_slot import EngineSlot
from reactor_runtime.server.workers.engine import EnginePhase


class Summary:
    """Make statistics on demand, with the steps since the last ones; belongs to the server's loop."""

    def __init__(self, admission: Admission[EngineSlot], clock: Clock) -> None:
        self._admission = admission
        self._clock = clock
        self._steps, self._step_s = 0, 0.0

    def read(self) -> ServerStatistics:
        """Return the statistics; the rate is that of one session, the average of all that run."""
        slots = self._admission.slots
        sessions = [slot.session for slot in slots if slot.session is not None]
        only = sessions[0] if len(sessions) == 1 else None
        each = [slot.statistics() for slot in slots]
        late = [one.late_ms for one in each if one.late_ms is not None]
        memory = [one.memory_bytes for one in each if one.memory_bytes is not None]
        rates = [one.fps for one in each if one.fps is not None]
        return ServerStatistics(
            loading=self._loading(),
            fps=fmean(rates) if rates else None,
            step_ms=self._step_ms(),
            late_ms=max(late, default=None),
            clients=len(self._admission.all_clients()),
            sessions=len(sessions),
            slots=len(slots),
            session="" if only is None else only.id,
            session_s=self._clock.now() - only.started_at if only is not None and only.started_at else 0.0,
            memory_bytes=sum(memory) if memory else None,
        )

    def _step_ms(self) -> float | None:
        """Return how long the steps since the last statistics took."""
        metrics = self._admission.settings.metrics
        steps, step_s = metrics.step_s.count, metrics.step_s.sum
        made_steps, made_step_s = steps - self._steps, step_s - self._step_s
        self._steps, self._step_s = steps, step_s
        return 1e3 * made_step_s / made_steps if made_steps else None

    def _loading(self) -> LoadingProgress | None:
        slots = self._admission.slots
        loading = [slot for slot in slots if slot.engine.phase is EnginePhase.LOADING]
        if slots.ready_count or not loading:
            return None
        slot = max(loading, key=lambda slot: slot.engine.loading_s)
        engine = slot.engine
        return LoadingProgress(engine.loading_s, engine.detail, slot.number, len(slots), engine.progress)
