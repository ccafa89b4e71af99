"""`Session`, for programs with an event loop: sends to a model, and yields what comes from it."""

from __future__ import annotations

import asyncio
import operator
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from reactor_runtime.client.connection import Connection
from reactor_runtime.client.errors import ClientError, ConnectionLost
from reactor_runtime.client.media import Frame, Sound
from reactor_runtime.client.messages import (
    Message,
    ModelContract,
    ReloadNotice,
    Reply,
    StepAnswer,
    Track,
    write,
    write_event,
)
from reactor_runtime.client.session_values import SessionValues
from reactor_runtime.client.status import Status
from reactor_runtime.client.steps import Commands, StepsResult
from reactor_runtime.client.streams import SessionStreams
from reactor_runtime.client.upload import File, Upload

T = TypeVar("T")


class Session(SessionValues):
    """A client's session with a model; `connect` makes it. Belongs to the loop on which it was made.

    A controller's iterators end when this client closes the session or the model has finished, and raise
    `SessionEnded` or `ConnectionLost` after any other end. A viewer's iterators continue after a
    reconnection and with the next session.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._began = time.monotonic()

    async def ready(self) -> None:
        """Wait for a controller's turn, or for a viewer's welcome; after a lost session, for the next one.

        Raises `Busy` when the server is full, `SessionEnded` when the session is over or the model can't be served.
        """
        protocol = self._streams.protocol
        while protocol.scope.error is not None and protocol.final_error is None:
            await self._streams.changed.wait()
        await self._streams.wait_until_ready()

    async def send(self, event: str, data: Mapping[str, Any] | None = None, /, **values: Any) -> Reply:
        """Send an event and return its reply once it was applied; its values are keywords or a mapping.

        Waits for the turn, and while the connection is being restored. Raises `EventError` when the server refused the
        event, `ConnectionLost` when its effect is unknown, `SessionEnded` when the session is over.
        """
        await self._streams.wait_until_ready()
        values = {**(data or {}), **values}
        protocol = self._streams.protocol
        return await _ask(
            self._streams, lambda on_answer: protocol.prepare_event(event, values, time.monotonic(), on_answer)
        )

    async def step(
        self,
        n: int = 1,
        *,
        state: Mapping[str, Any] | None = None,
        commands: Commands = (),
        media: Mapping[str, Iterable[object]] | None = None,
        reset: bool = False,
        seed: int | None = None,
    ) -> StepsResult:
        """Make exactly `n` steps of a stepped session, and return all that they have made.

        Before them, in this order: with `reset`, or a `seed` for the generators of random numbers, the session begins
        anew; `state` sets fields; `commands` are events with their data; `media` is read by the model as frames or
        sound of input tracks, not with a reset. Steps that are requested at the same time follow each other. Raises
        `StepRefused` with the steps that were made if the server refused one, and as `send` does.
        """
        if media and (reset or seed is not None):
            raise ValueError("media can't come with a reset, which empties its buffers: pass it to the next step()")
        await self._streams.wait_until_ready()
        protocol, collector = self._streams.protocol, self._streams.steps
        files = {track: [self._file_of(track, each) for each in contents] for track, contents in (media or {}).items()}
        named = [(each, {}) if isinstance(each, str) else each for each in commands]
        request = {
            "n": n,
            "state": dict(state or {}),
            "commands": [{"command": name, "data": dict(data)} for name, data in named],
            "media": {track: len(each) for track, each in files.items()},
            "reset": reset,
            "seed": seed,
        }

        def prepare(on_answer: Callable[[StepsResult | ClientError], object]) -> str:
            def answered(answer: StepAnswer | ClientError) -> None:
                on_answer(collector.finish(answer, protocol.state))

            text = protocol.prepare_steps(request, time.monotonic(), answered)
            for file in (file for each in files.values() for file in each):
                self._streams.send_queue.put_text(file)
            collector.begin()
            return text

        return await _ask(self._streams, prepare)

    def _file_of(self, track: str, content: object) -> bytes:
        """Return the file of a frame or a piece of sound for an input track, without loss."""
        at_s = time.monotonic() - self._began
        return self._streams.send_queue.file_of(
            self._input(track), content, at_s, max_bytes=self._streams.protocol.welcome.max_media_bytes
        )

    def _input(self, track: str) -> Track:
        inputs = {each.name: each for each in self.tracks if each.direction == "in"}
        if track not in inputs:
            raise ValueError(
                f"{self.model} has no track {track!r} to publish; there are: {', '.join(inputs) or 'none'}"
            )
        return inputs[track]

    def notify(self, event: str, data: Mapping[str, Any] | None = None, /, **values: Any) -> bool:
        """Send an event without a reply; return false, and send nothing, while this client may not send events.

        That is the case in the wait queue, while the model loads, without a connection, and for a viewer of a session
        that is not shared. An error that the server returns is logged. Raises the error that ended the client.
        """
        protocol = self._streams.protocol
        if protocol.final_error is not None:
            protocol.scope.check()
        text = write_event(event, {**(data or {}), **values}, max_bytes=protocol.welcome.max_text_bytes)
        if not protocol.may_send:
            return False
        self._streams.send_text(text)
        return True

    async def messages(self) -> AsyncGenerator[Message, None]:
        """Yield the model's messages in order, each once, also those before the call.

        At most 1,000 wait to be read; when one more arrives, the oldest is dropped.
        """
        scope = self._streams.protocol.scope
        while True:
            while scope.messages:
                yield scope.messages.popleft()
            if scope.is_done():
                return
            await self._streams.changed.wait()

    async def statuses(self) -> AsyncGenerator[Status, None]:
        """Yield the status now and after each change, until the client ends; a slow reader skips some."""
        async for status in _changes(self._streams, lambda: self.status, operator.eq):
            yield status

    async def contracts(self) -> AsyncGenerator[ModelContract, None]:
        """Yield the tracks and schema of the model when they are known and after each change, as `statuses` does."""
        protocol = self._streams.protocol

        def known() -> ModelContract | None:
            return protocol.welcome.contract if self.model else None

        async for contract in _changes(self._streams, known, operator.eq):
            yield contract

    async def reloads(self) -> AsyncGenerator[ReloadNotice, None]:
        """Yield the last reload and each later one, as `statuses` does; none from a server without `--reload`."""
        async for reload in _changes(self._streams, lambda: self.last_reload, operator.is_):
            yield reload

    async def frames(self, track: str | None = None, *, decode: bool = True) -> AsyncGenerator[Frame, None]:
        """Yield the newest frame of a track, by default the first video track, each once; a slow reader skips frames.

        Each frame is decoded on a thread, then acknowledged and yielded; the first is acknowledged on arrival. Without
        `decode` it is decoded on the first access of `array`. When the session has ended, a frame that had arrived
        before is still yielded, then the iterator ends; a later call yields frames of later sessions only. Raises
        `ValueError` for an unknown track.
        """
        protocol = self._streams.protocol
        scope = protocol.scope
        await self._streams.wait_until(lambda: protocol.knows_model, scope)
        if scope.is_done():
            return
        frames, before, seen, first = self._streams.frames, "", 0, True
        while True:
            name = protocol.welcome.track(track, "video", "out").name if protocol.knows_model else before
            if name != before:
                before, seen, first = name, frames.over.get(name, 0), True
            frame = frames.newest(name, after=seen) if protocol.scope is scope else None
            if frame is None:
                if scope.is_done():
                    return
                await self._streams.changed.wait()
                continue
            seen = frames.arrived[name]
            if first:
                # At once: the server sends as much as the socket accepts until the first acknowledgement.
                self._streams.acknowledge(frame)
            if decode:
                await asyncio.to_thread(_decode, frame)
            if not first:
                self._streams.acknowledge(frame, time.monotonic())
            first = False
            yield frame

    def latest(self, track: str | None = None) -> Frame | None:
        """Return the newest frame at once, None before the first.

        From the first call on, the frames of the track are acknowledged on arrival.
        """
        if not self.model:
            return None
        return self._streams.poll_frame(self._streams.protocol.welcome.track(track, "video", "out").name)

    async def frame(self, track: str | None = None, *, after: Reply | None = None) -> Frame:
        """Return the newest frame, waiting for the first; with `after`, for the first one made with that event.

        Acknowledges as `latest` does. Raises the error if the session ends before such a frame arrives.
        """
        protocol = self._streams.protocol
        scope = protocol.scope
        await self._streams.wait_until(lambda: protocol.knows_model, scope)
        session = protocol.status.session
        while True:
            scope.check()
            if after is not None and protocol.status.session not in (None, session):
                raise ConnectionLost("another session has started, and none of its frames shows that event")
            frame = self.latest(track)
            if frame is not None and (after is None or frame.applied >= after.n):
                return frame
            await self._streams.changed.wait()

    async def sound(self, track: str | None = None) -> AsyncGenerator[Sound, None]:
        """Yield the pieces of an audio track in order; older pieces than the last 5 s are dropped."""
        protocol = self._streams.protocol
        scope = protocol.scope
        await self._streams.wait_until(lambda: protocol.knows_model, scope)
        if scope.is_done():
            return
        name = protocol.welcome.track(track, "audio", "out").name
        while True:
            while protocol.scope is scope and (piece := self._streams.sound.take_sound(name)) is not None:
                yield piece
            if scope.is_done():
                return
            await self._streams.changed.wait()

    def publish(
        self,
        track: str,
        content: object,
        *,
        metadata: Mapping[str, Any] | bytes | None = None,
        capture_time_us: int | None = None,
    ) -> asyncio.Future[bool]:
        """Send a frame or a piece of sound to the model: an array, a tensor, or the bytes of a JPEG or WAV file.

        With it the model gets `metadata`, as JSON or as the bytes given, and `capture_time_us`, in microseconds since
        the epoch, by default now.

        Returns at once; the future's result is whether it was sent, and a program that awaits it produces no more than
        the connection can carry. A newer frame replaces one that waits; of more than 100 pieces of sound that wait,
        the oldest is dropped. Raises `TypeError` or `ValueError` for content and metadata that do not fit the track,
        and `EventError` for the server's error about an earlier one.
        """
        protocol = self._streams.protocol
        protocol.scope.check()
        if protocol.publish_errors:
            raise protocol.publish_errors.popleft()
        input_track = self._input(track)
        max_bytes = protocol.welcome.max_media_bytes
        sent: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def on_done(outcome: bool) -> None:
            if not sent.done():
                sent.set_result(outcome)

        self._streams.send_queue.put_media(
            input_track,
            content,
            time.monotonic() - self._began,
            metadata=metadata,
            capture_time_us=time.time_ns() // 1000 if capture_time_us is None else capture_time_us,
            max_bytes=max_bytes,
            on_done=on_done,
        )
        self._streams.outgoing.notify_all()
        return sent

    async def upload(
        self,
        content: bytes | str | os.PathLike[str],
        *,
        name: str | None = None,
        content_type: str | None = None,
    ) -> dict[str, str]:
        """Send a file, given as bytes or a path, and return the value for an event's parameter.

        Raises `UploadError` when the server refuses it. Cancelling the call stops the upload.
        """
        self._streams.protocol.scope.check()
        key = self._streams.protocol.welcome.upload_key
        if key is None:
            raise ValueError("only the controller of a session, or any client of a shared one, can upload files")
        file = File.from_content(content, name, content_type)
        upload = Upload(self.connection.route.address, key, file, tls=self.connection.tls)
        try:
            return await asyncio.to_thread(upload.send)
        except asyncio.CancelledError:
            # A thread that continues would delay the end of the program.
            upload.cancel()
            raise

    def view(
        self,
        *,
        paused: bool = False,
        max_fps: float | None = None,
        tracks: list[str] | None = None,
        codecs: list[str] | None = None,
        seat: int | None = None,
    ) -> None:
        """Set what the server sends: nothing while `paused`, at most `max_fps` of each track, only these tracks.

        `codecs` are the encodings of video to prefer to JPEG, best first: with `["raw"]` frames lose nothing. `seat` is
        the one that a viewer watches from now on.
        """
        view = {"paused": paused, "max_fps": max_fps, "tracks": tracks, "codecs": codecs}
        self._streams.set_view(view if seat is None else {**view, "seat": seat})

    def request_key(self, track: str) -> None:
        """Request that the video stream of a track begins anew, with a message that can be decoded alone."""
        self._streams.send_text(write("reactor.key", {"track": track}))

    def here(self) -> None:
        """Answer the server's `idle` notice, which keeps the session."""
        self._streams.send_text(write("reactor.here", {}))

    def reload(self) -> None:
        """Reload the project's files. Raises `ValueError` for a server without `--reload`."""
        if self.last_reload is None:
            raise ValueError("the server does not reload: start it with `reactor run --reload`")
        self._streams.send_text(write("reactor.reload", {}))

    async def keep(self) -> Path:
        """Save a recording of the session up to now, and return its path on the server's machine.

        Waits for the turn. Raises `ClientError` with the reason and what to do if the server can't save it,
        `ConnectionLost` and `SessionEnded` as `send`, and `ValueError` for a server without `--reload`.
        """
        await self._streams.wait_until_ready()
        if self.last_reload is None:
            raise ValueError("the server keeps no sessions: start it with `reactor run --reload`")
        return await _ask(self._streams, self._streams.protocol.prepare_keep)

    def expect_types(self, types: str) -> None:
        """Log a warning once if the model has other types than a generated client, which calls this."""
        self._streams.protocol.expect_types(types)

    async def aclose(self) -> None:
        """Send what is queued, for a second at most, then end the session. Idempotent."""
        await self.connection.aclose()


def _decode(frame: Frame) -> object:
    return frame.array


async def _changes(
    streams: SessionStreams, read: Callable[[], T | None], is_same: Callable[[T | None, T], bool]
) -> AsyncGenerator[T, None]:
    """Yield a value when it is not None and after each change, until the client ends."""
    last: T | None = None
    while True:
        value = read()
        if value is not None and not is_same(last, value):
            last = value
            yield value
        elif streams.protocol.final_error is not None:
            return
        else:
            await streams.changed.wait()


async def _ask(streams: SessionStreams, prepare: Callable[[Callable[[T | ClientError], object]], str]) -> T:
    """Send a text and return its answer, or raise it."""
    answer: asyncio.Future[T | ClientError] = asyncio.get_running_loop().create_future()

    def on_answer(outcome: T | ClientError) -> None:
        if not answer.done():
            answer.set_result(outcome)

    streams.send_text(prepare(on_answer))
    outcome = await answer
    if isinstance(outcome, ClientError):
        raise outcome
    return outcome
