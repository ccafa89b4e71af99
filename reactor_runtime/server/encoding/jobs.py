"""The encoding jobs of a bundle: each rung in use is encoded once, however many clients are on it.

Jobs run on the encoder's threads and read pixels and samples in place from the engine's shared memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.ipc.messages import Bundle, BundleFrame, BundleSound
from reactor_runtime.ipc.ring import RingReader, room_for
from reactor_runtime.media import jpeg, wav
from reactor_runtime.media.scale import halved
from reactor_runtime.server.encoding.encoded import Encoded, EncodedFrame, EncodedSound, MediaFile
from reactor_runtime.server.encoding.encodings import DEFAULT
from reactor_runtime.server.encoding.track_encoding import TOP, TrackEncoding
from reactor_runtime.wire.containers import WAV, replace_header
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader

# The rungs that clients are on by encoding, the best first; the default encoding, if in use, is the first.
RungsInUse = Mapping[TrackEncoding, Sequence[int]]
# The name of a track, and the seat that its frames are for, None for all.
TrackOfSeat = tuple[str, int | None]


class Band(NamedTuple):
    """Rows of a frame that a job of their own encodes."""

    rows: slice
    number: int
    parts: BandParts


class BandParts:
    """The bands of a frame that are encoded so far, on several threads."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._parts: dict[int, bytes] = {}
        self._lock = threading.Lock()

    def add(self, number: int, part: bytes) -> list[bytes] | None:
        """Add a band, and return all in order if it was the last one."""
        with self._lock:
            self._parts[number] = part
            if len(self._parts) < self._count:
                return None
        return [self._parts[number] for number in range(self._count)]


class FrameTask(NamedTuple):
    """A frame to encode, on one rung or several of an encoding; or a band of one, on one rung."""

    source: BundleFrame
    encoding: TrackEncoding
    rungs: Sequence[int]
    band: Band | None = None


class BundlePixels:
    """Read the pixels of a bundle's frames; the first job that reads a frame that is a JPEG decodes it. Any thread."""

    def __init__(self) -> None:
        # By the offset of the file: each seat has frames of its own.
        self._decoded: dict[int, NDArray[np.uint8]] = {}
        self._lock = threading.Lock()

    def read(self, ring: RingReader, source: BundleFrame) -> NDArray[np.uint8]:
        """Return the pixels of a frame, valid until the credit of the bundle is sent."""
        if not source.jpeg_bytes:
            return ring.frame(source.offset, source.height, source.width)
        with self._lock:
            if source.offset not in self._decoded:
                # The clients on the top rung show a damaged file too.
                decoded = jpeg.decode(ring.file(source.offset, source.jpeg_bytes), strict=False)
                self._decoded[source.offset] = decoded
            return self._decoded[source.offset]


class Job(NamedTuple):
    """The part of a bundle that one thread encodes; of the frames in `kept` it keeps the pixels.

    The frames in `files` are JPEGs, which are sent as they are.
    """

    tasks: Sequence[FrameTask]
    sounds: Sequence[BundleSound]
    pixels: BundlePixels
    kept: Sequence[BundleFrame] = ()
    files: Sequence[BundleFrame] = ()


def plan_jobs(
    bundle: Bundle,
    rungs_of: Callable[[str, int | None], RungsInUse],
    threads: int,
    needs_pixels: Callable[[str, int | None], bool] = lambda *_: False,
) -> list[Job]:
    """Split a bundle into jobs for `threads` encoder threads.

    The first jobs encode each track on the best rung of its first encoding: one job for each band of a large frame, and
    one for all other frames and the sounds. Each further job encodes one more rung of full size, or all scaled rungs of
    an encoding. The pixels of a frame are kept if it is not encoded in full size in the default encoding, or if its
    track `needs_pixels`. A frame that is a JPEG already is the file of the top rung, whether or not a client is on that
    rung. A frame that has room for its file is always encoded on the top rung of the default encoding.

    `rungs_of` and `needs_pixels` are called with a track and a seat; None stands for all seats.
    """
    pixels = BundlePixels()
    files: list[BundleFrame] = []
    first: list[FrameTask] = []
    bands: list[FrameTask] = []
    kept: list[BundleFrame] = []
    others: dict[tuple[TrackEncoding, int], list[FrameTask]] = {}
    for source in bundle.frames:
        in_use = rungs_of(source.track, source.seat)
        if source.room >= 0:
            in_use = _with_top(in_use)
        best_scale = min((DEFAULT.rungs[rung].scale for rung in in_use.get(DEFAULT, ())[:1]), default=0.0)
        if source.jpeg_bytes:
            files.append(source)
            in_use, best_scale = _without_top(in_use), 1
        if best_scale < 1 or needs_pixels(source.track, source.seat):
            kept.append(source)
        for number, (encoding, rungs) in enumerate(in_use.items()):
            scales = encoding.rungs
            if not number:
                best, *rungs = rungs
                tasks = _split(FrameTask(source, encoding, (best,)), threads)
                (first if len(tasks) == 1 else bands).extend(tasks)
            for rung in (rung for rung in rungs if scales[rung].scale == 1):
                others.setdefault((encoding, rung), []).append(FrameTask(source, encoding, (rung,)))
            smaller = [rung for rung in rungs if scales[rung].scale < 1]
            if smaller:
                others.setdefault((encoding, len(scales)), []).append(FrameTask(source, encoding, smaller))
    jobs = [Job([band], (), pixels) for band in bands]
    if first or kept or files or bundle.sounds or not bands:
        jobs.append(Job(first, bundle.sounds, pixels, kept, files))
    return [*jobs, *(Job(tasks, (), pixels) for tasks in others.values())]


