"""A session in the server: messages of its clients to the engine, and messages of the engine to the clients.

The engine has a session of its own (`engine/session.py`). How long this one lasts is decided by `turn.py`.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import hashlib
import logging
import math
import secrets
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from typing import Any

from reactor_runtime.clock import Clock, Timer
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.playout import Playout
from reactor_runtime.server.delivery.subscribers import Subscribers
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.sessions.input_demand import InputDemand
from reactor_runtime.server.sessions.turn import Turn, TurnEnd, TurnNotice
from reactor_runtime.wire.codec import encode_text, size_bytes_of
from reactor_runtime.wire.media_header import MediaHeader
from reactor_runtime.wire.messages import Event, Step
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)

# How much is kept from a client that sends before the engine has started its session, besides the newest media.
MOST_EARLY = 100
MOST_EARLY_BYTES = 4 << 20
# After so long without a frame or sound of its source, another client may send an input track.
SOURCE_S = 5.0


class SessionPhase(StrEnum):
    """Whether the engine starts, runs or ends a session."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class ServedSession:
    """Send the clients' events and media to the engine, and the engine's answers to the clients they are for.

    `over` is set when the session has ended. `client_id` is the controller's id for the model, however often the
    controller resumes. With `has_clients` the model knows each client of the session, under the id of its connection.
    With `outlives` the session goes on without a controller, until `resume_grace_s` after the last client has left. A
    `stepped` session makes the steps that its controller requests.
    """

    def __init__(
        self,
        controller: Client,
        subscribers: Subscribers,
        playout: Playout,
        send: Callable[[ipc.ToEngine], None],
        *,
        clock: Clock,
        limits: TurnLimits,
        log_ids: Mapping[str, str],
        has_clients: bool = False,
        outlives: bool = False,
        stepped: bool = False,
    ) -> None:
        self.id = f"s-{secrets.token_hex(4)}"
        self.over = asyncio.Event()
        self.upload_key = secrets.token_urlsafe(16)
        self._upload_secret = secrets.token_bytes(16)
        self.controller = controller
        controller.ids.update(log_ids, session=self.id)
        self.phase = SessionPhase.STARTING
        self.state: dict[str, Any] = {}
        self._subscribers = subscribers
        self._playout = playout
        self._send = send
        self.client_id = controller.id
        self.resume_secret = secrets.token_urlsafe(24) if limits.resume_grace_s else None
        self._limits = limits
        self._clock = clock
        self.has_clients = has_clients
        self.outlives = outlives
        self.stepped = stepped
        # Frames and pieces of sound of the controller since the last request for steps, by track.
        self._media_counts: dict[str, int] = {}
        # The controller has left, and no other one has come.
        self.is_vacant = False
        # How often the session has lost its controller.
        self.vacancies = 0
        self.clients: dict[str, Client] = {controller.id: controller} if has_clients else {}
        self._grace: Timer | None = None
        # Who sends each input track, and since when it is silent.
        self._sources: dict[str, tuple[Client, float]] = {}
        # When a client last got the answer that another one sends a track.
        self._refused: dict[tuple[str, str], float] = {}
        self.turn = self._new_turn()
        self.end = TurnEnd.LEFT
        # Whether the connection of the controller broke.
        self.is_broken = False
        self.started_at = 0.0
        # How far the model is with the first frame, and what clients know of that; None when the frame is there.
        self.preparing: ipc.Preparing | None = None
        self._announced: ipc.Preparing | None = None
        self.demand = InputDemand()
        # Frames and pieces of sound that were dropped because the model read too slowly, by track.
        self.lost_inputs: dict[str, int] = {}
        self._early: list[ipc.ClientEvent | ipc.ClientMedia | ipc.StepRequest] = []
        self._untaken: dict[str, asyncio.Event] = {}

    def _new_turn(self) -> Turn:
        return Turn(self._limits, self._clock, on_notice=self._send_notice, on_end=self.stop)

    def start(self) -> None:
        """Request a session from the engine, which answers when it has a fresh state."""
        controller = self.controller
        self._send(ipc.StartSession(self.id, controller.id, controller.joined_at_unix, self.stepped))

    def keep_recording(self) -> None:
        """Save a recording of the session so far; the engine's answer is for its controller."""
        self._send(ipc.KeepRecording(self.id))

    def on_started(self, started: ipc.Started) -> None:
        """Send the engine the messages that came before it was ready for them."""
        self.state = started.state
        self.started_at = started.started_at
        if self.phase is SessionPhase.STARTING:
            self.phase = SessionPhase.RUNNING
            for message in self._early:
                self._send(message)
        self._early.clear()

    def on_reset(self, started: ipc.Started) -> None:
        """Continue with the fresh state of a session that a request for steps has reset."""
        self.state = started.state
        self.started_at = started.started_at
        self._playout.continue_from(started.started_at)
        self._send_state(self.state)

    def _send_state(self, fields: dict[str, Any]) -> None:
        """Send fields of the state; in a stepped session after the answers of the steps before."""
        send = functools.partial(self._subscribers.send_message, "reactor.state", dict(fields))
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
        """End the turn and the grace period; may be called in any state."""
        self.turn.stop()
        self._cancel_grace()

    def add_client(self, client: Client) -> None:
        """Report a client of the running session to the model."""
        if not self.has_clients or self.phase is not SessionPhase.RUNNING or client.id in self.clients:
            return
        self.clients[client.id] = client
        self._cancel_grace()
        self._report_client(client)

    def remove_client(self, client: Client) -> None:
        """Report that a client has gone; a session that outlives its clients ends some time after the last one."""
        for track in [track for track, (source, _) in self._sources.items() if source is client]:
            del self._sources[track]
        for key in [key for key in self._refused if key[0] == client.id]:
            del self._refused[key]
        if self.clients.pop(client.id, None) is None or self.phase is not SessionPhase.RUNNING:
            return
        self._send(ipc.ClientLeft(self.id, client.id))
        if self.outlives and not self.clients:
            self._grace = self._clock.call_at(self._clock.now() + self._limits.resume_grace_s, self.stop)

    def _report_client(self, client: Client) -> None:
        role = Role.CONTROLLER if client is self.controller else Role.VIEWER
        self._send(ipc.ClientJoined(self.id, client.id, role, client.joined_at_unix))

    def _cancel_grace(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None

    def vacate(self) -> None:
        """Go on without a controller."""
        self.turn.stop()
        self.turn = self._new_turn()
        self.is_vacant = True
        self.vacancies += 1
        self._subscribers.leave(self.controller)
        # One that was never subscribed.
        self.remove_client(self.controller)

    def take_over(self, client: Client) -> None:
        """Continue a shared session with another controller, which begins a turn; the former one can't resume it."""
        self.resume_secret = secrets.token_urlsafe(24)
        self._continue_with(client)

    def _continue_with(self, client: Client) -> None:
        former, self.controller = self.controller, client
        self.is_broken = self.is_vacant = False
        self.client_id = client.id
        client.ids.update({**former.ids, **client.ids})
        self._cancel_grace()
        if client.id in self.clients:
            # It has watched, as a viewer.
            self._report_client(client)
        self.turn.start(client.used_s)

    def claims_track(self, track: str, client: Client) -> bool:
        """Return whether a client may send an input track: only one client of a session does, until it is silent."""
        now = self._clock.now()
        source, at = self._sources.get(track, (client, now))
        if source is not client and now < at + SOURCE_S:
            return False
        self._sources[track] = client, now
        return True

    def may_refuse(self, track: str, client: Client) -> bool:
        """Return whether to answer a frame that another client's track drops: once for many, as they come."""
        now, key = self._clock.now(), (client.id, track)
        if now < self._refused.get(key, -math.inf) + SOURCE_S:
            return False
        self._refused[key] = now
        return True

    def hold(self) -> bool:
        """Keep the session for a controller that has lost its connection; return False where it may not resume."""
        if self.phase is not SessionPhase.RUNNING or not self.turn.wait_for_controller():
            return False
        self._subscribers.leave(self.controller)
        self._send(ipc.Hold(self.id, held=True))
        return True

    def is_resumed_by(self, secret: str) -> bool:
        """Return whether a client with this secret may resume the session."""
        if self.phase is not SessionPhase.RUNNING or self.resume_secret is None:
            return False
        return secrets.compare_digest(secret.encode(errors="replace"), self.resume_secret.encode())

    def resume(self, client: Client) -> None:
        """Continue with another connection of the controller, and close the former one."""
        if self.is_vacant:
            self._continue_with(client)
            return
        former, self.controller = self.controller, client
        if self.has_clients:
            self.client_id = client.id
        self.is_broken = False
        client.ids.update({**former.ids, **client.ids})
        self._subscribers.leave(former)
        former.close(CloseCode.SESSION_OVER, "the session goes on over another connection")
        self.turn.controller_returned()
        self._send(ipc.Hold(self.id, held=False))

    def send_step(self, step: Step) -> bool:
        """Send the controller's request for steps, or keep it until the session has started.

        Return False when too many are kept.
        """
        request = ipc.StepRequest(self.id, self.controller.id, step.id, step.n, step.data_json, step.reset, step.seed)
        if self.phase is not SessionPhase.STARTING:
            self._send(request)
        elif len(self._early) < MOST_EARLY:
            self._early.append(request)
        else:
            return False
        return True

    def missing_media(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Return how many came of each track of which fewer than wanted have come since the last call."""
        counts, self._media_counts = self._media_counts, {}
        return {track: counts.get(track, 0) for track, count in wanted.items() if counts.get(track, 0) < count}

    def send_event(self, event: Event, client: Client | None = None) -> bool:
        """Send an event of a client, by default the controller, or keep it until the session has started.

        Return False when too many are kept.
        """
        sender = client or self.controller
        arrived_at = sender.clock.now()
        message = ipc.ClientEvent(self.id, sender.id, event.id, event.type, event.data_json, arrived_at)
        if self.phase is not SessionPhase.STARTING:
            self._send(message)
            return True
        kept = [size_bytes_of(item.data_json) for item in self._early if isinstance(item, ipc.ClientEvent)]
        if len(kept) >= MOST_EARLY or sum(kept) + size_bytes_of(event.data_json) > MOST_EARLY_BYTES:
            return False
        self._early.append(message)
        return True

    def send_media(
        self, track: str, file: bytes, header: MediaHeader | None = None, client: Client | None = None
    ) -> None:
        """Send an image or sound; until the session has started, keep the newest of each track."""
        if self.stepped:
            self._media_counts[track] = self._media_counts.get(track, 0) + 1
        message = ipc.ClientMedia(
            self.id, track, file, client=(client or self.controller).id if self.has_clients else ""
        )
        if header is not None:
            capture_time_us, metadata = header.wall_us or None, header.metadata or None
            # A client that sends no time leaves both fields 0.
            pts = header.pts_us if capture_time_us or header.pts_us else None
            message = dataclasses.replace(message, pts=pts, metadata=metadata, capture_time_us=capture_time_us)
        if self.phase is not SessionPhase.STARTING:
            self._send(message)
            return
        self._early = [item for item in self._early if not (isinstance(item, ipc.ClientMedia) and item.track == track)]
        self._early.append(message)

    def upload_key_of(self, client: str) -> str:
        """Return the key with which one client of a shared session uploads files."""
        of_client = hashlib.blake2b(client.encode(), key=self._upload_secret, digest_size=12)
        return f"{self.upload_key}.{of_client.hexdigest()}"

    def uploader(self, key: str, *, shared: bool) -> str | None:
        """Return the client whose key this is; None for a wrong one, and if the client has left a shared session."""
        of_clients = {self.upload_key_of(each): each for each in self.clients}
        keys = of_clients if shared else {self.upload_key: self.client_id}
        given = key.encode(errors="replace")
        return next((each for known, each in keys.items() if secrets.compare_digest(known.encode(), given)), None)

    def send_upload(self, upload: ipc.UploadedBytes) -> asyncio.Event:
        """Send a file; return an event that is set when the engine has taken it."""
        taken = self._untaken[upload.id] = asyncio.Event()
        self._send(upload)
        return taken

    def on_engine_message(self, message: ipc.Message) -> None:
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
                self.state.update(message.changes)
                self._send_state(message.changes)
            case ipc.InputsTaken():
                self.demand.record(message)
            case ipc.InputLost():
                self.lost_inputs[message.track] = self.lost_inputs.get(message.track, 0) + message.count
                self.controller.metrics.inputs_lost.add(message.kind, message.count)
            case ipc.UploadTaken():
                self._untaken.pop(message.id).set()
            case ipc.Kept():
                kept = {"file": message.file, "message": message.message, "hint": message.hint}
                self.controller.send_message("reactor.keep", {name: value or None for name, value in kept.items()})
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
                logger.error("unexpected message of the engine: %s", type(message).__name__, extra=self.controller.ids)

    def has_progressed(self) -> bool:
        """Return whether `preparing` has changed since the last call."""
        before, self._announced = self._announced, self.preparing
        return before != self.preparing

    def keep_fields(self, names: Collection[str | None]) -> None:
        """Drop the fields of the state that the model does not have any more."""
        self.state = {name: value for name, value in self.state.items() if name in names}

    def _send_notice(self, notice: TurnNotice, seconds: float | None) -> None:
        data = {"phase": notice, "seconds": seconds}
        if notice is TurnNotice.IDLE:
            self.controller.send_message("reactor.session", data)
        else:
            self._subscribers.send_message("reactor.session", data)

    def _receiver_of(self, answer: ipc.EventApplied | ipc.EventRefused) -> Client | None:
        """Return the client that an answer is for; None if it has gone."""
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
        elif message.client == self.client_id and not self.has_clients:
            self.controller.send_alone(text)


def _answer_text(answer: ipc.EventApplied) -> str:
    """Return the message that answers an event; "" for an event without an id, if its handler replies nothing."""
    reply = answer.reply
    if answer.ticket is None:
        return "" if reply is None else encode_text(*reply)
    data: dict[str, Any] = {"n": answer.n}
    if reply is not None:
        data["message"] = {"type": reply[0], "data": reply[1]}
    return encode_text("reactor.reply", data, answer.ticket)
