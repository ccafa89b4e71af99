"""The items that were received and the items to send, between the methods of a session and its connection.

Has no sockets; `connection.py` moves the items.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from reactor_runtime.client.address import Role
from reactor_runtime.client.errors import ClientError, ConnectionLost
from reactor_runtime.client.media import (
    DECODERS,
    Decoder,
    Frame,
    NewestFrames,
    ReceivedSound,
    read_frame,
    read_header,
    read_sound,
)
from reactor_runtime.client.messages import Message, write
from reactor_runtime.client.protocol import ClientProtocol, SessionScope
from reactor_runtime.client.send_queue import SendQueue
from reactor_runtime.client.status import Phase
from reactor_runtime.client.steps import StepCollector
from reactor_runtime.client.video import CODEC, VideoError, VideoStreams
from reactor_runtime.errors import WireError
from reactor_runtime.wire.containers import WAV, Container, required_container_of
from reactor_runtime.wire.protocol import RESERVED_PREFIX

logger = logging.getLogger(__name__)


class Signal:
    """Wake all tasks that wait for a change; each then checks its own condition. Belongs to one loop."""

    def __init__(self) -> None:
        self._next: asyncio.Future[None] | None = None

    def notify_all(self) -> None:
        """Wake the tasks that wait now."""
        if self._next is not None and not self._next.done():
            self._next.set_result(None)
        self._next = None

    async def wait(self) -> None:
        """Wait for the next `notify_all`."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        # Shielded, because the future is shared: one cancelled task must not cancel the others.
        await asyncio.shield(self._next)


