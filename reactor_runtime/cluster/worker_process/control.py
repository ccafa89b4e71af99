"""The control socket of a worker: reports its status to its front, and executes orders. A worker has one front."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from reactor_runtime.clock import Alarm, Clock
from reactor_runtime.cluster.codec import BadMessage
from reactor_runtime.cluster.messages import (
    FROM_WORKER,
    TO_WORKER,
    Abort,
    ContractChanged,
    Drain,
    FrontHeartbeat,
    FrontHeartbeatRequest,
    FrontIdentity,
    LimitTurns,
    Release,
    SeatStatus,
    SessionStatus,
    SlotStatus,
    Stop,
    WorkerStatus,
)
from reactor_runtime.cluster.tickets import TicketGate
from reactor_runtime.server.delivery.client import Role
from reactor_runtime.server.net.application import serving
from reactor_runtime.server.net.message_reader import Allowance
from reactor_runtime.server.net.socket_protocol import SocketProtocol
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.engine_slot import EngineSlot
from reactor_runtime.server.sessions.session_seat import SessionSeat
from reactor_runtime.wire.protocol import MAX_VIEWER_BYTES, CloseCode

logger = logging.getLogger(__name__)

STATUS_S = 1.0
HEARTBEAT_S = 2.0
ORDER = Allowance(MAX_VIEWER_BYTES, MAX_VIEWER_BYTES, f"an order may have {MAX_VIEWER_BYTES} bytes")
VIEWED_IS_OVER = "the session is over: connect to the front to watch another"
NO_MEDIA = Allowance(MAX_VIEWER_BYTES, 0, "a front sends no frames and no sound")


class ControlSocket:
    """Serve the front of a worker, which runs the `build`; use on the server's loop.

    `drain`, `stop` and `abort` end the server: after its sessions, at once, or with broken connections.

    Another front is refused while the first one answers, and otherwise replaces it.
    """

    def __init__(
        self,
        admission: Admission[EngineSlot],
        tickets: TicketGate,
        clock: Clock,
        *,
        build: str,
        drain: Callable[[], None],
        stop: Callable[[], None],
        abort: Callable[[], None],
    ) -> None:
        self._admission = admission
        self._tickets = tickets
        self._clock = clock
        self._build = build
        self._drain = drain
        self._stop = stop
        self._abort = abort
        self._connection: _Connection | None = None

    def route(self) -> WebSocketRoute:
        return WebSocketRoute("/worker", self._serve)

    def report(self) -> None:
        """Send the status to the front."""
        if self._connection is not None:
            self._connection.changed.ring()

    def status(self) -> WorkerStatus:
        """Return the status now."""
        slots = list(self._admission.slots)
        engine, statistics = slots[0].engine, slots[0].statistics()
        now = self._clock.now()
        return WorkerStatus(
            build=self._build,
            phase=engine.phase,
            detail=engine.detail,
            progress=engine.progress,
            loading_s=round(engine.loading_s, 2),
            failed_loads=engine.failed_loads,
            slots=tuple(_slot_status(slot, now) for slot in slots),
            fitting=engine.fitting,
            limit=engine.limit,
            released=self._tickets.released(time.time()),
            draining=self._admission.draining,
            gpu=statistics.gpu,
            memory_bytes=statistics.memory_bytes,
            uptime_s=statistics.uptime_s,
        )

    async def _serve(self, websocket: WebSocket) -> None:
        try:
            front = FrontIdentity.from_fields(websocket.query_params)
        except BadMessage as error:
            await websocket.send_denial_response(PlainTextResponse(f"{error.message}\n", status_code=400))
            return
        while (other := self._connection) is not None and other.front.id != front.id:
            if await other.answers():
                logger.warning("a front was refused: %s; this worker has another: %s", front, other.front)
                await websocket.send_denial_response(JSONResponse(asdict(other.front), status_code=409))
                return
            if self._connection is other:
                self._connection = None
        connection = self._connection = _Connection(front, self._clock)
        self._tickets.front = front.id
        logger.info("a front is connected: %s", front)
        try:
            await websocket.accept()
            await self._serve_front(websocket, connection)
        finally:
            if self._connection is connection:
                self._connection = None
                # Without a front there is no queue.
                self._limit_turns(())

    async def _serve_front(self, websocket: WebSocket, connection: _Connection) -> None:
        protocol = serving(websocket.scope, SocketProtocol)
        assert protocol is not None, "a worker runs in a server of ours"
        protocol.serve(_Orders(partial(self._execute, connection)))
        gone = asyncio.create_task(_disconnected(websocket, connection))
        try:
            with contextlib.suppress(WebSocketDisconnect):
                await self._send(websocket, connection)
                if not connection.has_gone:
                    await websocket.close()
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)

    async def _send(self, websocket: WebSocket, connection: _Connection) -> None:
        """Send the status at each change and once a second, and a new contract, until another front replaces this."""
        contract: dict[str, Any] | None = None
        while self._connection is connection and not connection.has_gone:
            known = self._admission.slots.contract
            if known is not None and known is not contract:
                contract = known
                await websocket.send_text(FROM_WORKER.encode(ContractChanged(contract)))
            if connection.take_request():
                await websocket.send_text(FROM_WORKER.encode(FrontHeartbeatRequest()))
            await websocket.send_text(FROM_WORKER.encode(self.status()))
            self._return_viewers()
            await connection.changed.wait(self._clock.now() + STATUS_S)

    def _return_viewers(self) -> None:
        """Close viewers that the front redirected to a session that is over, so that it redirects them to another."""
        for slot in self._admission.slots:
            running = "" if slot.session is None else slot.session.id
            for client in list(slot.subscribers):
                if client.role is Role.VIEWER and client.ids.get("session", running) != running:
                    client.close(CloseCode.SERVER_STOPPING, VIEWED_IS_OVER)

    def _execute(self, connection: _Connection, text: bytes) -> None:
        if self._connection is not connection:
            return
        try:
            message = TO_WORKER.decode(text)
        except BadMessage as error:
            logger.warning("%s", error)
            return
        match message:
            case FrontHeartbeat():
                connection.record_heartbeat()
            case LimitTurns():
                self._limit_turns(message.tickets)
            case Release():
                self._release(message.ticket)
            case Drain():
                self._drain()
            case Stop():
                self._stop()
            case Abort():
                self._abort()

    def _limit_turns(self, tickets: Collection[str]) -> None:
        for slot in self._admission.slots:
            slot.limit_turns(tickets)

    def _release(self, ticket: str) -> None:
        self._tickets.release(ticket, time.time())
        for slot in self._admission.slots:
            slot.release(ticket)
        self.report()


class _Connection:
    """Follow the connection to a front; `changed` rings when there is something to send."""

    def __init__(self, front: FrontIdentity, clock: Clock) -> None:
        self.front = front
        self.changed = Alarm(clock)
        self.has_gone = False
        self._requested = False
        self._answered = asyncio.Event()

    async def answers(self) -> bool:
        """Return whether the front answers within 2 s."""
        self._answered.clear()
        self._requested = True
        self.changed.ring()
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                await self._answered.wait()
        except TimeoutError:
            return False
        return not self.has_gone

    def take_request(self) -> bool:
        """Return whether a heartbeat is to be requested, once."""
        requested, self._requested = self._requested, False
        return requested

    def record_heartbeat(self) -> None:
        self._answered.set()

    def close(self) -> None:
        """Record that the front has gone."""
        self.has_gone = True
        self._answered.set()
        self.changed.ring()


@dataclass(frozen=True, slots=True)
class _Orders:
    """Receive the orders of a front."""

    execute: Callable[[bytes], None]
    share: float = 1.0

    def allowance(self, *, is_text: bool) -> Allowance:
        return ORDER if is_text else NO_MEDIA

    def receive(self, message: bytes | None, size: int, *, is_text: bool) -> float:  # noqa: ARG002  (as declared)
        if message is not None:
            self.execute(message)
        return 0.0


async def _disconnected(websocket: WebSocket, connection: _Connection) -> None:
    """Wait until a front has gone."""
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass
    connection.close()


def _slot_status(slot: EngineSlot, now: float) -> SlotStatus:
    statistics = slot.statistics()
    return SlotStatus(
        session=_session_status(slot, now),
        ended=slot.last_end,
        clients=statistics.clients,
        viewers=statistics.viewers,
        fps=statistics.fps,
        age_ms=statistics.age_ms,
        late_ms=statistics.late_ms,
    )


def _session_status(slot: EngineSlot, now: float) -> SessionStatus | None:
    session = slot.session
    if session is None:
        return None
    return SessionStatus(
        session.id,
        session.phase,
        now - session.started_at if session.started_at else 0.0,
        tuple(_seat_status(seat, now) for seat in session.seats),
        session.uploads.key,
        session.room,
        session.is_private,
    )


def _seat_status(seat: SessionSeat, now: float) -> SeatStatus:
    controller = seat.controller
    return SeatStatus(
        seat.ticket,
        "" if controller is None else controller.id,
        seat.resume_secret or "",
        now - seat.began_at if seat.began_at else None,
        seat.is_free,
        seat.vacancies,
        seat.is_broken,
    )
