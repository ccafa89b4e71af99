"""Stand-ins that behave: a sink that collects, an engine that notes what it is told."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from numpy.typing import NDArray

from reactor_runtime.engine.output.sink import Black, OutgoingBundle
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.ipc.ring import RingWriter
from reactor_runtime.media.jpeg_frame import pixels_of
from reactor_runtime.server.encoding.encoded import EncodedFrame, MediaFile
from reactor_runtime.server.encoding.encoder import Encoder, JobBatch
from reactor_runtime.server.encoding.encodings import DEFAULT
from reactor_runtime.server.workers.engine import EnginePhase
from reactor_runtime.testing.clock import FakeClock, settle
from reactor_runtime.wire.containers import attach
from reactor_runtime.wire.media_header import MediaHeader

R = TypeVar("R")
M = TypeVar("M")

__all__ = [
    "CollectingSink",
    "FakeClock",
    "FakeEngine",
    "HandEncoder",
    "Shown",
    "frame_of",
    "jpeg_frame",
    "settle",
    "written",
]


@dataclass(slots=True)
class Shown:
    """What was handed over: the moment, the first pixel's red of its first picture, and when that was."""

    bundle: OutgoingBundle
    red: int
    at: float


@dataclass
class CollectingSink:
    """Take the engine's output, in order; `played` gives the credits back, as showing the moments would."""

    clock: FakeClock
    shown: list[Shown] = field(default_factory=list)
    sent: list[ipc.ToServer] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    everything: list[OutgoingBundle | ipc.ToServer] = field(default_factory=list)
    hand_over_s: float = 0.0

    def send_bundle(self, bundle: OutgoingBundle) -> None:
        payload = bundle.pieces[0].payload
        red = 0 if isinstance(payload, Black) else int(pixels_of(payload).flat[0])
        self.clock.spend(self.hand_over_s)
        self.shown.append(Shown(bundle, red, self.clock.now()))
        self.everything.append(bundle)

    def send(self, message: ipc.ToServer) -> None:
        self.sent.append(message)
        self.everything.append(message)

    def release(self, number: int) -> None:
        self.released.append(number)

    @property
    def reds(self) -> list[int]:
        return [shown.red for shown in self.shown]

    def of(self, kind: type[M]) -> list[M]:
        """List the messages of one kind."""
        return [message for message in self.sent if isinstance(message, kind)]


class FakeEngine:
    """An engine that is loaded, and does nothing but remember what it was told."""

    def __init__(self) -> None:
        self.phase = EnginePhase.READY
        self.failed_loads = 0
        self.detail = ""
        self.progress: float | None = None
        self.contract: dict[str, Any] | None = {"tracks": [], "schema": {"events": {}, "messages": {}}}
        self.loading_s = 0.0
        self.busy = False
        self.fitting = self.room = 1
        self.limit = ""
        self.told: list[ipc.ToEngine] = []

    def send(self, message: ipc.ToEngine) -> None:
        self.told.append(message)

    def memory_bytes(self) -> int | None:
        return None

    def of(self, kind: type[M]) -> list[M]:
        return [message for message in self.told if isinstance(message, kind)]


def written(writer: RingWriter, key: int, arrays: list[NDArray[Any]]) -> list[int]:
    """Place arrays into shared memory, as the engine does; gives their offsets."""
    return writer.write(key, arrays)


def frame_of(seq: int, files: bytes | Mapping[int, bytes] = b"", track: str = "video") -> EncodedFrame:
    """Make a frame in the default encoding, from its file on the top rung or from its files by rung."""
    by_rung = {0: files} if isinstance(files, bytes) else files
    header = MediaHeader(track, seq, 0, 0)
    in_default = {rung: MediaFile("video", header, data) for rung, data in by_rung.items()}
    return EncodedFrame(header, {DEFAULT: in_default}, 1 / 30)


def jpeg_frame(seq: int, track: str = "video", *, rung: int = 0) -> EncodedFrame:
    """Make a frame on one rung, whose file is the shortest JPEG with its header."""
    return frame_of(seq, {rung: attach(MediaHeader(track, seq, 0, 0), b"\xff\xd8\xff\xd9")}, track)


class HandEncoder(Encoder):
    """Run each job when the test calls `run`, in any order; `run_all` runs all that wait."""

    def __init__(self) -> None:
        # None of them runs.
        self.threads = [threading.Thread() for _ in range(4)]
        self.jobs: dict[int, Callable[[], None]] = {}
        self._numbers = itertools.count()

    def submit(
        self,
        jobs: Sequence[Callable[[], R]],
        done: Callable[[Future[list[R]]], object],
        *,
        short: bool = False,  # noqa: ARG002  (the test decides when it runs)
        copies: bool = False,  # noqa: ARG002
    ) -> None:
        batch = JobBatch(jobs, done)
        for index in range(len(jobs)):
            self.jobs[next(self._numbers)] = partial(batch.run_job, index)

    def run(self, number: int) -> None:
        self.jobs.pop(number)()

    def run_all(self) -> None:
        for number in tuple(self.jobs):
            self.run(number)

    def close(self) -> None:
        self.jobs.clear()
