"""The control socket of a worker: reports its status to fronts, and takes their orders."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from reactor_runtime.clock import Alarm, Clock
from reactor_runtime.cluster.messages import (
    BadMessage,
    ContractChanged,
    Drain,
    SessionStatus,
    Stop,
    Waiting,
    WorkerStatus,
    decode_to_worker,
    encode,
)
from reactor_runtime.server.options import ServerStatistics
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.engine_slot import EngineSlot
from reactor_runtime.version import version

logger = logging.getLogger(__name__)

STATUS_S = 1.0


class Control:
    """Serve the fronts of a worker, each on a socket of its own; use on the server's loop."""

    def __init__(
        self,
        worker: str,
        admission: Admission[EngineSlot],
        clock: Clock,
        *,
        statistics: Callable[[], ServerStatistics],
    ) -> None:
        self._worker = worker
        self._admission = admission
        self._clock = clock
        self._statistics = statistics
        self._alarms: set[Alarm] = set()
        self._newest: tuple[float, ServerStatistics] | None = None

    def route(self) -> WebSocketRoute:
        return WebSocketRoute("/worker", self._serve)

    def report(self) -> None:
        """Send the status to all fronts."""
        for alarm in self._alarms:
            alarm.ring()

    def status(self) -> WorkerStatus:
        """Return the status now; rates are those of the last second."""
        (slot,) = self._admission.slots
        engine, statistics = slot.engine, self._read_statistics()
        return WorkerStatus(
            worker=self._worker,
            phase=engine.phase,
            detail=engine.detail,
            progress=engine.progress,
            loading_s=round(engine.loading_s, 2),
            failed_loads=engine.failed_loads,
            session=_session_status(slot, self._clock.now()),
            ended=slot.last_end,
            clients=statistics.clients,
            viewers=len(self._admission.assignment.viewers),
            draining=self._admission.draining,
            fps=statistics.fps,
            step_ms=statistics.step_ms,
            late_ms=statistics.late_ms,
            memory_bytes=statistics.memory_bytes,
            version=version(),
        )

    async def _serve(self, websocket: WebSocket) -> None:
        await websocket.accept()
        alarm = Alarm(self._clock)
        self._alarms.add(alarm)
        logger.info("a front is connected from=%s", websocket.client)
        receiving = asyncio.create_task(self._receive(websocket))
        try:
            await self._send(websocket, alarm, receiving)
        except WebSocketDisconnect:
            pass
        finally:
            self._alarms.discard(alarm)
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
            if not self._alarms:
                # Without a front there is no queue.
                self._admission.set_waiting_elsewhere(0)

    async def _send(self, websocket: WebSocket, alarm: Alarm, receiving: asyncio.Task[None]) -> None:
        """Send the status at each change and once a second, and the contract when it is new."""
        contract: dict[str, Any] | None = None
        while not receiving.done():
            known = self._admission.slots.contract
            if known is not None and known is not contract:
                contract = known
                await websocket.send_text(encode(ContractChanged(contract)))
            await websocket.send_text(encode(self.status()))
            await alarm.wait(self._clock.now() + STATUS_S)

    async def _receive(self, websocket: WebSocket) -> None:
        try:
            async for text in websocket.iter_text():
                self._obey(text)
        finally:
            self.report()

    def _obey(self, text: str) -> None:
        try:
            message = decode_to_worker(text)
        except BadMessage as error:
            logger.warning("%s", error)
            return
        match message:
            case Waiting():
                self._admission.set_waiting_elsewhere(message.count)
            case Drain():
                os.kill(os.getpid(), signal.SIGTERM)
            case Stop():
                os.kill(os.getpid(), signal.SIGINT)

    def _read_statistics(self) -> ServerStatistics:
        """Return statistics that are at most a second old: each reading starts the rates anew."""
        now = self._clock.now()
        if self._newest is None or now - self._newest[0] >= STATUS_S:
            self._newest = now, self._statistics()
        return self._newest[1]


def _session_status(slot: EngineSlot, now: float) -> SessionStatus | None:
    session = slot.session
    if session is None:
        return None
    started_at_unix = time.time() - (now - session.started_at) if session.started_at else 0.0
    return SessionStatus(
        session.id,
        session.phase,
        started_at_unix,
        session.resume_secret or "",
        session.controller.ids.get("ticket", ""),
    )
