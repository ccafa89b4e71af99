"""The engine's ear: a thread reads the seam, answers wrong events at once and posts the rest to the model's loop."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import traceback
from collections.abc import Callable, Iterator

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.engine.dispatch import CheckedEvent, check_event, refusal, too_many
from reactor_runtime.engine.heartbeat import HeartbeatSource, LoadingHeartbeatSource
from reactor_runtime.engine.inputs.uploads import SessionUploads
from reactor_runtime.errors import from_author
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.ipc.channel import Channel

logger = logging.getLogger(__name__)

MOST_EVENTS = 1000
MOST_EVENT_BYTES = 4 << 20


class IpcReader:
    """Read until the server is gone, or asks for the end before there is a loop to end: then the process ends here.

    While the model's loop is held up at most 1,000 events or 4 MiB of them wait for it; further ones are refused.
    """

    def __init__(self, channel: Channel) -> None:
        self.contract: Contract | None = None
        self.on_stop: Callable[[str], None] = lambda _: None  # on this thread, whatever the model's does
        self._channel = channel
        self._heart: HeartbeatSource | LoadingHeartbeatSource = LoadingHeartbeatSource()
        self._post: Callable[[Callable[[], None]], object] | None = None
        self._receive: Callable[[ipc.Message | CheckedEvent], None] = _nobody
        self._push: Callable[[str, str, bytes], None] = _nowhere
        self._uploads = SessionUploads()
        # what was posted is counted by the one thread and what was taken by the other: what waits is the difference
        self._posted, self._posted_bytes = 0, 0
        self._taken, self._taken_bytes = 0, 0

    def attach(
        self,
        loop: asyncio.AbstractEventLoop,
        receive: Callable[[ipc.Message | CheckedEvent], None],
        push: Callable[[str, str, bytes], None],
        uploads: SessionUploads,
        stalled: Callable[[], str],
    ) -> None:
        """Call `receive` on `loop` with what comes from here on, and `push` at once with media; keep `uploads`.

        `stalled` is asked on `loop` where code of the author's in other threads stands still.
        """
        self._heart = HeartbeatSource(functools.partial(_post, loop), stalled)
        self._push = push
        self._uploads = uploads
        self._receive = receive
        self._post = functools.partial(_post, loop)

    def run(self, incoming: Iterator[ipc.Message]) -> None:
        """Read the seam; the thread's body, which ends the process, with status 1 where reading has failed."""
        code = 0
        try:
            self._read(incoming)
        except ConnectionError:
            logger.debug("the server is gone")
        except BaseException:  # noqa: BLE001  (nobody else is there to report it)
            traceback.print_exc()
            code = 1
        os._exit(code)  # no loop can be trusted to end by itself: the author's code may hold the main thread

    def _read(self, incoming: Iterator[ipc.Message]) -> None:
        for message in incoming:
            if isinstance(message, ipc.ClientEvent):
                self._take_event(message)
            elif isinstance(message, ipc.ClientMedia):
                self._push(message.session, message.track, message.file)
            elif isinstance(message, ipc.UploadedBytes):
                self._uploads.take(message)
                self._channel.send(ipc.UploadTaken(message.session, message.id))
            elif isinstance(message, ipc.HeartbeatRequest):
                self._channel.send(self._heart.pulse())
            elif self._post is not None:
                self._post(functools.partial(self._receive, message))
                if isinstance(message, ipc.StopSession):
                    self.on_stop(message.session)
            elif isinstance(message, ipc.Shutdown):
                return

    def _take_event(self, event: ipc.ClientEvent) -> None:
        size = len(event.data_json)
        waiting, waiting_bytes = self._posted - self._taken, self._posted_bytes - self._taken_bytes
        if waiting >= MOST_EVENTS or waiting_bytes + size > MOST_EVENT_BYTES:
            self._channel.send(too_many(event))
            return
        checked = self._check(event)
        if isinstance(checked, ipc.EventRefused):
            self._channel.send(checked)
        elif self._post is not None:
            self._posted, self._posted_bytes = self._posted + 1, self._posted_bytes + size
            self._post(functools.partial(self._deliver, checked, size))

    def _check(self, event: ipc.ClientEvent) -> CheckedEvent | ipc.EventRefused:
        """Check an event; whatever the author's code raises in that becomes an error reply."""
        assert self.contract is not None, "a session begins when the model is loaded"
        try:
            return check_event(self.contract.events, event, self._uploads)
        except BaseException as error:
            logger.error("the values of event %s could not be checked", event.name, exc_info=from_author(error))
            return refusal(event, "internal_error", f"the values of {event.name} could not be checked")

    def _deliver(self, checked: CheckedEvent, size: int) -> None:
        self._taken, self._taken_bytes = self._taken + 1, self._taken_bytes + size
        self._receive(checked)


def _post(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """Call back on the loop; once it is closed the process is about to end, and nothing waits for an answer."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        if not loop.is_closed():
            raise


def _nobody(message: ipc.Message | CheckedEvent) -> None:
    raise AssertionError(f"{type(message).__name__} before there was a loop")


def _nowhere(session: str, track: str, file: bytes) -> None:  # noqa: ARG001
    raise AssertionError("media before there was a loop")
