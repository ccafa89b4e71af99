"""The way in: events and media of the controller go on to the model, everything else is answered with the reason."""

from __future__ import annotations

from typing import Any

from reactor_runtime.errors import WireError
from reactor_runtime.media import jpeg, wav
from reactor_runtime.server.connection import Connection, Role
from reactor_runtime.server.lobby import Engine, Lobby
from reactor_runtime.server.session import Session, SessionPhase
from reactor_runtime.server.supervisor import EnginePhase
from reactor_runtime.wire.media_header import detach
from reactor_runtime.wire.messages import Event
from reactor_runtime.wire.protocol import ErrorCode


class Intake:
    """Decide who may send what to the model; belongs to the server's loop."""

    def __init__(self, lobby: Lobby, engine: Engine) -> None:
        self._lobby = lobby
        self._engine = engine

    def event(self, connection: Connection, event: Event) -> None:
        """Pass an event on to the model, if it comes from the controller; otherwise answer why not."""
        session = self._session_of(connection)
        if session is None:
            code, why = ErrorCode.NOT_CONTROLLER, self._why_not(connection)
        else:
            session.turn.sign()
            if not self._engine.busy and session.send_event(event):
                return
            code, why = ErrorCode.RATE_LIMITED, "the model is behind with its events; send fewer"
        connection.error(code, f"{why}: {event.type} changed nothing", message_id=event.id, event=event.type)

    def media(self, connection: Connection, data: bytes) -> None:
        """Pass a picture or a piece of sound on to the model; what it can't take is answered with the reason.

        Only the header is read here: pixels are decoded where and when they are needed.
        """
        session = self._session_of(connection)
        if session is None:
            connection.error(ErrorCode.NOT_CONTROLLER, f"{self._why_not(connection)}: the binary message was dropped")
            return
        session.turn.sign()
        try:
            track, file = self._address(data)
        except WireError as error:
            connection.error(error.code, f"{error.message}: the binary message was dropped")
            return
        if not self._engine.busy:  # a model that far behind has no use for it: the newest counts
            session.send_media(track, file)

    def here(self, connection: Connection) -> None:
        """Take note that a client has given a sign; only the controller's matters."""
        session = self._session_of(connection)
        if session is not None:
            session.turn.sign()

    def _why_not(self, connection: Connection) -> str:
        if connection.role is Role.VIEWER:
            return "viewers send nothing to the model"
        return "the model is loading" if self._engine.phase is EnginePhase.LOADING else "wait for your turn"

    def _session_of(self, connection: Connection) -> Session | None:
        session = self._lobby.session
        if session is None or session.controller is not connection or session.phase is SessionPhase.STOPPING:
            return None
        return session

    def _address(self, data: bytes) -> tuple[str, bytes]:
        """Find the input track a file is for, and give the file without our header."""
        if not self._tracks():
            raise WireError(ErrorCode.UNKNOWN_TRACK, "the model takes no video or sound")
        header, file = detach(data)
        kind = "video" if file[:2] == b"\xff\xd8" else "audio"
        tracks = [track for track in self._tracks() if track["kind"] == kind]
        if header is not None:
            tracks = [track for track in tracks if track["name"] == header.track]
        if not tracks:
            wanted = f"no {kind} input {header.track!r}" if header is not None else f"no {kind} input"
            known = ", ".join(f"{track['name']} ({track['kind']})" for track in self._tracks())
            raise WireError(ErrorCode.UNKNOWN_TRACK, f"the model has {wanted}; its inputs: {known}")
        if kind == "video":
            jpeg.read_header(file)
        else:
            _check_rate(tracks[0], wav.read_header(file).sample_rate)
        name: str = tracks[0]["name"]
        return name, file

    def _tracks(self) -> list[dict[str, Any]]:
        contract = self._engine.contract or {"tracks": []}
        return [track for track in contract["tracks"] if track["direction"] == "in"]


def _check_rate(track: dict[str, Any], sample_rate: int) -> None:
    name, wanted = track["name"], track["sample_rate"]
    if sample_rate != wanted:
        raise WireError(
            ErrorCode.BAD_MEDIA, f"WAV at {sample_rate} Hz for {name}, which takes {wanted} Hz; resample it to that"
        )
