"""A slot with an engine of this server: the engine, the session on it, and the clients that see the session.

It starts, announces and ends its sessions. `admission.py` decides which controller gets the slot, `seating.py` changes
the controllers of a session, `session.py` is the session itself. `workers/engine.py` is all that a slot knows of its
engine.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from reactor_runtime import errors
from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.playout import Playout
from reactor_runtime.server.delivery.seated_subscribers import SeatedSubscribers
from reactor_runtime.server.options import ReloadReport, TurnLimits
from reactor_runtime.server.sessions.reload_notices import ReloadNotices
from reactor_runtime.server.sessions.seating import Seating, seats_message
from reactor_runtime.server.sessions.session import ServedSession, SessionPhase
from reactor_runtime.server.sessions.slot import SessionEnd, SlotCallbacks, SlotSettings, SlotStatistics
from reactor_runtime.server.sessions.turn import END_MESSAGES, TurnEnd, TurnNotice
from reactor_runtime.server.sessions.wait_queue import WaitQueue
from reactor_runtime.server.sessions.welcome import welcome_message
from reactor_runtime.server.workers.engine import Engine, EnginePhase
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)

# Without letters that look like others.
CODE_LETTERS, CODE_LENGTH = "abcdefghjkmnpqrstuvwxyz23456789", 6
RESTARTING = "restarting"
RESTARTS = "the model starts again with new code"


class EngineSlot:
    """Run one session after the other on an engine, and send it to its subscribers; use on the server's loop.

    `send` sends the engine the messages of this slot. Slots that share an engine count the memory of its process once:
    in the statistics of the slot with `has_memory`. `ids` are the log fields that name the engine.
    """

    def __init__(
        self,
        number: int,
        *,
        engine: Engine,
        send: Callable[[ipc.ToEngine], None],
        ids: dict[str, str],
        subscribers: SeatedSubscribers,
        playout: Playout,
        wait_queue: WaitQueue[Client],
        settings: SlotSettings,
        callbacks: SlotCallbacks[EngineSlot],
        gpu: str,
        has_memory: bool,
        on_reload: Callable[[EngineSlot, ReloadReport], None],
    ) -> None:
        self.number = number
        self.ids = ids
        self.engine = engine
        self._send = send
        self.subscribers = subscribers
        # From the request for a session to its end.
        self.session: ServedSession | None = None
        # Whether the engine has started that session.
        self._started = False
        # Sessions that failed since one that did not: admission prefers other slots.
        self.failed_in_a_row = 0
        # Crashes of the engine, for the metrics.
        self.losses = 0
        # All slots of a server end together.
        self.is_draining = False
        # Of the session before.
        self.last_end = SessionEnd("", "", is_broken=False)
        self.reload = ReloadNotices(
            settings.options, send=self.send_message, on_report=lambda report: on_reload(self, report)
        )
        self._gpu = gpu
        self._has_memory = has_memory
        # When the engine has loaded the model.
        self._ready_at: float | None = None
        self._playout = playout
        self._wait_queue = wait_queue
        self._settings = settings
        self._callbacks = callbacks
        self._seating = Seating(self, subscribers, callbacks.on_vacant)

    @property
    def model_name(self) -> str:
        """Return the name of the model, which before its class is imported is that of the manifest."""
        return self._settings.name_of(self.engine.contract)

    @property
    def has_started(self) -> bool:
        """Return whether there is a session that has started, and can be watched."""
        return self._started and self.engine.phase is EnginePhase.READY

    @property
    def shared(self) -> bool:
        """Return whether every client of the session may send events; with several seats only those that have one."""
        return self._seats == 1 and (self._settings.options.shared or self._has_rule("shared"))

    @property
    def _seats(self) -> int:
        contract = self.engine.contract
        return 1 if contract is None else int(contract.get("seats", 1))

    def _has_rule(self, name: str) -> bool:
        contract = self.engine.contract
        return contract is not None and bool(contract.get(name))

    @property
    def _limits(self) -> TurnLimits:
        limits = self._settings.options.limits
        follows = self._has_rule("follows_clients")
        return replace(limits, resume_grace_s=limits.outlives_s) if follows and limits.outlives_s else limits

    def start_session(self, controller: Client) -> None:
        """Start a session for a controller; the engine is ready, and the slot has no session."""
        follows, seats = self._has_rule("follows_clients"), self._seats
        if controller.seat >= seats:
            controller.seat = 0
        self.session = ServedSession(
            controller,
            self.subscribers,
            self._playout,
            self._send,
            clock=self._settings.clock,
            limits=self._limits,
            log_ids=self.ids,
            has_clients=follows or self.shared,
            outlives=follows and seats == 1 and self._settings.options.limits.outlives_s > 0 and not controller.stepped,
            stepped=controller.stepped and seats == 1,
            seats=seats,
            room=(controller.room or new_code()) if seats > 1 else "",
            on_turn_over=self._seating.end_turn,
        )
        self.session.start()

    def subscribe(self, client: Client) -> None:
        """Send a client the welcome and the latest frames, and from here on everything of the session.

        Does nothing until the model is loaded. A session that has not started is left out of the welcome: its start is
        announced later, and the latest frames until then are not its own.
        """
        if self.engine.contract is None or self.engine.phase is not EnginePhase.READY:
            return
        session = self.session if self._started else None
        if client.seat >= self._seats:
            client.seat = 0
        self._send_welcome(client, session)
        controls = session is not None and client in session.controllers
        if session is not None and session.stepped and controls:
            client.outbox.keep_media(self._playout.on_room)
        if session is not None:
            turn = session.seats[client.seat].turn
            for notice, left_s in ((TurnNotice.ENDING, turn.left_s), (TurnNotice.AWAY, turn.away_s)):
                if left_s is not None:
                    client.send_message("reactor.session", {"phase": notice, "seconds": left_s})
            if session.preparing is not None and not self._waits(client):
                client.send_message("reactor.session", _progress_message(session))
        self.subscribers.join(client, controls=controls, held=session is not None)
        if session is not None and session.has_several_seats:
            client.send_message("reactor.seats", seats_message(session, client))

    def _waits(self, client: Client) -> bool:
        """Return whether a client waits for a session of its own, here or at a front."""
        return client.waits or client in self._wait_queue.waiting

    @property
    def _waiting(self) -> Collection[Client]:
        """Return the clients that wait for a session of their own, here or at a front; many may wait."""
        return {*self._wait_queue.waiting, *(client for client in self.subscribers if client.waits)}

    def _send_welcome(self, client: Client, session: ServedSession | None) -> None:
        assert self.engine.contract is not None, "the engine is ready"
        welcome = welcome_message(
            session,
            self.engine.contract,
            model=self.model_name,
            client=client.id,
            room=None if session is None else session.room_known_to(client),
            controls=session is not None and client in session.controllers,
            seat=client.seat,
            seats=self._seats,
            shared=self.shared,
            limits=self._limits,
            encodings=self._settings.encodings,
            environment=self._settings.options.manifest.as_environment,
            reload=self.reload.newest,
        )
        client.send_message("reactor.welcome", welcome)

    def on_subscriber_joined(self, client: Client) -> None:
        if self.session is not None and self._started:
            self.session.add_client(client)

    def on_subscriber_left(self, client: Client) -> None:
        self._playout.on_room()
        if self.session is not None:
            self.session.remove_client(client)

    def resume_session(self, client: Client, secret: str) -> None:
        """Continue the session with another connection of the controller that got this secret."""
        assert self.session is not None, "the client has shown the secret of a session"
        self._seating.resume(self.session, client, secret)

    def detach_controller(self, client: Client, *, lost: bool) -> None:
        """Free the seat of a controller that has gone, and stop the session if it was the last.

        One whose connection was `lost` may resume.
        """
        seat = None if self.session is None else self.session.seat_of(client)
        if self.session is not None and seat is not None:
            self._seating.leave(self.session, seat, lost=lost, shared=self.shared)

    def release(self, ticket: str) -> None:
        """End the turn of the controller that came with the ticket of this id from a front; do nothing without it."""
        session = self.session
        seat = None if session is None else next((seat for seat in session.seats if seat.ticket == ticket), None)
        if session is None or seat is None or (seat.is_free and session.has_several_seats):
            return
        if session.has_others(seat):
            self._seating.end_turn(session, seat, TurnEnd.LEFT)
        else:
            session.stop()

    def limit_turns(self, tickets: Collection[str]) -> None:
        """Limit the turns of the controllers that came with the tickets of these ids from a front, and no others."""
        for seat in () if self.session is None else self.session.seats:
            seat.turn.set_others_waiting(seat.ticket in tickets)

    def close_session(self) -> None:
        """End a session that the engine has not ended before the end of the server."""
        if self.session is not None:
            self._end_session(self.session, TurnEnd.STOPPING, END_MESSAGES[TurnEnd.STOPPING])

    def on_engine_ready(self, load_s: float | None) -> None:
        self._ready_at = self._settings.clock.now()
        self.subscribers.set_seats(self._seats)
        self._callbacks.on_ready(self, load_s)

    def on_engine_room(self) -> None:
        """Offer the slot again: another number of sessions fits on the model."""
        self._callbacks.on_ready(self, None)

    def on_engine_message(self, message: ipc.OfSession) -> None:
        session = self.session
        if session is None or message.session != session.id:
            logger.debug("a message of the engine for a session that is over: %s", type(message).__name__)
        elif isinstance(message, ipc.Started) and session.phase is SessionPhase.RUNNING:
            session.on_reset(message)
        elif isinstance(message, ipc.Started):
            self._session_started(session, message)
        elif isinstance(message, ipc.Ended) and session.stepped and session.phase is not SessionPhase.STOPPING:
            # The frames and the answer of the last step come before; a turn that is over waits for no reader.
            self._playout.put_message(lambda: self._session_ended(session, message))
        elif isinstance(message, ipc.Ended):
            self._session_ended(session, message)
        elif isinstance(message, ipc.ModelWarning):
            warning = errors.from_json(message.error)
            logger.warning("%s", warning, extra=session.controller.ids)
            if message.leak:
                self._settings.metrics.leaks.add(message.leak)
            if self._settings.options.exposes_errors:
                self.send_message(
                    "reactor.session", {"phase": "warning", "message": f"{_with_line(warning)}: {warning.hint}"}
                )
        else:
            session.on_engine_message(message)

    def on_engine_lost(self, how: str) -> None:
        """End the session that ran on an engine that has crashed; `how` is the crash in words."""
        self._playout.clear()
        self.losses += 1
        if self.session is not None:
            self.failed_in_a_row += 1
            self._end_session(self.session, "model_died", f"the model's process {how}")
        self._callbacks.on_lost()

    def on_engine_restart(self) -> None:
        """End the session on an engine that is started again with new code."""
        self._playout.clear()
        if self.session is not None:
            self._end_session(self.session, RESTARTING, RESTARTS)
        self._callbacks.on_lost()

    def on_engine_contract(self) -> None:
        """Send the new contract of the engine to the subscribers."""
        contract = self.engine.contract
        assert contract is not None, "it has changed"
        if self.session is not None:
            schema = contract["schema"]
            settable = (event["field"] for event in schema["events"].values())
            self.session.keep_fields({*settable, *schema.get("state", {})})
        data = {"tracks": contract["tracks"], "schema": contract["schema"]}
        self.subscribers.send_message("reactor.contract", data)

    def send_message(self, kind: str, data: dict[str, Any]) -> None:
        """Send a message to the subscribers, and to a controller whose session has not started."""
        self.subscribers.send_message(kind, data, but=self._waiting)
        for controller in () if self.session is None else self.session.controllers:
            if controller not in self.subscribers:
                controller.send_message(kind, data)

    def statistics(self) -> SlotStatistics:
        now, session = self._settings.clock.now(), self.session
        ready_at = self._ready_at if self.engine.phase is EnginePhase.READY else None
        times = {} if session is None else self._playout.times.medians_ms()
        return SlotStatistics(
            gpu=self._gpu,
            clients=len({*self.subscribers, *([] if session is None else session.controllers)}),
            viewers=sum(client.role is Role.VIEWER for client in self.subscribers),
            fps=None if session is None else round(self._playout.times.fps(now), 1),
            age_ms=times.get("age_ms"),
            late_ms=times.get("late_ms"),
            memory_bytes=self.engine.memory_bytes() if self._has_memory else None,
            uptime_s=None if ready_at is None else round(now - ready_at, 1),
        )

    def send_progress(self) -> None:
        self.reload.send_progress()
        session = self.session
        if session is not None and session.has_progressed():
            message = _progress_message(session)
            self.subscribers.send_message("reactor.session", message, but=self._waiting)

    def send_statistics(self, now: float) -> None:
        """Send each subscriber statistics of the model and its own, and those that may send the rates of inputs."""
        controllers, shared = [] if self.session is None else self.session.controllers, self.shared
        watching = sum(client not in controllers for client in self.subscribers)
        common = {"queue": len(self._playout), "watching": watching, **self._playout.times.medians_ms()}
        of_inputs = {} if self.session is None else self.session.inputs.statistics()

        def send_to(client: Client) -> None:
            of_sender = of_inputs if shared or client in controllers else {}
            client.send_message("reactor.stats", {**common, **client.statistics(now), **of_sender})

        self.subscribers.for_each(send_to)

    def _session_started(self, session: ServedSession, started: ipc.Started) -> None:
        session.on_started(started)
        if session.phase is not SessionPhase.RUNNING:
            return
        self._started = True
        controller = session.controller
        logger.info(
            "session started id=%s client=%s from=%s",
            session.id,
            controller.id,
            controller.address,
            extra=controller.log_fields,
        )
        self._playout.start_session(session.id, session.started_at, stepped=session.stepped)
        self.subscribers.clear_frames()
        self.subscribe(controller)
        for subscriber in self.subscribers:
            session.add_client(subscriber)
        self._callbacks.on_session_visible(self)
        waiting = self._waiting
        if self.shared:
            # They may send from now on, and need the key of uploads.
            for viewer in [each for each in self.subscribers if each is not controller and each not in waiting]:
                self._send_welcome(viewer, session)
        self.subscribers.send_message("reactor.session", {"phase": "started", "session": session.id}, but=waiting)
        for seat in session.seats:
            state, but = session.state_in(seat.number), (controller, *waiting)
            self.subscribers.send_message("reactor.state", state, but=but, seat=seat.number)
        self._seating.send_seats(session)
        session.start_turn()
        self._callbacks.on_session_started()
        self._seating.offer(session)

    def _session_ended(self, session: ServedSession, ended: ipc.Ended) -> None:
        if self.reload.restarts:
            self._end_session(session, RESTARTING, RESTARTS)
            return
        if ended.error is None:
            self.failed_in_a_row = 0
            if session.phase is SessionPhase.STOPPING:
                self._end_session(session, session.end, END_MESSAGES[session.end])
            else:
                self._end_session(session, "finished", ended.reason or "the model has finished this session")
            return
        self.failed_in_a_row += 1
        error = errors.from_json(ended.error)
        message = _with_line(error) if self._settings.options.exposes_errors else "the model failed in this session"
        self._end_session(session, "model_error", message)

    def _end_session(self, session: ServedSession, reason: str, message: str) -> None:
        controller, controllers = session.controller, session.controllers or [session.controller]
        logger.info(
            "session ended id=%s reason=%s from=%s", session.id, reason, controller.address, extra=controller.log_fields
        )
        self._settings.metrics.forget(session.id)
        self._settings.metrics.sessions.add(reason)
        last = [seat for seat in session.seats if not seat.is_free] or session.seats
        is_broken = all(seat.is_broken for seat in last) and reason == TurnEnd.LEFT
        self.last_end = SessionEnd(session.id, reason, is_broken=is_broken)
        session.stop_timers()
        session.over.set()
        failed = reason not in ("finished", RESTARTING, *TurnEnd)
        if failed:
            self._settings.metrics.errors.add(ErrorCode.MODEL_ERROR)
            self.send_message("reactor.error", {"code": ErrorCode.MODEL_ERROR, "message": message})
        self.send_message("reactor.session", {"phase": "ended", "reason": reason, "message": message})
        self._playout.end_session()
        self.session = None
        self._started = False
        code = CloseCode.SERVER_STOPPING if reason == RESTARTING else CloseCode.SESSION_OVER
        for each in controllers:
            self.subscribers.leave(each)
            each.close(CloseCode.MODEL_FAILED if failed else code, message)
        self._callbacks.on_session_ended(self)


def _progress_message(session: ServedSession) -> dict[str, Any]:
    """Return how far the model is with the first frame; "" and None once that is there."""
    now = session.preparing or ipc.Preparing(session.id)
    return {"phase": "preparing", "detail": now.detail, "progress": now.progress}


def new_code() -> str:
    """Return the code of a room, which people can read out."""
    return "".join(secrets.choice(CODE_LETTERS) for _ in range(CODE_LENGTH))


def _with_line(error: errors.ReactorError) -> str:
    """Return the message of an error, with the author's file and line where it has them."""
    return (
        error.message if error.where is None else f"{error.message} ({Path(error.where.file).name}:{error.where.line})"
    )
