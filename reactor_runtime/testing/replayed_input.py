"""The buffer of an input track in a replay: its reads return what they returned in the recording."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections import deque
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from reactor_runtime.authoring.tracks.backlog import ReadMode
from reactor_runtime.authoring.tracks.input_buffer import InputBuffer
from reactor_runtime.authoring.tracks.input_frame import InputFrame
from reactor_runtime.errors import UsageError, WireError
from reactor_runtime.media import jpeg, wav
from reactor_runtime.recording.entries import SentValues, check_shape
from reactor_runtime.recording.file import SessionRecording, StoredRead, decode_array

NPY, RIFF = b"\x93NUMPY", b"RIFF"
RANKS = {"video": 3, "audio": 2}


@dataclass(slots=True)
class ReplayPosition:
    """Count the steps of a replayed session, None before it begins, its reloads, and what it has done in all."""

    step: int | None = None
    reloads: int = 0
    actions: int = 0
    # An event was sent and is not handled yet.
    handling: bool = False
    # It came while the model waited in a read, which does not return before the event is handled.
    delays_reads: bool = False
    # How many reads wait.
    reading: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def begin(self) -> None:
        """Begin the session."""
        self.step = 0
        self.wake_reads()

    def begin_event(self, *, waiting: bool) -> None:
        """Note that an event was sent."""
        self.handling, self.delays_reads = True, waiting

    def wake_reads(self) -> None:
        """Wake the reads that wait, which then read the position again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def change(self) -> None:
        """Wait for the next change: the session begins, a step ends, or an event was handled."""
        await self._changed.wait()


class ModelWaits(Protocol):
    """Receive the waits of the model for inputs."""

    def send_next(self) -> None:
        """Called when a read begins."""

    def on_wait(self) -> None:
        """Called when the model waits for an item that was not recorded there."""


class ReplayedReads:
    """Hold the recorded reads of one track, in order; a read gets only items that were read after the same reload.

    `waits` receives the waits of the model. `kind` is that of the track.
    """

    def __init__(
        self,
        recording: SessionRecording,
        reads: Iterable[StoredRead],
        position: ReplayPosition,
        waits: ModelWaits,
        *,
        kind: str,
    ) -> None:
        self._recording = recording
        self._kind = kind
        self._reads = deque(reads)
        self._position = position
        self._waits = waits
        self.on_wait = waits.on_wait

    @property
    def available(self) -> int:
        """Return how many items the next read of this step returns."""
        due = self.running and self._reads[0].step <= (self._position.step or 0)
        return len(self._reads[0].files) if due else 0

    async def before_session(self, read: Coroutine[Any, Any, list[Any]]) -> list[Any] | None:
        """Return what a read returns before the session begins; None for one that the session finds waiting."""
        begun = asyncio.ensure_future(self._position.change())
        reading = asyncio.ensure_future(read)
        try:
            await asyncio.wait((begun, reading), return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else None
        finally:
            for each in (begun, reading):
                each.cancel()
            await asyncio.gather(begun, reading, return_exceptions=True)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Count a read that waits, in which the events come that were recorded in one."""
        self._position.reading += 1
        try:
            self._waits.send_next()
            yield
        finally:
            self._position.reading -= 1

    async def wait_for_steps(self) -> None:
        """Wait while a handler makes the steps that were recorded before the next read, or is of an event in it."""
        while self.running and self._position.handling and self._comes_first():
            await self._position.change()

    def _comes_first(self) -> bool:
        return self._position.delays_reads or self._reads[0].step > (self._position.step or 0)

    @property
    def in_session(self) -> bool:
        return self._position.step is not None

    @property
    def running(self) -> bool:
        """Return whether reads return recorded items: after the session has begun, as long as there are some."""
        if self._position.step is None:
            return False
        while self._reads and self._reads[0].reloads < self._position.reloads:
            self._reads.popleft()
        return bool(self._reads) and self._reads[0].reloads == self._position.reloads

    def take(self) -> list[Any]:
        """Return the items of the next read; raise TimeoutError if it timed out, UsageError if one is damaged."""
        read = self._reads.popleft()
        if not read.files:
            raise TimeoutError("the items did not come in time in the recording")
        try:
            arrays = [_decode(self._recording.load(file), self._kind) for file in read.files]
            sent = read.sent or (SentValues(),) * len(arrays)
            return [_as_sent(array, values) for array, values in zip(arrays, sent, strict=True)]
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError, WireError) as error:
            raise UsageError(
                f"{self._recording.path} is damaged: what {read.track} read in step {read.step} is no {self._kind}: "
                f"{error}",
                hint="get the file again from where it was recorded, or record the session again",
            ) from error

    def is_due(self, call: int) -> bool:
        """Return whether read number `call` of the track, which does not wait, returns the next items.

        A model that now makes fewer or more reads before this one still gets the items at the same step.
        """
        if not self.available:
            return False
        return self._reads[0].step != self._position.step or self._reads[0].call <= call


class ReplayedBuffer(InputBuffer[Any]):
    """Return recorded items from `read` and `try_read`; a read after the last one waits for the end of the session."""

    def __init__(self, replayed: ReplayedReads, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._replayed = replayed
        # The recorded items that were read since the last reset.
        self._returned = 0

    @property
    def available(self) -> int:
        return self._replayed.available if self._replayed.running else super().available

    @property
    def total_received(self) -> int:
        """Return how many items were read, and how many the next read of this step returns: others are not recorded."""
        return super().total_received + self._returned + self._replayed.available

    def reset(self) -> None:
        self._returned = 0
        super().reset()

    async def read(self, n: int = 1, timeout: float | None = None, mode: ReadMode = ReadMode.LATEST) -> list[Any]:
        if not self._replayed.in_session:
            early = await self._replayed.before_session(super().read(n, timeout, mode))
            if early is not None:
                return early
        with self._replayed.waiting():
            await self._replayed.wait_for_steps()
            # A recorded read of a closed buffer raised BufferClosed, unless items were left.
            if not self._replayed.running or (self.closed and not self._replayed.available):
                self._replayed.on_wait()
                return await super().read(n, timeout, mode)
            self.reads.calls += 1
            await asyncio.sleep(0)
            return self._take()

    def try_read(self, n: int = 1, mode: ReadMode = ReadMode.LATEST) -> list[Any] | None:
        if not self._replayed.running:
            return super().try_read(n, mode)
        self.reads.calls += 1
        return self._take() if self._replayed.is_due(self.reads.calls) else None

    def _take(self) -> list[Any]:
        items = self._replayed.take()
        self._returned += len(items)
        return items


def _as_sent(array: NDArray[Any], sent: SentValues) -> InputFrame[Any]:
    metadata = None if sent.metadata is None else base64.b64decode(sent.metadata, validate=True)
    return InputFrame(array, sent.pts, metadata, sent.capture_time_us)


def _decode(file: bytes, kind: str) -> Any:
    if file.startswith(NPY):
        array = decode_array(file)
        check_shape(array.shape)
    else:
        array = wav.decode(file) if file.startswith(RIFF) else jpeg.decode(file)
    if array.ndim != RANKS[kind]:
        raise ValueError(f"an array with {array.ndim} dimensions")
    return array
