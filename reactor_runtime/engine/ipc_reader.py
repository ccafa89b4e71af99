"""The thread that reads the server's messages; it refuses invalid events at once and posts the rest to the loop."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from reactor_runtime.engine.dispatch import CheckedEvent, check_event, refusal, too_many
from reactor_runtime.engine.host import Host
from reactor_runtime.engine.liveness import HeartbeatSource, LoadingHeartbeatSource
from reactor_runtime.engine.seat_queue import has_room
from reactor_runtime.engine.session_host import SessionHost
from reactor_runtime.errors import from_author
from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.ipc.channel import Channel

logger = logging.getLogger(__name__)

SHARED = "several sessions share the loaded model"


@dataclass(frozen=True, slots=True)
class _Attached:
    """Hold a host, its slots, and the functions that `attach` describes; `post` calls back on the host's loop."""

    host: Host
    slots: tuple[_Slot, ...]
    post: Callable[[Callable[[], None]], None]
    heartbeat: HeartbeatSource
    keep: Callable[[int, str], object]
    on_save: Callable[[Callable[[], None]], object]


class _Slot:
    """Count the events that wait for a blocked loop, and post the others to a session host."""

    def __init__(self, index: int, host: SessionHost) -> None:
        self.index = index
        self.host = host
        # The numbers and bytes of the events of each seat. Only the thread writes the first and only the loop the
        # second, so neither needs a lock. The difference is the events that wait.
        self._posted: dict[int | None, tuple[int, int]] = {}
        self._taken: dict[int | None, tuple[int, int]] = {}

    def is_full(self, seat: int, size: int) -> bool:
        """Return whether an event of this size would be one too many of its seat."""
        waiting = {}
        for each, (posted, posted_bytes) in self._posted.items():
            taken, taken_bytes = self._taken.get(each, (0, 0))
            waiting[each] = posted - taken, posted_bytes - taken_bytes
        return not has_room(waiting, seat, size)

    def post_event(self, checked: CheckedEvent, size: int, post: Callable[[Callable[[], None]], None]) -> None:
        _add(self._posted, checked.event.seat, size)
        post(functools.partial(self._deliver, checked, size))

    def _deliver(self, checked: CheckedEvent, size: int) -> None:
        _add(self._taken, checked.event.seat, size)
        self.host.receive_message(checked)


def _add(counts: dict[int | None, tuple[int, int]], seat: int, size: int) -> None:
    count, size_bytes = counts.get(seat, (0, 0))
    counts[seat] = count + 1, size_bytes + size


class IpcReader:
    """Read until the server closes the channel, or sends Shutdown while the model loads; then end the process.

    Once the channel is finished, the process ends by itself.

    At most 1,000 events or 4 MiB of events of a slot wait for a blocked loop, divided by the seats that have any;
    further events are refused.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._loading_heartbeat = LoadingHeartbeatSource()
        self._attached: _Attached | None = None

    def attach(
        self,
        loop: asyncio.AbstractEventLoop,
        host: Host,
        *,
        keep: Callable[[int, str], object] = lambda _slot, _session: None,
        on_save: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        """Deliver messages to `host` from here on: media and uploads at once, all others on `loop`.

        `keep` gets the slots and sessions of KeepRecording. `on_save` gets a function for each reload, on this thread
        and at once, because a step may take long, and calls the function on the loop.
        """
        post = functools.partial(_post, loop)
        slots = tuple(_Slot(index, slot) for index, slot in enumerate(host.slots))
        self._attached = _Attached(host, slots, post, HeartbeatSource(post, host.stalled), keep, on_save or post)

    def run(self, incoming: Iterator[tuple[int, ipc.Message]]) -> None:
        """Read all messages, then end the process, with status 1 if reading failed; the target of the thread."""
        code = 0
        try:
            self._read(incoming)
        except ConnectionError:
            logger.debug("the server is gone")
        # The process ends here, so nothing else can report it.
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
            code = 1
        # The loop can't end the process while the author's code blocks the main thread.
        if not self._channel.finished:
            os._exit(code)

    def _read(self, incoming: Iterator[tuple[int, ipc.Message]]) -> None:
        for slot, message in incoming:
            attached = self._attached
            if attached is not None:
                self._receive(attached.slots[slot], message, attached)
            elif isinstance(message, ipc.HeartbeatRequest):
                self._channel.send(self._loading_heartbeat.beat())
            elif isinstance(message, ipc.Shutdown):
                return

    def _receive(self, slot: _Slot, message: ipc.Message, attached: _Attached) -> None:
        host = slot.host
        if isinstance(message, ipc.ClientEvent):
            self._receive_event(slot, message, attached)
        elif isinstance(message, ipc.ClientMedia):
            host.inputs.push_media(message)
        elif isinstance(message, ipc.UploadedBytes):
            host.uploads.receive_file(message)
            self._channel.send(ipc.UploadTaken(message.session, message.id), slot.index)
        elif isinstance(message, ipc.HeartbeatRequest):
            # A load may take any time.
            self._channel.send(ipc.Heartbeat(False, "") if attached.host.loads_again else attached.heartbeat.beat())
        elif isinstance(message, ipc.KeepRecording):
            attached.keep(slot.index, message.session)
        elif isinstance(message, ipc.ReloadFiles) and attached.host.reloader is None:
            # At once: a step of one of the sessions may never end.
            self._channel.send(ipc.Reloaded("restarting", SHARED))
        elif isinstance(message, ipc.ReloadFiles | ipc.Shutdown):
            post = attached.on_save if isinstance(message, ipc.ReloadFiles) else attached.post
            post(functools.partial(attached.host.receive_message, message))
        else:
            attached.post(functools.partial(host.receive_message, message))
            if isinstance(message, ipc.StopSession):
                host.watch_end(message.session)

    def _receive_event(self, slot: _Slot, event: ipc.ClientEvent, attached: _Attached) -> None:
        size = len(event.data_json)
        if slot.is_full(event.seat, size):
            self._channel.send(too_many(event), slot.index)
            return
        checked = _check(event, slot.host)
        if isinstance(checked, ipc.EventRefused):
            self._channel.send(checked, slot.index)
            return
        slot.post_event(checked, size, attached.post)


def _check(event: ipc.ClientEvent, slot: SessionHost) -> CheckedEvent | ipc.EventRefused:
    """Check an event; an exception of the author's code becomes an error reply."""
    try:
        return check_event(slot.served.contract.events, event, slot.uploads)
    except BaseException as error:
        logger.error("the values of event %s could not be checked", event.name, exc_info=from_author(error))
        return refusal(event, ErrorCode.INTERNAL_ERROR, f"the values of {event.name} could not be checked")


def _post(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """Call back on the loop; do nothing if it is closed, because then the process is about to end."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        if not loop.is_closed():
            raise
