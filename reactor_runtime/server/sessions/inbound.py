"""Messages from clients: events and media of those that may send are sent to the engine, others are refused.

`routes/websocket.py` limits sizes and rates before; the engine checks events against the contract.
"""

from __future__ import annotations

from typing import Any

from reactor_runtime.errors import WireError
from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.media import jpeg, npy, wav
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.engine_slot import EngineSlot
from reactor_runtime.server.sessions.input_tracks import SOURCE_S
from reactor_runtime.server.sessions.session import ServedSession, SessionPhase
from reactor_runtime.server.sessions.slot import S
from reactor_runtime.server.sessions.slot_pool import SlotPool
from reactor_runtime.server.workers.engine import Engine
from reactor_runtime.wire.containers import INPUTS, NPY, required_container_of
from reactor_runtime.wire.media_header import MediaHeader
from reactor_runtime.wire.messages import Event, Keep, Step


class Inbound:
    """Route messages of clients to the engines of their sessions; use on the server's loop."""

    has_stepped_sessions = True

    def __init__(self, admission: Admission[EngineSlot]) -> None:
        self._admission = admission

    def route_event(self, client: Client, event: Event) -> None:
        """Send an event to the engine of the client's session, or answer with an error."""
        served = self._sends_to(client)
        if served is None:
            code, why = ErrorCode.NOT_CONTROLLER, why_not(client, self._admission.slots)
        else:
            session, engine = served
            session.record_activity(client)
            if not engine.busy and session.send_event(event, client):
                return
            code, why = ErrorCode.RATE_LIMITED, "the model is behind with its events; send fewer"
        client.send_error(code, f"{why}: {event.type} changed nothing", message_id=event.id, event=event.type)

    def route_step(self, client: Client, step: Step) -> None:
        """Send a request for steps to the engine of the session that a client controls, or answer with an error."""
        served = self._served(client)
        if served is None:
            is_viewer = client.role is Role.VIEWER
            code = ErrorCode.NOT_CONTROLLER if is_viewer else ErrorCode.NOT_READY
            client.send_error(code, f"{why_not(client, self._admission.slots)}: no step was made", message_id=step.id)
            return
        session, engine = served
        session.record_activity(client)
        if not session.stepped:
            code, why = ErrorCode.NOT_READY, "the session steps by itself: connect with generation=stepped"
        elif missing := session.inputs.missing_media(step.media):
            fields = [
                {"path": f"media.{track}", "message": f"{count} of {step.media[track]} came"}
                for track, count in missing.items()
            ]
            why = "; ".join(f"{field['path']}: {field['message']}" for field in fields)
            client.send_error(ErrorCode.REFUSED, why, message_id=step.id, fields=fields)
            return
        elif not engine.busy and session.send_step(step):
            return
        else:
            code, why = ErrorCode.RATE_LIMITED, "the model is behind; send fewer"
        client.send_error(code, f"{why}: no step was made", message_id=step.id)

    def route_media(self, client: Client, data: bytes) -> None:
        """Send an image or a sound to the engine of the client's session, or answer with an error.

        Only the header is read here; the engine decodes the rest when the model reads it.
        """
        served = self._sends_to(client)
        if served is None:
            client.send_error(
                ErrorCode.NOT_CONTROLLER, f"{why_not(client, self._admission.slots)}: the binary message was dropped"
            )
            return
        session, engine = served
        session.record_activity(client)
        try:
            track, file, header = _address(data, engine)
        except WireError as error:
            client.send_error(error.code, f"{error.message}: the binary message was dropped")
            return
        now = client.clock.now()
        if session.has_senders and not session.inputs.claim(track, client.id, now):
            if session.inputs.answers_refusal(track, client.id, now):
                client.send_error(
                    ErrorCode.NOT_CONTROLLER,
                    f"another client of the session sends {track}: binary messages are dropped until that client has "
                    f"left, or has sent nothing for {SOURCE_S:g} s",
                )
            return
        # An engine with a backlog would read it too late: media is dropped without an answer.
        if not engine.busy:
            session.send_media(track, file, header, client)

    def refuse_dropped(self, client: Client) -> None:
        """Answer a message that was too large to be kept for a client without a session."""
        client.send_error(
            ErrorCode.NOT_CONTROLLER, f"{why_not(client, self._admission.slots)}: the message was dropped"
        )

    def controls(self, client: Client) -> bool:
        """Return whether a client controls a session that is not ending."""
        return self._served(client) is not None

    def may_send(self, client: Client) -> bool:
        """Return whether a client may send events to a session that is not ending: it controls it, or it is shared."""
        return self._sends_to(client) is not None

    def record_activity(self, client: Client) -> None:
        """Restart the idle timeout of the session that a client sends to."""
        served = self._sends_to(client)
        if served is not None:
            served[0].record_activity(client)

    def keep_recording(self, client: Client, keep: Keep) -> None:
        """Save a recording of the session that a client controls; the engine's answer is for this client."""
        served = self._served(client)
        if served is None or served[0].phase is SessionPhase.STARTING:
            why = "the session has not started: there is nothing to keep"
            client.send_error(ErrorCode.NOT_CONTROLLER, why, message_id=keep.id)
        else:
            served[0].keep_recording(client, keep.id)

    def _sends_to(self, client: Client) -> tuple[ServedSession, Engine] | None:
        """Return the session that a client may send to, and its engine."""
        served = self._served(client)
        if served is not None:
            return served
        slot = self._admission.slots.watched_by(client)
        if slot is None or not slot.shared or slot.session is None or slot.session.phase is not SessionPhase.RUNNING:
            return None
        return slot.session, slot.engine

    def _served(self, client: Client) -> tuple[ServedSession, Engine] | None:
        """Return the session that a client controls, and its engine."""
        slot = self._admission.slots.controlled_by(client)
        if slot is None or slot.session is None or slot.session.phase is SessionPhase.STOPPING:
            return None
        return slot.session, slot.engine


