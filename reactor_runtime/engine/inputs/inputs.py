"""Inputs in the engine: from the file of a client to the buffer that the model reads."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FrameType, MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.authoring.code.source import author_line
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.tracks.backlog import BufferClosed, Item, ReadMode
from reactor_runtime.authoring.tracks.input_buffer import InputBuffer, WaitTimer
from reactor_runtime.authoring.tracks.input_frame import InputFrame
from reactor_runtime.authoring.tracks.inputs import Input, make_input
from reactor_runtime.authoring.tracks.tracks import TrackSpec, tracks_of
from reactor_runtime.clock import Clock
from reactor_runtime.engine.inputs.input_counter import InputCounter
from reactor_runtime.errors import ReactorError
from reactor_runtime.ipc.messages import ClientMedia, InputLost, InputsTaken
from reactor_runtime.media import jpeg, npy, wav
from reactor_runtime.media.frames import check_audio, check_video

Buffer = InputBuffer[Any]
# Is called with the name of a track and the arguments of InputBuffer.
MakeBuffer = Callable[..., Buffer]

_BATCH = 4
# The length of a piece of sound, as our clients send it.
PIECE_S = 0.020


def make_input_buffer(_track: str, *arguments: Any, **options: Any) -> Buffer:
    """Return a buffer of what clients send."""
    return Buffer(*arguments, **options)


class Inputs:
    """Own the buffers of a model's input tracks, and accept only media of the running session.

    Any thread may call `push`; all else belongs to the model's thread. Decoding has a thread of its own. These are
    called on any thread: `on_available` when something can be read, `on_bad` when a file can't be decoded, `on_counts`
    with the counts of frames that came and were taken, or lost, and `on_read` with the track, the number and the items
    of each read of a session, None for a cancelled read. `warn` reports, once for each track and session, a model that
    reads so slowly that items are lost. `make_buffer` makes the buffer of a track.
    """

    def __init__(
        self,
        model: Model,
        contract: Contract,
        clock: Clock,
        *,
        on_available: Callable[[], None],
        on_bad: Callable[[str, Exception], None],
        on_counts: Callable[[InputsTaken | InputLost], None],
        on_read: Callable[[str, int, Sequence[Item[Any]] | None], None] = lambda _, __, ___: None,
        warn: Callable[[ReactorError], object] = lambda _: None,
        make_buffer: MakeBuffer = make_input_buffer,
    ) -> None:
        self._waits = WaitTimer(clock)
        self._clock = clock
        self._pool: ThreadPoolExecutor | None = None
        self._buffers: dict[str, Buffer] = {}
        self._kinds: dict[str, str] = {}
        self._counters: dict[str, InputCounter] = {}
        self._on_available = on_available
        self._on_bad = on_bad
        self._on_counts = on_counts
        self._on_read = on_read
        self._warn = warn
        self._warned: set[str] = set()
        # How many lost items of each track were reported to `on_counts`.
        self._reported: dict[str, int] = {}
        self._new_buffer = make_buffer
        self._session: str | None = None
        self._decode_ahead = True
        self._sources: dict[str, str] = {}
        # A session must not change between the check of a frame's session and the push.
        self._lock = threading.Lock()
        self.attach(model, contract)

    def attach(self, model: Model, contract: Contract) -> None:
        """Assign a buffer to each input track of a model; tracks of the same name and kind keep their buffers.

        Reads are counted from 0 again. An object that the author has assigned in place of an input stays; in its
        attributes the inputs and buffers of another session are replaced by those of this one.
        """
        specs = {track.name: track for kind in contract.inputs.values() for track in tracks_of(kind)}
        kinds: dict[str, str] = {name: track.kind for name, track in specs.items()}
        kept = {track for track, kind in kinds.items() if self._kinds.get(track) == kind}
        with self._lock:
            for track, buffer in self._buffers.items():
                if track not in kept:
                    buffer.close()
            buffers = {
                name: self._buffers[name] if name in kept else self._make_buffer(track) for name, track in specs.items()
            }
            video = [track for track, kind in kinds.items() if kind == "video"]
            new = {
                track: InputCounter(track, buffers[track].reads, self._clock) for track in video if track not in kept
            }
            self._counters = {track: new.get(track) or self._counters[track] for track in video}
            self._buffers, self._kinds = buffers, kinds
            self._reported.clear()
            for buffer in buffers.values():
                buffer.begin_counting()
        before = model._reactor_inputs
        replaced = {attribute for attribute, made in before.items() if vars(model).get(attribute) is not made}
        given: dict[str, Input] = {}
        for attribute, kind in contract.inputs.items():
            own = {track.name: buffers[track.name] for track in tracks_of(kind)}
            if attribute not in replaced:
                given[attribute] = make_input(kind, own)
                setattr(model, attribute, given[attribute])
                continue
            given[attribute] = former = before[attribute]
            if any(getattr(former, name) is not buffer for name, buffer in own.items()):
                # Those of another session: the model is a copy of the loaded one.
                given[attribute] = make_input(kind, own)
                others = {id(getattr(former, name)): buffer for name, buffer in own.items()}
                _replace_in(getattr(model, attribute), {id(former): given[attribute], **others})
        model._reactor_inputs = MappingProxyType(given)

    def _make_buffer(self, track: TrackSpec) -> Buffer:
        bounded = {} if track.buffer_seconds is None else {"capacity": math.ceil(track.buffer_seconds / PIECE_S)}
        return self._new_buffer(
            track.name,
            self._clock,
            self._in_worker,
            waits=self._waits,
            on_bad=functools.partial(_report, self._on_bad, track.name),
            on_available=self._on_available,
            on_read=functools.partial(self._on_read, track.name),
            on_late_read=functools.partial(self._report_late_read, track.name),
            **bounded,
        )

    def _report_lost(self, track: str) -> None:
        with self._lock:
            session, kind = self._session, self._kinds.get(track)
            if session is None or kind is None:
                return
            lost = self._buffers[track].reads.lost
            count = lost - self._reported.get(track, 0)
            self._reported[track] = lost
        if count:
            self._on_counts(InputLost(session, track, kind, count))

    def _report_late_read(self, track: str, mode: ReadMode, frame: FrameType) -> None:
        self._report_lost(track)
        if track in self._warned:
            return
        self._warned.add(track)
        what = "frames" if self._kinds[track] == "video" else "pieces of sound"
        lost, capacity = self._buffers[track].reads.lost, self._buffers[track].capacity
        faster = "read more often" if mode is ReadMode.ALL else "read(mode=ReadMode.ALL) returns all that wait"
        self._warn(
            ReactorError(
                f"{track}: {lost} {what} were dropped before the model read them: they come faster than it reads, "
                f"and {capacity} wait at most",
                hint=f"{faster}; the statistics of the session count what is lost",
                where=author_line(frame),
            )
        )

    def __bool__(self) -> bool:
        return bool(self._buffers)

    @property
    def closed(self) -> list[str]:
        """Return the tracks whose buffers are closed."""
        return [track for track, buffer in self._buffers.items() if buffer.closed]

    @property
    def reading(self) -> bool:
        """Return whether the model waits in a read."""
        return self._waits.waiting

    @property
    def waited_s(self) -> float:
        """Return how long the model has waited for input so far, in seconds."""
        return self._waits.waited_s

    @property
    def frame_counts(self) -> tuple[int, int]:
        """Return how many frames have arrived so far, and how many of them the model has read."""
        buffers = [self._buffers[track] for track in self._counters]
        return sum(buffer.received_in_all for buffer in buffers), sum(buffer.reads.taken for buffer in buffers)

    @property
    def frame_available(self) -> bool:
        """Return whether a frame waits to be read."""
        return any(self._buffers[track].available for track in self._counters)

    def begin_session(self, session: str, *, reopen: bool, decode_ahead: bool = True) -> None:
        """Accept media of `session` into empty buffers; without `reopen` the author opens them until `opened`.

        Without `decode_ahead` a poll finds all that has come, and decodes it.
        """
        with self._lock:
            self._session = session
            self._decode_ahead = decode_ahead
            for counter in self._counters.values():
                counter.begin()
            self._warned.clear()
            self._reported.clear()
            for buffer in self._buffers.values():
                buffer.begin_counting()
                if reopen:
                    buffer.reset()
                else:
                    buffer.clear()
                    buffer.start_retaining()

    def opened(self) -> None:
        """End the time in which a `reset()` of the author keeps the items that came since `begin_session`."""
        with self._lock:
            for buffer in self._buffers.values():
                buffer.stop_retaining()

    def close(self) -> None:
        """Wake waiting readers and accept nothing until the next session."""
        with self._lock:
            self._session = None
            for buffer in self._buffers.values():
                buffer.close()

    def empty(self) -> None:
        """Empty the buffers, because the clients that have filled them are gone."""
        with self._lock:
            for buffer in self._buffers.values():
                buffer.clear()

    def interrupt(self) -> None:
        """Raise ReadInterrupted in the reads that wait; the buffers stay open."""
        with self._lock:
            for buffer in self._buffers.values():
                buffer.interrupt()

    def end_session(self) -> None:
        """Accept nothing, empty the buffers and wake waiting readers; open buffers stay open."""
        with self._lock:
            self._session = None
            for buffer in self._buffers.values():
                buffer.stop_retaining()
                buffer.clear()
                buffer.interrupt()

    def source_of(self, track: str) -> str:
        """Return the id of the client that has sent the newest item of a track; "" if there is none."""
        return self._sources.get(track, "")

    def push(
        self,
        session: str,
        track: str,
        file: bytes,
        client: str = "",
        *,
        pts: int | None = None,
        metadata: bytes | None = None,
        capture_time_us: int | None = None,
    ) -> None:
        """Push a JPEG, NPY or WAV into a track's buffer with what its client sent; drop it after its session."""
        pixels = npy.decode if file.startswith(npy.MAGIC) else jpeg.decode
        decode: Callable[[bytes], Any] = pixels if self._kinds.get(track) == "video" else wav.decode

        def decode_frame(data: bytes) -> InputFrame[Any]:
            return InputFrame(decode(data), pts, metadata, capture_time_us)

        with self._lock:
            if session != self._session or track not in self._buffers:
                return
            buffer = self._buffers[track]
            self._sources[track] = client
            buffer.push(Item.encoded(file, decode_frame), decode_ahead=self._decode_ahead)
            taken = self._counters[track].count_frame(session) if track in self._counters else None
        if taken is not None:
            self._on_counts(taken)
        self._report_lost(track)

    def push_media(self, media: ClientMedia) -> None:
        """Push what a client sent, as `push` does."""
        self.push(
            media.session,
            media.track,
            media.file,
            media.client,
            pts=media.pts,
            metadata=media.metadata,
            capture_time_us=media.capture_time_us,
        )

    def push_array(self, track: str, array: object) -> None:
        """Push a copy of decoded media of an offline driver: a frame, a batch of frames, or sound.

        The copy of an InputFrame has its values. Raises ValueError, with the track and the fix, for an array that no
        client could send.
        """
        if track not in self._buffers:
            known = ", ".join(f"{name} ({kind})" for name, kind in self._kinds.items()) or "none"
            raise ValueError(f"the model has no input {track!r}; its inputs: {known}")
        checked = _check(track, self._kinds[track], array)
        for piece in checked if checked.ndim == _BATCH else (checked,):
            sent = piece if isinstance(piece, InputFrame) else InputFrame(piece)
            self._buffers[track].push(Item(sent.copy(order="C")))

    def newest(self, track: str) -> Any | None:
        """Return the newest item of a track without waiting; None if there is no new one or the buffer is closed.

        Any thread may call this.
        """

        try:
            items = self._buffers[track].try_read()
        except BufferClosed:
            return None
        return items[0] if items else None

    def shutdown(self) -> None:
        """End the decoding thread."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _in_worker(self, work: Callable[[], None]) -> object:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="reactor-decode")
        return self._pool.submit(work)


def _check(track: str, kind: str, array: object) -> NDArray[Any]:
    if isinstance(array, np.ndarray) and not array.size:
        raise ValueError(f"{track}: got {array.dtype} {array.shape}, which is empty: push at least one frame or sample")
    try:
        return check_video(track, array) if kind == "video" else check_audio(track, array)
    except TypeError as error:
        raise ValueError(str(error)) from error


def _report(on_bad: Callable[[str, Exception], None], track: str, _item: object, error: Exception) -> None:
    on_bad(track, error)


def _replace_in(wrapper: object, others: Mapping[int, object]) -> None:
    """Replace values in the attributes of an author's object; `others` has the new values by the id of the old ones."""
    for name, value in tuple(getattr(wrapper, "__dict__", {}).items()):
        if id(value) in others:
            setattr(wrapper, name, others[id(value)])