class SessionStreams:
    """Sort received items and collect items to send. Belongs to one loop.

    `changed` signals a received item or a new status, `outgoing` an item to send, `sent` that the queue is empty or
    cannot be sent any more.
    """

    def __init__(
        self, role: Role, *, decoders: Mapping[Container, Decoder] = DECODERS, video: VideoStreams | None = None
    ) -> None:
        self.protocol = ClientProtocol(role)
        self._decoders = decoders
        self._containers = (*decoders, WAV)
        self.video = video or VideoStreams()
        self.frames = NewestFrames()
        self.sound = ReceivedSound()
        self.steps = StepCollector()
        self.send_queue = SendQueue()
        self.changed = Signal()
        self.outgoing = Signal()
        self.sent = Signal()
        self._polled: set[str] = set()
        self._view: dict[str, Any] | None = None
        # The session and the seat whose frames arrive.
        self._seen: tuple[str, int] | None = None
        self._scope = self.protocol.scope

    @property
    def sending_stopped(self) -> bool:
        """Return whether nothing can be sent before the status changes."""
        return self.protocol.status.phase is Phase.RECONNECTING or self.protocol.final_error is not None

    async def wait_until(self, condition: Callable[[], bool], scope: SessionScope) -> None:
        """Wait until `condition` is true of the received items, or until the scope ends."""
        while scope.error is None and not condition():
            await self.changed.wait()

    async def wait_until_ready(self) -> None:
        """Wait for a controller's turn, or for a viewer's welcome. Raises the error that ended the session."""
        scope = self.protocol.scope
        await self.wait_until(lambda: self.protocol.ready, scope)
        scope.check()

    def receive(self, item: str | bytes, now: float, wall_s: float) -> None:
        """Apply a received item; a malformed one is logged and ignored."""
        try:
            if isinstance(item, bytes):
                self._receive_media(item, now, wall_s)
            else:
                message = Message.from_text(item)
                if not message.type.startswith(RESERVED_PREFIX):
                    self.steps.add_message(message)
                self.protocol.receive_message(message, now, wall_s)
                self._follow_session()
                if message.type == "reactor.welcome" and self._has_video and self.video.codecs:
                    self._send_view()
        except (WireError, LookupError, ValueError, TypeError) as error:
            logger.warning("the server sent a malformed message: %s: %s", type(error).__name__, error)
        self.changed.notify_all()

    async def receive_video(self, data: bytes, now: float, wall_s: float) -> None:
        """Decode a message of a video stream on a thread, and apply it.

        The caller receives the next item after that: the messages of a stream are decoded in order.
        """
        try:
            decoded = await asyncio.to_thread(self.video.decode, data)
            delay_s = self.protocol.clock.age_s(decoded.header.wall_us, wall_s)
            frame = read_frame(
                decoded.header,
                data,
                decoded.decode,
                delay_s=delay_s,
                arrived_s=now,
                number=decoded.number,
                earlier=decoded.earlier,
            )
            self._put_frame(frame, now)
        except VideoError as error:
            self._request_video(error, now)
        except WireError as error:
            logger.warning("the server sent a malformed message: %s", error)
        self.changed.notify_all()

    def send_text(self, text: str) -> None:
        """Send a text as soon as the connection allows."""
        self.send_queue.put_text(text)
        self.outgoing.notify_all()

    def set_view(self, view: dict[str, Any]) -> None:
        """Send this `reactor.view` now and after each break; a view without a seat keeps the last one."""
        last = self._view or {}
        self._view = {**view, "seat": last["seat"]} if "seat" in last and "seat" not in view else view
        self._send_view()

    def poll_frame(self, track: str) -> Frame | None:
        """Return the newest frame of a track; from the first call on, its frames are acknowledged on arrival.

        Without that, a program that polls seldom would get a frame from just after its last call.
        """
        frame = self.frames.newest(track)
        if track not in self._polled and frame is not None:
            self.acknowledge(frame)
        self._polled.add(track)
        return frame

    def acknowledge(self, frame: Frame, now: float | None = None) -> None:
        """Send that a frame was taken, `now` or on arrival."""
        self.send_queue.put_ack(frame.track, frame.seq, 0.0 if now is None else now - frame.arrived_s)
        self.outgoing.notify_all()

    def on_connection_lost(self, error: ConnectionLost) -> None:
        """Drop the items to send, apart from the view; the connection may be restored."""
        self.protocol.on_connection_lost(error)
        self._restart_sending()

    def on_redirected(self) -> None:
        """Drop the items to send, apart from the view; the status stays, because the connection continues."""
        self.protocol.reject_events(ConnectionLost("the server redirected this client before it answered"))
        self._restart_sending()

    def on_reconnected(self) -> None:
        self.protocol.on_reconnected()
        self._follow_session()
        self.changed.notify_all()

    def end_session(self, error: ClientError) -> None:
        """End the session with `error`; the client continues."""
        self.protocol.end_session(error)
        self.changed.notify_all()

    def end_client(self, error: ClientError) -> None:
        """End the client: all waits raise `error`."""
        self.protocol.end_client(error)
        self.send_queue.clear()
        self.changed.notify_all()
        self.sent.notify_all()

    def _restart_sending(self) -> None:
        self.send_queue.clear()
        self.video.reset()
        if self._view is not None:
            self._send_view()
        self.changed.notify_all()
        self.sent.notify_all()

    def _follow_session(self) -> None:
        """Drop frames and acknowledgements of another session or seat: the numbers start again.

        A controller whose session was lost gets another session, and no frames that arrived before it.
        """
        session, scope = self.protocol.status.session, self.protocol.scope
        seen = self._seen if session is None else (session, self.protocol.welcome.seat)
        if seen != self._seen or scope is not self._scope:
            self._seen, self._scope = seen, scope
            self.frames.clear()
            self.video.restart()
            self.send_queue.reset_acks()
        if session is None:
            self.frames.end_session()

    def _receive_media(self, data: bytes, now: float, wall_s: float) -> None:
        container = required_container_of(data, self._containers)
        header = read_header(container, data)
        delay_s = self.protocol.clock.age_s(header.wall_us, wall_s)
        if container is WAV:
            sound = read_sound(header, data, delay_s=delay_s)
            self.sound.put_sound(sound)
            self.steps.add_media(sound)
        else:
            self._put_frame(read_frame(header, data, self._decoders[container], delay_s=delay_s, arrived_s=now), now)

    def _put_frame(self, frame: Frame, now: float) -> None:
        self.protocol.input_delay.on_frame(frame.applied, now)
        self.steps.add_media(frame)
        is_new = self.frames.put_frame(frame)
        if frame.track in self._polled or not is_new:
            self.acknowledge(frame)

    def _request_video(self, error: VideoError, now: float) -> None:
        """Request a stream anew that can't be decoded, or do without video after several errors."""
        if not error.lacks_key:
            logger.warning("a frame of video can't be decoded track=%s error=%s", error.track, error)
        if self.video.must_request(error, now):
            self.send_text(write("reactor.key", {"track": error.track}))
        elif not self.video.codecs:
            self._send_view()

    @property
    def _has_video(self) -> bool:
        # A stepped session skips no frames.
        welcome = self.protocol.welcome
        return CODEC in welcome.encodings and not welcome.stepped

    def _send_view(self) -> None:
        view = self._view or {}
        if self._has_video and view.get("codecs") is None:
            view = {**view, "codecs": self.video.codecs}
        self.send_text(write("reactor.view", view))