def why_not(client: Client, slots: SlotPool[S]) -> str:
    """Return why a client that controls no session can't send to a model."""
    if client.role is Role.VIEWER:
        return "viewers send nothing to the model"
    return "wait for your turn" if slots.loading_message() is None else "the model is loading"


def _address(data: bytes, engine: Engine) -> tuple[str, bytes, MediaHeader | None]:
    """Return the name of the input track that a file is for, the file without the media header, and the header."""
    inputs = [track for track in (engine.contract or {"tracks": []})["tracks"] if track["direction"] == "in"]
    if not inputs:
        raise WireError(ErrorCode.UNKNOWN_TRACK, "the model takes no video or sound")
    container = required_container_of(data, INPUTS)
    header, file = container.detach(data)
    kind = container.kind
    tracks = [track for track in inputs if track["kind"] == kind]
    if header is not None:
        tracks = [track for track in tracks if track["name"] == header.track]
    if not tracks:
        wanted = f"no {kind} input {header.track!r}" if header is not None else f"no {kind} input"
        known = ", ".join(f"{track['name']} ({track['kind']})" for track in inputs)
        raise WireError(ErrorCode.UNKNOWN_TRACK, f"the model has {wanted}; its inputs: {known}")
    if container is NPY:
        npy.read_size(file)
    elif kind == "video":
        jpeg.read_header(file)
    else:
        _check_rate(tracks[0], wav.read_header(file).sample_rate)
    name: str = tracks[0]["name"]
    return name, file, header


def _check_rate(track: dict[str, Any], sample_rate: int) -> None:
    name, wanted = track["name"], track["sample_rate"]
    if sample_rate != wanted:
        raise WireError(
            ErrorCode.BAD_MEDIA, f"WAV at {sample_rate} Hz for {name}, which takes {wanted} Hz; resample it to that"
        )
