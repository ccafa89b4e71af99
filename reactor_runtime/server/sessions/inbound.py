"""The way in: events and media of the controller go on to the model, everything else is answered with the reason."""

from __future__ import annotations

from typing import Any

from reactor_runtime.error_codes import ErrorCode
from reactor_runtime.errors import WireError
from reactor_runtime.media import jpeg, wav
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.session import ServedSession, SessionPhase
from reactor_runtime.server.sessions.slot import SlotEngine
from reactor_runtime.wire.media_header import detach, media_kind
from reactor_runtime.wire.messages import Event


class Inbound:
    """Decide who may send what to the model; belongs to the server's loop."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def event(self, client: Client, event: Event) -> None:
        """Pass an event on to the model, if it comes from the controller; otherwise answer why not."""
        served = self._served(client)
        if served is None:
            code, why = ErrorCode.NOT_CONTROLLER, self._why_not(client)
        else:
            session, engine = served
            session.turn.sign()
            if not engine.busy and session.send_event(event):
                return
            code, why = ErrorCode.RATE_LIMITED, "the model is behind with its events; send fewer"
        client.error(code, f"{why}: {event.type} changed nothing", message_id=event.id, event=event.type)

    def media(self, client: Client, data: bytes) -> None:
        """Pass a picture or a piece of sound on to the model; what it can't take is answered with the reason.

        Only the header is read here: pixels are decoded where and when they are needed.
        """
        served = self._served(client)
        if served is None:
            client.error(ErrorCode.NOT_CONTROLLER, f"{self._why_not(client)}: the binary message was dropped")
            return
        session, engine = served
        session.turn.sign()
        try:
            track, file = _address(data, engine)
        except WireError as error:
            client.error(error.code, f"{error.message}: the binary message was dropped")
            return
        if not engine.busy:  # a model that far behind has no use for it: the newest counts
            session.send_media(track, file)

    def dropped(self, client: Client) -> None:
        """Answer a message that was too large to be kept for a client that may send none to the model."""
        client.error(ErrorCode.NOT_CONTROLLER, f"{self._why_not(client)}: the message was dropped")

    def controls(self, client: Client) -> bool:
        """Tell whether what a client sends goes to the model."""
        return self._served(client) is not None

    def here(self, client: Client) -> None:
        """Take note that a client has given a sign; only the controller's matters."""
        served = self._served(client)
        if served is not None:
            served[0].turn.sign()

    def _why_not(self, client: Client) -> str:
        if client.role is Role.VIEWER:
            return "viewers send nothing to the model"
        return "wait for your turn" if self._admission.slots.loading_phase() is None else "the model is loading"

    def _served(self, client: Client) -> tuple[ServedSession, SlotEngine] | None:
        """Find the session that a client controls, and the engine that serves it."""
        slot = self._admission.slots.controlled_by(client)
        if slot is None or slot.session is None or slot.session.phase is SessionPhase.STOPPING:
            return None
        return slot.session, slot.engine


def _address(data: bytes, engine: SlotEngine) -> tuple[str, bytes]:
    """Find the input track a file is for, and give the file without our header."""
    inputs = [track for track in (engine.contract or {"tracks": []})["tracks"] if track["direction"] == "in"]
    if not inputs:
        raise WireError(ErrorCode.UNKNOWN_TRACK, "the model takes no video or sound")
    header, file = detach(data)
    kind = media_kind(file)
    tracks = [track for track in inputs if track["kind"] == kind]
    if header is not None:
        tracks = [track for track in tracks if track["name"] == header.track]
    if not tracks:
        wanted = f"no {kind} input {header.track!r}" if header is not None else f"no {kind} input"
        known = ", ".join(f"{track['name']} ({track['kind']})" for track in inputs)
        raise WireError(ErrorCode.UNKNOWN_TRACK, f"the model has {wanted}; its inputs: {known}")
    if kind == "video":
        jpeg.read_header(file)
    else:
        _check_rate(tracks[0], wav.read_header(file).sample_rate)
    name: str = tracks[0]["name"]
    return name, file


def _check_rate(track: dict[str, Any], sample_rate: int) -> None:
    name, wanted = track["name"], track["sample_rate"]
    if sample_rate != wanted:
        raise WireError(
            ErrorCode.BAD_MEDIA, f"WAV at {sample_rate} Hz for {name}, which takes {wanted} Hz; resample it to that"
        )
