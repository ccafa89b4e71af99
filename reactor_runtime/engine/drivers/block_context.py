"""The object that `get_ctx()` returns to the code of a block model, for any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.events.messages import ModelMessage, dict_to_json, message_to_json
from reactor_runtime.authoring.styles.context import ContextTrack
from reactor_runtime.authoring.tracks.tracks import Output, TrackSpec
from reactor_runtime.clock import Clock
from reactor_runtime.engine.drivers.block_queue import Block, BlockQueue
from reactor_runtime.engine.drivers.stopwatch import Stopwatch
from reactor_runtime.engine.drivers.threads import ThreadTracker
from reactor_runtime.engine.inputs.inputs import Inputs
from reactor_runtime.engine.output.emitter import Lend
from reactor_runtime.engine.output.output_buffer import empty_frames
from reactor_runtime.engine.output.unpack import ByTrack, Unpack
from reactor_runtime.engine.session import Applied, ModelSession
from reactor_runtime.engine.session_state import SessionState
from reactor_runtime.ipc.messages import MessageSent
from reactor_runtime.media.jpeg_frame import Payload
from reactor_runtime.media.split import split

# The size of a black frame that is emitted before the first frame of the model.
DEFAULT_SIZE = 480, 640
RANKS = 3, 4

Sizes = dict[str, tuple[int, int]]


class BlockContext:
    """Check and queue output on the thread of the author's code, which waits until the loop has copied it.

    Payloads are checked here, so that a wrong one raises at the author's line.
    """

    def __init__(
        self,
        contract: Contract,
        session: ModelSession,
        queue: BlockQueue,
        *,
        inputs: Inputs,
        clock: Clock,
        threads: ThreadTracker,
        state: SessionState,
        sizes: Sizes,
        lend: Lend,
        on_first_call: Callable[[], None],
    ) -> None:
        self.model = contract.model.__name__
        # Counts calls by the author's code: the driver reports a thread that makes none.
        self.calls = 0
        self._on_first_call = on_first_call
        self._lend = lend
        self._outputs = {track.key: track for track in contract.output_tracks}
        self._has_several_seats = contract.seats > 1
        self._session = session
        self._queue = queue
        self._inputs = inputs
        self._clock = clock
        self._threads = threads
        self._state = state
        self._sizes = sizes
        self._unpack = Unpack(contract)
        self._tracks = _tracks(self, contract)
        self._loop_thread = threading.get_ident()
        # Guards the stopwatch, because any thread may hand over output and disable monitoring.
        self._lock = threading.Lock()
        self._stopwatch = Stopwatch()
        self._newest: dict[str, NDArray[Any]] = {}
        self._applied: Applied = (0,) * contract.seats
        self._stopped = False
        self._handed_over = True

    def emit_block(self, frames: object) -> None:
        if frames is None:
            self.hand_over(self._black(), measured=False)
        elif isinstance(frames, Output) or (isinstance(frames, list) and self._has_several_seats):
            self.hand_over(frames)
        else:
            _check_rank(frames)
            self.hand_over(ByTrack({self._only("video"): frames}))

    def empty(self, shape: Sequence[int]) -> NDArray[np.uint8]:
        return empty_frames(self._lend, shape)

    def should_stop(self) -> bool:
        self._count_call()
        self._send_state()
        if self._handed_over:
            self._handed_over = False
        elif not self._stopped:
            self._threads.poll(paused=not self._stopwatch.running)
        return self._stopped

    def send(self, message: dict[str, Any] | ModelMessage) -> None:
        self._count_call()
        kind, data = message_to_json(message) if isinstance(message, ModelMessage) else dict_to_json(message)
        self._queue.put(MessageSent(self._session.id, kind, data, n=self._session.handled_here))

    def enable_monitoring(self) -> None:
        with self._lock:
            self._stopwatch.resume(self._clock.now())
            self._applied = self._session.applied

    def disable_monitoring(self) -> None:
        with self._lock:
            self._stopwatch.pause()

    def get_track(self, name: str | None = None) -> ContextTrack:
        if name not in self._tracks:
            known = ", ".join(known for known in self._tracks if known is not None)
            raise ValueError(f"the model has no track {name!r}; it has: {known}")
        return self._tracks[name]

    def hand_over(self, output: Output | ByTrack | list[object], *, measured: bool = True) -> None:
        """Queue output, and wait while the queue is full."""
        self._count_call()
        self._send_state()
        if self._stopped:
            if not self._session.stopping:
                # A block that was being made when new code came is discarded; a replay makes it.
                self._session.count_step()
            return
        now = self._clock.now()
        checked = self._unpack.check(output)
        frames = len(split(checked.arrays))
        self._keep_sizes(checked.arrays)
        with self._lock:
            made_in_s = self._stopwatch.read(now) if measured else None
        payload = ByTrack(checked.arrays, checked.metadata)
        block = Block(payload, frames, made_in_s, self._session.with_handled(self._applied))
        if threading.get_ident() == self._loop_thread:
            raise RuntimeError(
                "emit_block() was called in the event loop's thread, which plays blocks: use another thread"
            )
        self._session.count_step()
        self._queue.put(block)
        with self._lock:
            self._stopwatch.begin(now if block.handed_over_at is None else block.handed_over_at)
            self._applied = self._session.applied
        self._handed_over = True

    def stop(self) -> None:
        """Wake all waiting threads and drop later output; may be called twice."""
        self._stopped = True
        self._queue.stop()

    def newest(self, name: str) -> NDArray[Any] | None:
        """Return the newest frame or sound of an input track, the same one until a newer one arrives."""
        self._count_call()
        newest = self._inputs.newest(name)
        if newest is not None:
            self._newest[name] = newest
        return self._newest.get(name)

    def only_output(self) -> str:
        """Return the name of the only output track; ValueError if there are several."""
        return self._only("video", "audio")

    def _count_call(self) -> None:
        is_first = not self.calls
        self.calls += 1
        if is_first:
            self._on_first_call()

    def _send_state(self) -> None:
        # After the session, the state may be that of the next one.
        if not self._stopped:
            self._state.send_changes()

    def _only(self, *kinds: str) -> str:
        names = [track.name for track in self._outputs.values() if track.kind in kinds and track.seat is None]
        if len(names) == 1:
            return names[0]
        several = f"tracks {', '.join(names)}: emit an Output, or" if names else "only audio tracks:"
        raise ValueError(f"{self.model} has {several} name the track: get_ctx().get_track(name).emit(…)")

    def _keep_sizes(self, payloads: Mapping[str, Payload]) -> None:
        for key, payload in payloads.items():
            track = self._outputs[key]
            if track.kind == "video":
                height, width = payload.shape[-3:-1]
                self._sizes[track.name] = height, width

    def _black(self) -> ByTrack:
        names = [track.name for track in self._outputs.values() if track.kind == "video" and track.seat is None]
        black = np.zeros((), np.uint8)
        return ByTrack({name: np.broadcast_to(black, (*self._sizes.get(name, DEFAULT_SIZE), 3)) for name in names})


class BlockTrack:
    """Read or emit one track of a session, without a name the only one of its direction; any thread may use it."""

    def __init__(self, context: BlockContext, name: str | None, outputs: list[str], inputs: list[str]) -> None:
        self._context = context
        self._name = name
        self._outputs = outputs
        self._inputs = inputs

    def emit(self, frame: object) -> None:
        if self._name is not None and not self._outputs:
            raise ValueError(f"{self._name} comes from clients: read it with latest(), emit to an output track")
        name = self._outputs[0] if self._name is not None else self._context.only_output()
        self._context.hand_over(ByTrack({name: frame}))

    def latest(self) -> NDArray[Any] | None:
        if len(self._inputs) != 1:
            what = (
                f"{self._name} is sent to clients" if self._name else f"the model has {len(self._inputs)} input tracks"
            )
            raise ValueError(f"{what}: latest() reads an input track, get_ctx().get_track(name) names one")
        return self._context.newest(self._inputs[0])


def _tracks(context: BlockContext, contract: Contract) -> dict[str | None, BlockTrack]:
    def named(tracks: list[TrackSpec], direction: str) -> list[str]:
        return [track.name for track in tracks if track.direction == direction]

    every = list(contract.tracks)
    tracks: dict[str | None, BlockTrack] = {
        track.name: BlockTrack(context, track.name, named([track], "out"), named([track], "in")) for track in every
    }
    return {**tracks, None: BlockTrack(context, None, named(every, "out"), named(every, "in"))}


def _check_rank(frames: object) -> None:
    # Objects that are neither an array nor a tensor have none; the check of the payload refuses them.
    rank = getattr(frames, "ndim", None)
    if isinstance(rank, int) and rank not in RANKS:
        shape = tuple(getattr(frames, "shape", ()))
        raise ValueError(
            f"emit_block: got {rank} dimensions, {shape}; "
            "a block is (frames, height, width, 3), a single frame (height, width, 3)"
        )