def _with_top(in_use: RungsInUse) -> RungsInUse:
    """Return the rungs in use with the top one of the default encoding, which comes first."""
    others = {encoding: rungs for encoding, rungs in in_use.items() if encoding is not DEFAULT}
    return {DEFAULT: sorted({TOP, *in_use.get(DEFAULT, ())}), **others}


def _without_top(in_use: RungsInUse) -> RungsInUse:
    """Return the rungs in use without the top one of the default encoding."""
    rest = {
        encoding: [rung for rung in rungs if (encoding, rung) != (DEFAULT, TOP)] for encoding, rungs in in_use.items()
    }
    return {encoding: rungs for encoding, rungs in rest.items() if rungs}


def _split(task: FrameTask, threads: int) -> list[FrameTask]:
    """Split a task by the bands of its frame; a small or scaled frame, or one without bands, stays one task."""
    source, encoding, (rung,), _ = task
    bands = encoding.bands(source.height, source.width, threads)
    if len(bands) == 1 or encoding.rungs[rung].scale < 1:
        return [task]
    parts = BandParts(len(bands))
    return [task._replace(band=Band(rows, number, parts)) for number, rows in enumerate(bands)]


def run_job(
    bundle: Bundle, ring: RingReader, started_at: float, after_flush: Collection[TrackOfSeat], job: Job
) -> Encoded:
    """Encode a job's part of a bundle; runs on an encoder thread.

    Frames of the tracks in `after_flush` get the flag for that.
    """
    began = time.monotonic()

    def header(part: BundleFrame | BundleSound, at: float, metadata: str = "") -> MediaHeader:
        flag = FrameFlag.AFTER_FLUSH if (part.track, part.seat) in after_flush else FrameFlag(0)
        pts_us = max(0, round((at - started_at) * 1e6))
        applied = bundle.others_applied[part.seat - 1] if part.seat else bundle.applied
        return MediaHeader(part.track, part.seq, pts_us, bundle.wall_us, applied, flag, metadata.encode())

    all_applied = (bundle.applied, *bundle.others_applied) if bundle.others_applied else ()

    def frames() -> Iterator[EncodedFrame]:
        for source in job.files:
            frame_header = header(source, bundle.due, source.metadata)
            file = ring.file(source.offset, source.jpeg_bytes)
            # The author may have got the file from a client of Reactor, with a header of its own.
            data = replace_header(DEFAULT.container, frame_header, file)
            top = {DEFAULT: {TOP: MediaFile("video", frame_header, data)}}
            seqs = (source.seq, *source.others_seqs)
            yield EncodedFrame(frame_header, top, bundle.interval_s, None, source.seat, all_applied, seqs)
        for task in job.tasks:
            source = task.source
            pixels = job.pixels.read(ring, source)
            frame_header = header(source, bundle.due, source.metadata)
            files = _encode_frame(pixels, task, frame_header, ring)
            # Another thread encodes the last band.
            if not files:
                continue
            seqs, by_rung = (source.seq, *source.others_seqs), {task.encoding: files}
            yield EncodedFrame(frame_header, by_rung, bundle.interval_s, None, source.seat, all_applied, seqs)
        for source in job.kept:
            # A copy, because the engine reuses the memory once the frame is shown.
            pixels = job.pixels.read(ring, source).copy()
            frame_header = header(source, bundle.due, source.metadata)
            seqs = (source.seq, *source.others_seqs)
            yield EncodedFrame(frame_header, {}, bundle.interval_s, pixels, source.seat, all_applied, seqs)

    encoded = tuple(frames())
    sounds = tuple(_encode_sound(sound, ring, header(sound, sound.at), all_applied) for sound in job.sounds)
    return Encoded(encoded, sounds, began, time.monotonic(), threading.get_native_id())


def merge_frames(encoded: Sequence[Encoded]) -> Iterator[EncodedFrame]:
    """Return the frame of each track and seat with its files from all jobs."""
    by_track: dict[tuple[str, int | None], list[EncodedFrame]] = {}
    for frame in (frame for part in encoded for frame in part.frames):
        by_track.setdefault((frame.track, frame.seat), []).append(frame)
    for frames in by_track.values():
        yield reduce(EncodedFrame.merge, frames)


def _encode_frame(
    pixels: NDArray[np.uint8], task: FrameTask, header: MediaHeader, ring: RingReader
) -> dict[int, MediaFile]:
    """Return the files of a frame by rung, none while other bands of it are not encoded; put the best into its room."""
    source, encoding, files, scale = task.source, task.encoding, {}, 1.0
    for rung in task.rungs:
        while scale > encoding.rungs[rung].scale:
            pixels, scale = halved(pixels), scale / 2
        parts: Sequence[bytes] | None
        if task.band is None:
            parts = (encoding.encode(pixels, rung),)
        else:
            parts = task.band.parts.add(task.band.number, encoding.encode(pixels[task.band.rows], rung))
        if parts is None:
            continue
        file = encoding.join(parts)
        if source.room >= 0 and encoding is DEFAULT and rung == TOP:
            ring.put_file(source.room, file, room_for(source.height, source.width))
        files[rung] = MediaFile("video", header, encoding.container.attach(header, file))
    return files


def _encode_sound(sound: BundleSound, ring: RingReader, header: MediaHeader, applied: tuple[int, ...]) -> EncodedSound:
    samples = ring.samples(sound.offset, sound.channels, sound.samples)
    data = WAV.attach(header, wav.encode(samples, sound.sample_rate))
    duration_s, seqs = sound.samples / sound.sample_rate, (sound.seq, *sound.others_seqs)
    return EncodedSound(header, data, duration_s, sound.seat, applied, seqs)
