"""The verbs of a client on an event loop."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from reactor_runtime.client.connection import Connection
from reactor_runtime.client.errors import ClientError, ConnectionLost
from reactor_runtime.client.media import Frame, Sound
from reactor_runtime.client.message import Message, Reply, write, write_event
from reactor_runtime.client.pending import Answer
from reactor_runtime.client.session_info import SessionInfo
from reactor_runtime.client.status import Status
from reactor_runtime.client.upload import File, Upload


class Session(SessionInfo):
    """A client's time with a model; `connect` makes it. All of it belongs to the loop that it was made on.

    A controller's iterators end when the session is closed here or the model has finished, and raise `SessionEnded` or
    `ConnectionLost` when it ends otherwise. A viewer's go on with the next session, and over breaks.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._began = time.monotonic()

    async def ready(self) -> None:
        """Wait for the turn, as a viewer for the model to be known; after a session that was lost, for the next one.

        Raises `Busy` when the server is full, `SessionEnded` when the session is over or the model can't be served.
        """
        conversation = self._exchange.conversation
        while conversation.scope.error is not None and conversation.over is None:
            await self._exchange.changed.wait()
        await self._exchange.turn()

    async def send(self, event: str, data: Mapping[str, Any] | None = None, /, **values: Any) -> Reply:
        """Send an event and return its reply, once it was applied; its values are keywords, or a mapping.

        Raises `EventError` when it was refused, `ConnectionLost` when nobody can say, `SessionEnded` when it is over.
        It waits for the turn, and while the connection is being restored.
        """
        await self._exchange.turn()
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def done(outcome: Answer) -> None:
            if not answer.done():
                answer.set_result(outcome)

        values = {**(data or {}), **values}
        self._exchange.say(self._exchange.conversation.ask(event, values, time.monotonic(), done))
        outcome = await answer
        if isinstance(outcome, ClientError):
            raise outcome
        return outcome

    def notify(self, event: str, data: Mapping[str, Any] | None = None, /, **values: Any) -> bool:
        """Send an event and return true; return false, and send nothing, while this client controls no session.

        That is so in the wait queue, while the model loads, in a break, and for a viewer. The server's error is logged.
        Raises why the client has ended, if it has.
        """
        conversation = self._exchange.conversation
        if conversation.over is not None:
            conversation.scope.check()
        text = write_event(event, {**(data or {}), **values}, most_bytes=conversation.welcome.max_text_bytes)
        if self.role != "controller" or not conversation.ready:
            return False
        self._exchange.say(text)
        return True

    async def messages(self) -> AsyncGenerator[Message, None]:
        """Yield the model's messages in order, each once, those that came before as well; of 1,000 the oldest go."""
        scope = self._exchange.conversation.scope
        while True:
            while scope.messages:
                yield scope.messages.popleft()
            if scope.is_done():
                return
            await self._exchange.changed.wait()

    async def statuses(self) -> AsyncGenerator[Status, None]:
        """Yield the status, and again when it has changed, up to the end; what changes meanwhile is skipped."""
        status = None
        while True:
            if self.status != status:
                status = self.status
                yield status
            elif self._exchange.conversation.over is not None:
                return
            else:
                await self._exchange.changed.wait()

    async def frames(self, track: str | None = None, *, decode: bool = True) -> AsyncGenerator[Frame, None]:
        """Yield the newest picture of a track, the first one's without a name, whenever there is a new one.

        Never a queue: a slow reader skips. Each is acknowledged when it is taken, and decoded beside the loop before;
        without `decode`, when its `array` is first looked at. Raises `ValueError` for a track that isn't there.
        """
        conversation = self._exchange.conversation
        scope = conversation.scope
        await self._exchange.until(lambda: conversation.known, scope)
        if scope.is_done():
            return
        pictures, before, seen = self._exchange.pictures, "", 0
        while True:
            name = conversation.welcome.track(track, "video", "out").name if conversation.known else before
            if name != before:
                before, seen = name, 0
            frame = pictures.newest(name, after=seen) if conversation.scope is scope else None
            if frame is None:
                if scope.is_done():
                    return
                await self._exchange.changed.wait()
                continue
            seen = pictures.arrived[name]
            if decode:
                await asyncio.to_thread(_decode, frame)
            self._exchange.acknowledge(frame)
            yield frame

    def latest(self, track: str | None = None) -> Frame | None:
        """Return the newest picture there is, None before the first; waits for nothing.

        From the first call on the pictures of the track are acknowledged as they come.
        """
        if not self.model:
            return None
        return self._exchange.poll(self._exchange.conversation.welcome.track(track, "video", "out").name)

    async def frame(self, track: str | None = None, *, after: Reply | None = None) -> Frame:
        """Return the newest picture there is as soon as there is one; with `after`, one that was made with that event.

        Acknowledges as `latest` does. Raises what puts an end to the session before.
        """
        conversation = self._exchange.conversation
        scope = conversation.scope
        await self._exchange.until(lambda: conversation.known, scope)
        session = conversation.status.session
        while True:
            scope.check()
            if after is not None and conversation.status.session not in (None, session):
                raise ConnectionLost("another session has begun, and no frame of it shows that event")
            frame = self.latest(track)
            if frame is not None and (after is None or frame.applied >= after.n):
                return frame
            await self._exchange.changed.wait()

    async def sound(self, track: str | None = None) -> AsyncGenerator[Sound, None]:
        """Yield the pieces of a track of sound in order; over 5 s that nobody took, the oldest go."""
        conversation = self._exchange.conversation
        scope = conversation.scope
        await self._exchange.until(lambda: conversation.known, scope)
        if scope.is_done():
            return
        name = conversation.welcome.track(track, "audio", "out").name
        while True:
            while conversation.scope is scope and (piece := self._exchange.sounds.take(name)) is not None:
                yield piece
            if scope.is_done():
                return
            await self._exchange.changed.wait()

    def publish(self, track: str, content: object) -> asyncio.Future[bool]:
        """Send a picture or a piece of sound to the model: an array, a tensor, or the bytes of a JPEG or WAV file.

        Returns at once. Of pictures the newest is sent as soon as the one before has gone, those between are not; 100
        pieces of sound wait, then the oldest is left out. Who awaits what it returns is told whether it has gone, and
        makes no more than the connection takes. Raises `TypeError` or `ValueError` for what the track can't take,
        and `EventError` for what the server has said of an earlier one.
        """
        conversation = self._exchange.conversation
        conversation.scope.check()
        if conversation.complaints:
            raise conversation.complaints.popleft()
        known = {each.name: each for each in self.tracks if each.direction == "in"}
        if track not in known:
            raise ValueError(f"{self.model} has no track {track!r} to publish; there are: {', '.join(known) or 'none'}")
        most_bytes = conversation.welcome.max_media_bytes
        gone: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def told(outcome: bool) -> None:
            if not gone.done():
                gone.set_result(outcome)

        at_s = time.monotonic() - self._began
        self._exchange.outbox.put(known[track], content, at_s, most_bytes=most_bytes, told=told)
        self._exchange.outgoing.ring()
        return gone

    async def upload(
        self,
        content: bytes | str | os.PathLike[str],
        *,
        name: str | None = None,
        content_type: str | None = None,
    ) -> dict[str, str]:
        """Send a file, from its bytes or its path, and return what an event's parameter wants in its place.

        Raises `UploadError` when the server doesn't take it. Who cancels it stops it.
        """
        self._exchange.conversation.scope.check()
        key = self._exchange.conversation.welcome.upload_key
        if key is None:
            raise ValueError("only the controller of a running session sends files")
        file = File.of(content, name, content_type)
        sending = Upload(self.connection.address, key, file, tls=self.connection.tls)
        try:
            return await asyncio.to_thread(sending.send)
        except asyncio.CancelledError:
            sending.cancel()  # its thread would hold up the end of the program
            raise

    def view(self, *, paused: bool = False, max_fps: float | None = None, tracks: list[str] | None = None) -> None:
        """Say what to send from here on: nothing while `paused`, at most `max_fps` of each track, only these tracks."""
        self._exchange.view(write("reactor.view", {"paused": paused, "max_fps": max_fps, "tracks": tracks}))

    def here(self) -> None:
        """Answer the server's `idle` notice: somebody is there."""
        self._exchange.say(write("reactor.here", {}))

    async def aclose(self) -> None:
        """Leave: what waits is sent, for a second at most, and the session ends. Does nothing the second time."""
        await self.connection.aclose()


def _decode(frame: Frame) -> object:
    return frame.array
