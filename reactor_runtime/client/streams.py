"""What has come and what is to go: where the verbs of a session meet its connection."""

from __future__ import annotations

import logging
from collections.abc import Callable

from reactor_runtime.client.address import Role
from reactor_runtime.client.errors import ClientError, ConnectionLost
from reactor_runtime.client.incoming import NewestFrames, ReceivedSound
from reactor_runtime.client.media import Frame, read_frame, read_header, read_sound
from reactor_runtime.client.message import Message
from reactor_runtime.client.outgoing import SendQueue
from reactor_runtime.client.protocol import ClientProtocol, SessionScope
from reactor_runtime.client.signal import Signal
from reactor_runtime.client.status import Phase
from reactor_runtime.errors import WireError

logger = logging.getLogger(__name__)


class SessionStreams:
    """Sort what comes, and ring `changed`; collect what is to go, and ring `outgoing`. Belongs to one loop.

    `sent` rings when all of it has gone, and when it can't go any more.
    """

    def __init__(self, role: Role) -> None:
        self.conversation = ClientProtocol(role)
        self.pictures = NewestFrames()
        self.sounds = ReceivedSound()
        self.outbox = SendQueue()
        self.changed = Signal()
        self.outgoing = Signal()
        self.sent = Signal()
        self._polled: set[str] = set()
        self._view: str | None = None
        self._session: str | None = None

    @property
    def stuck(self) -> bool:
        """Whether nothing that waits will be sent before something has changed."""
        return self.conversation.status.phase is Phase.RECONNECTING or self.conversation.over is not None

    async def until(self, condition: Callable[[], bool], scope: SessionScope) -> None:
        """Wait for something to be true of what has come, or for the end of the scope."""
        while scope.error is None and not condition():
            await self.changed.wait()

    async def turn(self) -> None:
        """Wait for the turn of a controller, or for a viewer to know the model. Raise why the session ended before."""
        scope = self.conversation.scope
        await self.until(lambda: self.conversation.ready, scope)
        scope.check()

    def receive(self, item: str | bytes, now: float, wall_s: float) -> None:
        """Take what came; what can't be understood is logged, and no reason to stop."""
        try:
            if isinstance(item, bytes):
                self._file(item, now, wall_s)
            else:
                self.conversation.hear(Message.read(item), now, wall_s)
                self._begin()
        except (WireError, LookupError, ValueError, TypeError) as error:
            logger.warning("the server sent what can't be understood: %s: %s", type(error).__name__, error)
        self.changed.ring()

    def say(self, text: str) -> None:
        """Send a text as soon as that is possible."""
        self.outbox.say(text)
        self.outgoing.ring()

    def view(self, text: str) -> None:
        """Send what this client wants to see, now and after each break."""
        self._view = text
        self.say(text)

    def poll(self, track: str) -> Frame | None:
        """Return the newest frame of a track; from here on its frames are acknowledged as they come.

        Who looks only now and then would otherwise find what came after the last look, and nothing newer.
        """
        frame = self.pictures.newest(track)
        if track not in self._polled and frame is not None:
            self.acknowledge(frame)
        self._polled.add(track)
        return frame

    def acknowledge(self, frame: Frame) -> None:
        """Tell the server that a frame was taken."""
        self.outbox.acknowledge(frame.track, frame.seq)
        self.outgoing.ring()

    def broken(self, error: ConnectionLost) -> None:
        """Take note of a break that may be mended."""
        self.outbox.clear()
        self.conversation.broken(error)
        if self._view is not None:
            self.outbox.say(self._view)
        self.changed.ring()
        self.sent.ring()

    def lose(self, error: ClientError) -> None:
        """End what belongs to the session with `error`."""
        self.conversation.lose(error)
        self.changed.ring()

    def reopened(self) -> None:
        """Note that there is a connection again."""
        self.conversation.reopened()
        self.changed.ring()

    def end(self, error: ClientError) -> None:
        """Finish: everything that waits raises the error."""
        self.conversation.end(error)
        self.outbox.clear()
        self.changed.ring()
        self.sent.ring()

    def _begin(self) -> None:
        """Forget the pictures of the session before, when another has begun: numbers start anew, events' as well."""
        session = self.conversation.status.session
        if session not in (None, self._session):
            self._session = session
            self.pictures.clear()
            self.outbox.forget_shown()

    def _file(self, data: bytes, now: float, wall_s: float) -> None:
        header = read_header(data)
        delay_s = self.conversation.clock.age_s(header.wall_us, wall_s)
        if data[:4] == b"RIFF":
            self.sounds.put(read_sound(header, data, delay_s=delay_s))
            return
        self.conversation.input_delay.arrived(header.applied, now)
        frame = read_frame(header, data, delay_s=delay_s)
        self.pictures.put(frame)
        if frame.track in self._polled:
            self.acknowledge(frame)
