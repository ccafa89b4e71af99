"""The recorded events and reloads in a replay: each comes after the same step as in the recorded session."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.config import GivenConfig
from reactor_runtime.engine.dispatch import HOST, JOINED, LEFT, CheckedEvent, check_event
from reactor_runtime.engine.inputs.uploads import SessionUploads
from reactor_runtime.engine.session_host import SessionHost
from reactor_runtime.ipc.messages import ClientEvent, ClientJoined, ClientLeft, Pause
from reactor_runtime.recording.entries import EventEntry
from reactor_runtime.recording.file import SessionRecording, StoredReload
from reactor_runtime.testing.comparison import Comparison
from reactor_runtime.testing.replayed_input import ReplayPosition

SESSION = "s-1"


class _RecordedUploads(Mapping[str, UploadedFile]):
    """Map ids to the recorded files, and add one that an event refers to to the session, which keeps the newest 64."""

    def __init__(self, recording: SessionRecording, session: SessionUploads) -> None:
        self._entries = {each.id: each for each in recording.uploads}
        self._session = session

    def __getitem__(self, id: str) -> UploadedFile:
        entry = self._entries[id]
        if id not in self._session:
            name, content_type = entry.name, entry.content_type
            self._session.add(UploadedFile.received(id, entry.content, name=name, content_type=content_type))
        return self._session[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class ReplayedEvents:
    """Send the events of a recording, and repeat its reloads; belongs to the model's loop.

    `configured` returns the config of the replay for a recorded one.
    """

    def __init__(
        self,
        recording: SessionRecording,
        position: ReplayPosition,
        comparison: Comparison,
        configured: Callable[[str], GivenConfig],
    ) -> None:
        self._recording = recording
        # The code that makes frames has to end, and to start again.
        self._reloading = False
        self._inputs = deque(each for each in recording.inputs if not (isinstance(each, EventEntry) and each.skipped))
        self._reloads = deque(recording.reloads)
        self._client = recording.header.client
        # The seats of the clients that are there.
        self._present: dict[str, int | None] = {self._client: recording.header.seat}
        self._position = position
        self._comparison = comparison
        self._configured = configured
        self._attached: tuple[SessionHost, Contract, _RecordedUploads] | None = None

    def attach(self, host: SessionHost, contract: Contract) -> None:
        """Send to this host, whose model has this contract."""
        self._attached = host, contract, _RecordedUploads(self._recording, host.uploads)

    def send_next(self) -> None:
        """Send the next event that is due, unless one is being handled, and pause the model until none is due.

        Only one waits at a time, so that none is superseded by a later one. A reload is repeated where it was recorded.
        """
        while not (self._position.handling or self._reloading) and self._inputs:
            event = self._inputs[0]
            if isinstance(event, StoredReload):
                if self._is_due(event):
                    self._repeat_reload()
                return
            step = self._position.step or 0
            if event.step > step or (event.waiting and event.step == step and not self._position.reading):
                return
            self._inputs.popleft()
            self._send_event(event)

    def _send_event(self, event: EventEntry) -> None:
        host, contract, uploads = self._parts
        if event.name in (JOINED, LEFT):
            self._change_clients(event)
            return
        if event.seat >= contract.seats:
            self._comparison.result.add_other(event.step, f"event {event.name} is of seat {event.seat}")
            return
        sent = ClientEvent(SESSION, event.client or self._client, None, event.name, event.data_json, seat=event.seat)
        checked = check_event(contract.handled_events, sent, uploads)
        if isinstance(checked, CheckedEvent):
            self._position.begin_event(waiting=False)
            host.receive_message(Pause(SESSION, True))
            host.receive_message(checked)
        else:
            self._comparison.result.add_other(event.step, f"event {event.name} is refused: {checked.message}")

    def _change_clients(self, event: EventEntry) -> None:
        """Report to the model that a client has joined or left, as recorded; ignore a repeated report."""
        try:
            values = json.loads(event.data_json)
            client, role, joined_at = str(values["client"]), str(values["role"]), float(values["joined_at"])
            seat = values.get("seat", HOST)
            seat = None if seat is None else int(seat)
            if seat is not None and seat < 0:
                raise ValueError(f"there is no seat {seat}")
        # The file may come from anyone.
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            self._comparison.result.add_other(event.step, f"{event.name} can't be repeated: {error!r:.100}")
            return
        joins = event.name == JOINED
        if joins:
            if client in self._present and self._present[client] == seat:
                return
            self._present[client] = seat
        elif client not in self._present:
            return
        else:
            del self._present[client]
        host = self._parts[0]
        self._position.begin_event(waiting=event.waiting)
        host.receive_message(Pause(SESSION, True))
        if joins:
            host.receive_message(ClientJoined(SESSION, client, role, joined_at, seat))
        else:
            host.receive_message(ClientLeft(SESSION, client))

    def _is_due(self, reload: StoredReload) -> bool:
        """Return whether a reload is due now: its steps and their outputs are made, and it ended no waiting read.

        For code that makes fewer outputs, or does not wait there, it is due a step later.
        """
        step = self._position.step or 0
        if step > reload.step:
            return True
        return step == reload.step and not reload.entry.waiting and self._comparison.outputs >= reload.outputs

    def on_wait(self) -> None:
        """Repeat the next reload while the model waits for an input, if it was recorded at most one step later."""
        reload = self._inputs[0] if self._inputs and not self._reloading else None
        step = self._position.step
        if isinstance(reload, StoredReload) and step is not None and reload.step <= step + 1:
            self._repeat_reload()

    def _repeat_reload(self) -> None:
        self._inputs.popleft()
        reload = self._reloads.popleft()
        reloader = self._parts[0].reloader
        assert reloader is not None, "a studio has one"
        self._reloading = True
        reloader.repeat(self._configured(reload.entry.config) if reload.entry.kind == "loaded" else None)

    def on_reload(self) -> None:
        """Continue after a reload."""
        self._position.actions += 1
        self._position.reloads += 1
        self._reloading = False
        self.send_next()

    def on_applied(self) -> None:
        """Continue after an event was handled."""
        self._position.actions += 1
        self._position.handling = self._position.delays_reads = False
        self._position.wake_reads()
        self.send_next()
        if not self._position.handling:
            self._parts[0].receive_message(Pause(SESSION, False))

    def release_output(self) -> None:
        """Show output while an event is handled: its handler emits, after the output in which the model was paused.

        A read may return meanwhile.
        """
        self._position.delays_reads = False
        self._position.wake_reads()
        self._parts[0].receive_message(Pause(SESSION, False))

    @property
    def discards_output(self) -> bool:
        """Return whether an output that comes now is not in the recording: a reload came first, and discarded it."""
        following = self._reloads[0] if self._reloads else None
        return self._reloading or (following is not None and self._comparison.outputs >= following.outputs)

    @property
    def _parts(self) -> tuple[SessionHost, Contract, _RecordedUploads]:
        assert self._attached is not None, "a studio is attached before it starts the session"
        return self._attached
