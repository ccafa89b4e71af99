"""A session in the server: messages of its clients to the engine, and messages of the engine to the clients.

The engine has a session of its own (`engine/session.py`). How long this one lasts is decided by `turn.py`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
import secrets
from collections import deque
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Any, assert_never

from reactor_runtime.clock import Clock, Timer
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.playout import Playout
from reactor_runtime.server.delivery.seated_subscribers import SeatedSubscribers
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.sessions.early_messages import EarlyMessage, EarlyMessages
from reactor_runtime.server.sessions.incoming_uploads import IncomingUploads
from reactor_runtime.server.sessions.input_tracks import InputTracks
from reactor_runtime.server.sessions.session_seat import SessionSeat, choose_seat
from reactor_runtime.server.sessions.turn import SeatTurn, Turn, TurnEnd, TurnNotice
from reactor_runtime.wire.codec import encode_text, size_bytes_of
from reactor_runtime.wire.media_header import MediaHeader
from reactor_runtime.wire.messages import Event, Step
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)


class SessionPhase(StrEnum):
    """Whether the engine starts, runs or ends a session."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class ServedSession:
    """Send the clients' events and media to the engine, and the engine's answers to the clients they are for.

    The session has a seat for each controller; the controller that starts it takes `controller.seat`. With
    `has_clients` the model knows each client of the session, by the id of its connection. With `outlives` the session
    goes on without a controller, until `resume_grace_s` after the last client has left. A `stepped` session makes the
    steps that its controller requests. `on_turn_over` is called when the turn of a seat has ended while other seats are
    taken. Clients find a session with several seats by its `room`. `over` is set when the session has ended.
    """

    def __init__(
        self,
        controller: Client,
        subscribers: SeatedSubscribers,
        playout: Playout,
        send: Callable[[ipc.ToEngine], None],
        *,
        clock: Clock,
        limits: TurnLimits,
        log_ids: Mapping[str, str],
        has_clients: bool,
        outlives: bool,
        stepped: bool,
        seats: int,
        room: str,
        on_turn_over: Callable[[ServedSession, SessionSeat, TurnEnd], None],
    ) -> None:
        self.id = f"s-{secrets.token_hex(4)}"
        self.over = asyncio.Event()
        # The controller that has left last, while no seat is taken.
        self._controller = controller
        controller.ids.update(log_ids, session=self.id)
        self.room = room
        # Whether its controller has named the room.
        self.is_private = bool(room) and controller.room == room
        self._on_turn_over = on_turn_over
        self.phase = SessionPhase.STARTING
        self.state: dict[str, Any] = {}
        self._subscribers = subscribers
        self._playout = playout
        self._send = send
        self.limits = limits
        self._clock = clock
        self.has_clients = has_clients
        self.outlives = outlives
        self.stepped = stepped
        # The clients that the model knows, by id. In a session with several seats the controllers are not among them:
        # the model knows a seat's controller by the id of its first connection.
        self.clients: dict[str, Client] = {controller.id: controller} if has_clients and seats == 1 else {}
        # Ends a session that outlives its clients.
        self._grace: Timer | None = None
        may_resume = bool(limits.resume_grace_s)
        self.seats = [SessionSeat(number, self._make_turn, may_resume=may_resume) for number in range(seats)]
        self.seats[controller.seat].take(controller)
        # Why it has been stopped.
        self.end = TurnEnd.LEFT
        self.started_at = 0.0
        # How far the model is with the first frame, None once that is there; and what the clients were sent of it.
        self.preparing: ipc.Preparing | None = None
        self._announced: ipc.Preparing | None = None
        self.inputs = InputTracks()
        self.uploads = IncomingUploads(send)
        # Whether the model pauses because its controllers are away.
        self._is_paused = False
        # What clients have sent before the session started.
        self._early = EarlyMessages()
        # The clients that have requested to keep the recording, with the ids of the requests, in their order.
        self._keepers: deque[tuple[Client, str | int | None]] = deque()

    def _make_turn(self, seat: SessionSeat) -> Turn:
        return Turn(
            self.limits,
            self._clock,
            on_notice=functools.partial(self._send_notice, seat),
            on_end=functools.partial(self._end_turn, seat),
        )

    def _end_turn(self, seat: SessionSeat, end: TurnEnd) -> None:
        if self.has_others(seat):
            self._on_turn_over(self, seat, end)
        else:
            self.stop(end)

    @property
    def has_several_seats(self) -> bool:
        return len(self.seats) > 1

    @property
    def controllers(self) -> list[Client]:
        """Return the clients that have a seat, also those that are away and may resume."""
        return [seat.controller for seat in self.seats if seat.controller is not None and not seat.is_free]

    @property
    def controller(self) -> Client:
        """Return the controller in the first seat that is taken; without any, the one that left last.

        The log lines of the session name this client.
        """
        self._controller = next(iter(self.controllers), self._controller)
        return self._controller

    def seat_of(self, client: Client) -> SessionSeat | None:
        """Return the seat that a client has; None for any other client."""
        return next((seat for seat in self.seats if seat.controller is client and not seat.is_free), None)

    def free_seat_for(self, client: Client) -> int | None:
        """Return the free seat for a client, None if there is none, or the session is in another room."""
        free = [seat.number for seat in self.seats if seat.is_free]
        return choose_seat(client, free, room=self.room, is_private=self.is_private)

    def room_known_to(self, client: Client) -> str | None:
        """Return the code of the room; None if there is none, or if it is private and the client lacks it."""
        if self.is_private and client.room != self.room and client not in self.controllers:
            return None
        return self.room or None

    def has_others(self, seat: SessionSeat) -> bool:
        """Return whether other seats are taken."""
        return any(not each.is_free for each in self.seats if each is not seat)

    @property
    def turns(self) -> list[SeatTurn]:
        """Return the turns of the controllers, and when each began; 0 before the session has started."""
        return [SeatTurn(seat.turn, seat.began_at) for seat in self.seats if not seat.is_free]

    def state_in(self, seat: int) -> dict[str, Any]:
        """Return the public state as the client in a seat sees it."""
        return {**self.state, **self.seats[seat].state}

    def start(self) -> None:
        """Request a session from the engine, which answers when it has a fresh state."""
        controller = self.controller
        joined_at = controller.joined_at_unix
        self._send(ipc.StartSession(self.id, controller.id, joined_at, self.stepped, seat=controller.seat))

    def _take_state(self, started: ipc.Started) -> None:
        self.state = started.state
        for seat, fields in zip(self.seats, started.seats, strict=False):
            seat.state = fields

    def keep_recording(self, client: Client, message_id: str | int | None) -> None:
        """Save a recording of the session so far; the engine's answer is for this request of a client."""
        self._keepers.append((client, message_id))
        self._send(ipc.KeepRecording(self.id))

    def on_started(self, started: ipc.Started) -> None:
        """Send the engine the messages that came before it was ready for them."""
        self._take_state(started)
        self.started_at = started.started_at
        early = self._early.take_all()
        if self.phase is SessionPhase.STARTING:
            self.phase = SessionPhase.RUNNING
            for message in early:
                self._send(message)

    def start_turn(self) -> None:
        """Start the turn of the controller that has started the session."""
        seat = self.seats[self.controller.seat]
        seat.start_turn(self.started_at, self.controller.used_s)

    def on_reset(self, started: ipc.Started) -> None:
        """Continue with the fresh state of a session that a request for steps has reset."""
        self._take_state(started)
        self.started_at = started.started_at
        self._playout.continue_from(started.started_at)
        # A stepped session has one seat.
        self._send_state(self.state_in(0))

    def _send_state(self, fields: dict[str, Any], seat: int | None = None) -> None:
        """Send fields of the state, or of that of a seat; in a stepped session after the answers of earlier steps."""
        send = functools.partial(self._subscribers.send_message, "reactor.state", dict(fields), seat=seat)
        if self.stepped:
            self._playout.put_message(send)
        else:
            send()

    def stop(self, end: TurnEnd = TurnEnd.LEFT) -> None:
        """Stop the session in the engine; may be called twice, and keeps the first reason."""
        if self.phase is not SessionPhase.STOPPING:
            self.phase = SessionPhase.STOPPING
            self.end = end
            self.stop_timers()
            self._send(ipc.StopSession(self.id))

    def stop_timers(self) -> None:
        """End the turns and the grace period; may be called in any state."""
        for seat in self.seats:
            seat.turn.stop()
        self._cancel_grace()

    def add_client(self, client: Client) -> None:
        """Report a client of the running session to the model; one that takes a seat is reported then."""
        if not self.has_clients or self.phase is not SessionPhase.RUNNING or client.id in self.clients:
            return
        if self.has_several_seats and self.seat_of(client) is not None:
            return
        self.clients[client.id] = client
        self._cancel_grace()
        self._report_client(client)

    def remove_client(self, client: Client) -> None:
        """Report that a client has gone; a session that outlives its clients ends some time after the last one."""
        self.inputs.forget(client.id)
        if self.clients.pop(client.id, None) is None or self.phase is not SessionPhase.RUNNING:
            return
        self._send(ipc.ClientLeft(self.id, client.id))
        if self.outlives and not self.clients:
            self._grace = self._clock.call_at(self._clock.now() + self.limits.resume_grace_s, self.stop)

    def _report_client(self, client: Client) -> None:
        seat = self.seat_of(client)
        role = Role.VIEWER if seat is None else Role.CONTROLLER
        # All clients of a session with one seat are in it.
        number = 0 if not self.has_several_seats else None if seat is None else seat.number
        self._send(ipc.ClientJoined(self.id, client.id, role, client.joined_at_unix, number))

    def _cancel_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    def vacate(self, seat: SessionSeat) -> None:
        """Go on without the controller of a seat."""
        controller = seat.vacate()
        self._controller = controller
        self._subscribers.leave(controller)
        # One that was never subscribed.
        self.remove_client(controller)
        if self.has_several_seats:
            seat.resume_secret = None
            self._send(ipc.ClientLeft(self.id, seat.client_id))
            self._pause_if_deserted()

    def take_seat(self, seat: SessionSeat, client: Client) -> None:
        """Continue with another controller in a seat, which begins a turn; the former one can't resume any more."""
        former = self.controller
        seat.take(client)
        self._begin_turn(seat, client, former)

    def _begin_turn(self, seat: SessionSeat, client: Client, former: Client) -> None:
        client.ids.update({**former.ids, **client.ids})
        self._cancel_grace()
        if client.id in self.clients or self.has_several_seats:
            # It has watched, as a viewer; or it has come for the seat.
            self._report_client(client)
        if self.has_several_seats:
            self.clients.pop(client.id, None)
            self._pause_if_deserted()
        seat.start_turn(self._clock.now(), client.used_s)

    def _pause_if_deserted(self) -> None:
        """Pause the model while all controllers are away."""
        deserted = all(seat.is_free or seat.is_away for seat in self.seats)
        if deserted is not self._is_paused:
            self._is_paused = deserted
            self._send(ipc.Pause(self.id, paused=deserted))

    def record_activity(self, client: Client) -> None:
        """Restart the idle timeout of a client's seat; any client of a shared session is in the first."""
        (self.seat_of(client) or self.seats[0]).turn.record_activity()

    def hold(self, seat: SessionSeat) -> bool:
        """Keep a seat for a controller that has lost its connection; return False where it may not resume.

        The model pauses while no other controller is there.
        """
        if self.phase is not SessionPhase.RUNNING or not seat.turn.wait_for_controller():
            return False
        seat.is_away = True
        self._pause_if_deserted()
        return True

    def is_resumed_by(self, secret: str) -> bool:
        """Return whether a client with this secret may resume the session."""
        return self.phase is SessionPhase.RUNNING and any(seat.is_resumed_by(secret) for seat in self.seats)

    def resume(self, client: Client, secret: str) -> SessionSeat:
        """Continue with another connection of a controller, and close the former one; return its seat."""
        seat = next(seat for seat in self.seats if seat.is_resumed_by(secret))
        former, known_as = seat.controller, seat.client_id
        assert former is not None, "it got the secret"
        was_free = seat.is_free
        seat.continue_with(client)
        if was_free:
            self._begin_turn(seat, client, former)
            return seat
        if not self.has_clients or self.has_several_seats:
            seat.client_id = known_as
        client.ids.update({**former.ids, **client.ids})
        self._subscribers.leave(former)
        former.close(CloseCode.SESSION_OVER, "the session goes on over another connection")
        seat.turn.controller_returned()
        self._is_paused = False
        self._send(ipc.Pause(self.id, paused=False))
        return seat

    def send_step(self, step: Step) -> bool:
        """Send the controller's request for steps, or keep it until the session has started.

        Return False when too many are kept.
        """
        request = ipc.StepRequest(self.id, self.controller.id, step.id, step.n, step.data_json, step.reset, step.seed)
        return self._send_or_keep(request)

    def send_event(self, event: Event, client: Client) -> bool:
        """Send an event of a client, or keep it until the session has started; return False when too many are kept."""
        arrived_at, seat = client.clock.now(), self.seat_of(client)
        number = 0 if seat is None else seat.number
        return self._send_or_keep(
            ipc.ClientEvent(self.id, client.id, event.id, event.type, event.data_json, arrived_at, number)
        )

    def send_media(self, track: str, file: bytes, header: MediaHeader | None, client: Client) -> None:
        """Send an image or sound; until the session has started, keep the newest of each track."""
        self.inputs.record_media(track)
        message = ipc.ClientMedia(self.id, track, file, client=client.id if self.has_senders else "")
        if header is not None:
            capture_time_us, metadata = header.wall_us or None, header.metadata or None
            # A client that sends no time leaves both fields 0.
            pts = header.pts_us if capture_time_us or header.pts_us else None
            message = dataclasses.replace(message, pts=pts, metadata=metadata, capture_time_us=capture_time_us)
        self._send_or_keep(message)

    def _send_or_keep(self, message: EarlyMessage) -> bool:
        if self.phase is SessionPhase.STARTING:
            return self._early.put(message)
        self._send(message)
        return True

    @property
    def has_senders(self) -> bool:
        """Return whether several clients may send to the model."""
        return self.has_clients or self.has_several_seats

    def uploader(self, key: str, *, shared: bool) -> str | None:
        """Return the id by which the model knows the client with this key; None if no client of the session has it.

        In a `shared` session each client may upload, in any other the clients that have a seat.
        """
        seated = (seat.client_id for seat in self.seats if not seat.is_free)
        return self.uploads.client_of(key, self.clients if shared else seated)

    def on_engine_message(self, message: ipc.DuringSession) -> None:
        """Deliver a message of the engine for this session."""
        match message:
            case ipc.Flush():
                self._playout.flush(message.before)
                self._subscribers.drop_sound()
            case ipc.MessageSent():
                text = encode_text(message.type, message.data)
                self._playout.put_message(
                    lambda: self._deliver(message, text), size_bytes=size_bytes_of(text), n=message.n
                )
            case ipc.Preparing():
                self.preparing = None if message == ipc.Preparing(self.id) else message
            case ipc.StateChanged():
                state = self.state if message.seat is None else self.seats[message.seat].state
                state.update(message.changes)
                self._send_state(message.changes, message.seat)
            case ipc.InputsTaken():
                self.inputs.demand.record(message)
            case ipc.InputLost():
                self.inputs.record_loss(message.track, message.count)
                self.controller.metrics.inputs_lost.add(message.kind, message.count)
            case ipc.UploadTaken():
                self.uploads.on_taken(message.id)
            case ipc.Kept():
                kept = {"file": message.file, "message": message.message, "hint": message.hint}
                # A client that has resumed since gets no answer, as with events.
                client, message_id = self._keepers.popleft()
                client.send_message("reactor.keep", {name: value or None for name, value in kept.items()}, message_id)
            case ipc.TraceSpans():
                if self.controller.metrics.trace is not None:
                    self.controller.metrics.trace.spans(message, self.controller.ids.get("engine", ""))
            case ipc.Stepped():
                # After its frames, and the messages between them.
                self._playout.put_message(functools.partial(self._answer_step, message))
            case ipc.EventApplied() | ipc.EventRefused():
                answer = "" if isinstance(message, ipc.EventRefused) else _answer_text(message)
                deliver = functools.partial(self._answer, message, answer)
                self._playout.put_answer(deliver, message.n, size_bytes=size_bytes_of(answer))
            case _:
                assert_never(message)

    def has_progressed(self) -> bool:
        """Return whether `preparing` has changed since the last call."""
        before, self._announced = self._announced, self.preparing
        return before != self.preparing

    def keep_fields(self, names: Collection[str | None]) -> None:
        """Drop the fields of the state that the model does not have any more."""
        self.state = {name: value for name, value in self.state.items() if name in names}
        for seat in self.seats:
            seat.state = {name: value for name, value in seat.state.items() if name in names}

    def _send_notice(self, seat: SessionSeat, notice: TurnNotice, seconds: float | None) -> None:
        """Send a notice to the clients that see the seat, or to its controller alone."""
        data = {"phase": notice, "seconds": seconds}
        if notice is not TurnNotice.IDLE:
            self._subscribers.send_message("reactor.session", data, seat=seat.number)
        elif seat.controller is not None:
            seat.controller.send_message("reactor.session", data)

    def _receiver_of(self, answer: ipc.EventApplied | ipc.EventRefused) -> Client | None:
        """Return the client that an answer is for; None if it has gone."""
        if self.has_several_seats:
            return next((each for each in self.controllers if each.id == answer.client), None)
        if self.has_clients:
            return self.clients.get(answer.client)
        # The id of an event is valid on its own connection only.
        is_for_former = answer.ticket is not None and answer.client != self.controller.id
        return None if is_for_former else self.controller

    def _answer_step(self, answer: ipc.Stepped) -> None:
        client = self.controller
        if answer.client != client.id:
            logger.debug("an answer for a connection that has gone session=%s", self.id)
            return
        frames = {track: {"first": first, "count": count} for track, (first, count) in answer.frames.items()}
        made = {"step": answer.step, "steps": answer.steps, "elapsed_s": answer.elapsed_s, "frames": frames}
        if answer.code:
            client.send_error(answer.code, answer.message, message_id=answer.ticket, fields=answer.fields, made=made)
        else:
            client.send_message("reactor.stepped", made, answer.ticket)

    def _answer(self, answer: ipc.EventApplied | ipc.EventRefused, text: str) -> None:
        # The controller may have resumed while the answer waited for messages.
        client = self._receiver_of(answer)
        if client is None:
            logger.debug("an answer for a connection that has gone session=%s", self.id)
            return
        if isinstance(answer, ipc.EventRefused):
            client.send_error(
                answer.code,
                answer.message,
                message_id=answer.ticket,
                fields=answer.fields,
                event=answer.event or None,
            )
        elif text:
            client.send_alone(text)

    def _deliver(self, message: ipc.MessageSent, text: str) -> None:
        if message.client is None:
            self._subscribers.send_text(text)
        elif (client := self.clients.get(message.client)) is not None:
            client.send_alone(text)
        elif self.has_several_seats or not self.has_clients:
            for seat in self.seats:
                if seat.client_id == message.client and seat.controller is not None and not seat.is_free:
                    seat.controller.send_alone(text)


def _answer_text(answer: ipc.EventApplied) -> str:
    """Return the message that answers an event; "" for an event without an id, if its handler replies nothing."""
    reply = answer.reply
    if answer.ticket is None:
        return "" if reply is None else encode_text(*reply)
    data: dict[str, Any] = {"n": answer.n}
    if reply is not None:
        data["message"] = {"type": reply[0], "data": reply[1]}
    return encode_text("reactor.reply", data, answer.ticket)
