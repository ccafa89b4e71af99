"""The control socket of a worker: reports its status to fronts, and takes their orders."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from reactor_runtime.clock import Alarm, Clock
from reactor_runtime.cluster.codec import BadMessage
from reactor_runtime.cluster.messages import (
    FROM_WORKER,
    TO_WORKER,
    ContractChanged,
    Drain,
    Release,
    SessionStatus,
    Stop,
    Waiting,
    WorkerStatus,
)
from reactor_runtime.cluster.tickets import TicketGate
from reactor_runtime.server.net.http_server import SocketProtocol
from reactor_runtime.server.net.message_reader import Allowance
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.engine_slot import EngineSlot
from reactor_runtime.version import version
from reactor_runtime.wire.protocol import MAX_VIEWER_BYTES

logger = logging.getLogger(__name__)

STATUS_S = 1.0
ORDER = Allowance(MAX_VIEWER_BYTES, MAX_VIEWER_BYTES, f"an order may have {MAX_VIEWER_BYTES} bytes")
NO_MEDIA = Allowance(MAX_VIEWER_BYTES, 0, "a front sends no frames and no sound")


class Control:
    """Serve the fronts of a worker, each on a socket of its own; `stop` ends the server. Use on the server's loop."""

    def __init__(
        self,
        worker: str,
        admission: Admission[EngineSlot],
        tickets: TicketGate,
        clock: Clock,
        *,
        stop: Callable[[], None],
    ) -> None:
        self._worker = worker
        self._admission = admission
        self._tickets = tickets
        self._clock = clock
        self._stop = stop
        self._alarms: set[Alarm] = set()

    def route(self) -> WebSocketRoute:
        return WebSocketRoute("/worker", self._serve)

    def report(self) -> None:
        """Send the status to all fronts."""
        for alarm in self._alarms:
            alarm.ring()

    def status(self) -> WorkerStatus:
        """Return the status now."""
        (slot,) = self._admission.slots
        engine, statistics = slot.engine, slot.statistics()
        return WorkerStatus(
            worker=self._worker,
            phase=engine.phase,
            detail=engine.detail,
            progress=engine.progress,
            loading_s=round(engine.loading_s, 2),
            failed_loads=engine.failed_loads,
            session=_session_status(slot, self._clock.now()),
            ended=slot.last_end,
            released=self._tickets.released,
            clients=statistics.clients,
            viewers=statistics.viewers,
            draining=self._admission.draining,
            gpu=statistics.gpu,
            fps=statistics.fps,
            late_ms=statistics.late_ms,
            memory_bytes=statistics.memory_bytes,
            uptime_s=statistics.uptime_s,
            version=version(),
        )

    async def _serve(self, websocket: WebSocket) -> None:
        await websocket.accept()
        alarm = Alarm(self._clock)
        self._alarms.add(alarm)
        logger.info("a front is connected from=%s", websocket.client)
        protocol = SocketProtocol.serving(websocket.scope)
        assert protocol is not None, "a worker runs in a server of ours"
        protocol.serve(_Orders(self._obey))
        gone = asyncio.create_task(_disconnected(websocket, alarm))
        try:
            with contextlib.suppress(WebSocketDisconnect):
                await self._send(websocket, alarm, gone)
        finally:
            self._alarms.discard(alarm)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
            if not self._alarms:
                # Without a front there is no queue.
                self._admission.set_waiting_elsewhere(0)

    async def _send(self, websocket: WebSocket, alarm: Alarm, gone: asyncio.Task[None]) -> None:
        """Send the status at each change and once a second, and the contract when it is new."""
        contract: dict[str, Any] | None = None
        while not gone.done():
            known = self._admission.slots.contract
            if known is not None and known is not contract:
                contract = known
                await websocket.send_text(FROM_WORKER.encode(ContractChanged(contract)))
            await websocket.send_text(FROM_WORKER.encode(self.status()))
            await alarm.wait(self._clock.now() + STATUS_S)

    def _obey(self, text: bytes) -> None:
        try:
            message = TO_WORKER.decode(text)
        except BadMessage as error:
            logger.warning("%s", error)
            return
        match message:
            case Waiting():
                self._admission.set_waiting_elsewhere(message.count)
            case Release():
                self._release(message.ticket)
            case Drain():
                # A second SIGTERM would end the session.
                if not self._admission.draining:
                    os.kill(os.getpid(), signal.SIGTERM)
            case Stop():
                self._stop()

    def _release(self, ticket: str) -> None:
        (slot,) = self._admission.slots
        self._tickets.release(ticket, time.time())
        if slot.session is not None and slot.session.controller.ids.get("ticket") == ticket:
            slot.session.stop()
        self.report()


@dataclass(frozen=True, slots=True)
class _Orders:
    """Receive the orders of a front."""

    obey: Callable[[bytes], None]
    share: float = 1.0

    def allowance(self, *, is_text: bool) -> Allowance:
        return ORDER if is_text else NO_MEDIA

    def receive(self, message: bytes | None, size: int, *, is_text: bool) -> float:  # noqa: ARG002  (as declared)
        if message is not None:
            self.obey(message)
        return 0.0


async def _disconnected(websocket: WebSocket, alarm: Alarm) -> None:
    """Wait until a front has gone, and ring."""
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass
    alarm.ring()


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
        session.controller.id,
        session.upload_key,
    )
