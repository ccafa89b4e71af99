"""The encoding jobs of a bundle: each rung in use is encoded once, however many clients are on it.

Jobs run on the encoder's threads and read pixels and samples in place from the engine's shared memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.ipc.messages import Bundle, BundleFrame, BundleSound
from reactor_runtime.ipc.ring import RingReader
from reactor_runtime.media import wav
from reactor_runtime.media.scale import halved
from reactor_runtime.server.encoding.encoded import Encoded, EncodedFrame, EncodedSound, MediaFile, Work
from reactor_runtime.server.encoding.encoder import BandsAhead
from reactor_runtime.server.encoding.encodings import DEFAULT
from reactor_runtime.server.encoding.track_encoding import TOP, TrackEncoding
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader, attach

# by encoding the rungs that clients are on, the best first; the default encoding, if in use, is the first
RungsInUse = Mapping[TrackEncoding, Sequence[int]]


class FrameTask(NamedTuple):
    """A frame to encode, on one rung or several of an encoding."""

    source: BundleFrame
    encoding: TrackEncoding
    rungs: Sequence[int]


class Job(NamedTuple):
    """The part of a bundle that one thread encodes.

    The `first` job keeps the pixels of frames that are not encoded in full size in the default encoding.
    """

    tasks: Sequence[FrameTask]
    sounds: Sequence[BundleSound]
    first: bool = False

    @property
    def is_top(self) -> bool:
        """Whether all frames are on the top rung of the default encoding, so that bands encoded ahead can be used."""
        return all(task.encoding is DEFAULT and task.rungs[0] == TOP for task in self.tasks)


def plan_jobs(bundle: Bundle, rungs_of: Callable[[str], RungsInUse]) -> list[Job]:
    """Split a bundle into jobs.

    The first has the best rung of the first encoding of all tracks, and the sounds. Further jobs have each another
    rung of full size, or all scaled rungs of an encoding.
    """
    first: list[FrameTask] = []
    others: dict[tuple[TrackEncoding, int], list[FrameTask]] = {}
    for source in bundle.frames:
        for number, (encoding, rungs) in enumerate(rungs_of(source.track).items()):
            if not number:
                first.append(FrameTask(source, encoding, (rungs[0],)))
                rungs = rungs[1:]
            scales = encoding.rungs
            for rung in (rung for rung in rungs if scales[rung].scale == 1):
                others.setdefault((encoding, rung), []).append(FrameTask(source, encoding, (rung,)))
            smaller = [rung for rung in rungs if scales[rung].scale < 1]
            if smaller:
                others.setdefault((encoding, len(scales)), []).append(FrameTask(source, encoding, smaller))
    return [Job(first, bundle.sounds, first=True), *(Job(tasks, ()) for tasks in others.values())]


def run_job(
    bundle: Bundle,
    ring: RingReader,
    started_at: float,
    after_flush: Collection[str],
    job: Job,
    ahead: BandsAhead | None = None,
) -> Encoded:
    """Encode a job's part of a bundle; runs on an encoder thread.

    Frames of the tracks in `after_flush` get the flag for that. `ahead` holds the bundle's bands on the top rung of the
    default encoding if they are encoded already.
    """
    began = time.monotonic()
    known = _bands_by_track(bundle.frames, ahead) if ahead is not None and job.is_top else {}

    def header(part: BundleFrame | BundleSound, at: float) -> MediaHeader:
        flag = FrameFlag.AFTER_FLUSH if part.track in after_flush else FrameFlag(0)
        pts_us = max(0, round((at - started_at) * 1e6))
        return MediaHeader(part.track, part.seq, pts_us, bundle.wall_us, bundle.applied, flag)

    def frame(task: FrameTask) -> EncodedFrame:
        source = task.source
        pixels = ring.frame(source.offset, source.height, source.width)
        frame_header = header(source, bundle.due)
        files = _encode_frame(pixels, task, frame_header, known.get(source.track))
        frame = EncodedFrame(frame_header, {task.encoding: files}, bundle.interval_s)
        if not job.first or frame.is_full_size(DEFAULT):
            return frame
        # a copy: the engine reuses the memory once the frame is shown
        return replace(frame, pixels=pixels.copy())

    frames = tuple(frame(task) for task in job.tasks)
    sounds = tuple(_encode_sound(sound, ring, header(sound, sound.at)) for sound in job.sounds)
    # joining bands takes no time compared with encoding them
    if known and ahead is not None:
        return Encoded(frames, sounds, tuple(band.work for band in ahead))
    return Encoded(frames, sounds, (Work(began, time.monotonic(), threading.get_native_id()),))


def _bands_by_track(pictures: Sequence[BundleFrame], ahead: BandsAhead) -> dict[str, list[bytes]]:
    """Return the encoded bands of each track, or none if the engine could not send all hints."""
    counts = [len(DEFAULT.bands(source.height, source.width)) for source in pictures]
    if sum(counts) != len(ahead):
        return {}
    files = iter(band.file for band in ahead)
    return {source.track: list(islice(files, count)) for source, count in zip(pictures, counts, strict=True)}


def merge_frames(encoded: Sequence[Encoded]) -> Iterator[EncodedFrame]:
    """Return the frame of each track with its files from all jobs."""
    by_track: dict[str, list[EncodedFrame]] = {}
    for frame in (frame for part in encoded for frame in part.frames):
        by_track.setdefault(frame.track, []).append(frame)
    for frames in by_track.values():
        yield reduce(EncodedFrame.merge, frames)


def _encode_frame(
    pixels: NDArray[np.uint8], task: FrameTask, header: MediaHeader, bands: Sequence[bytes] | None
) -> dict[int, MediaFile]:
    """Return the files of a frame by rung; `bands` are those of its top rung, if they are encoded already."""
    encoding, files, scale = task.encoding, {}, 1.0
    for rung in task.rungs:
        while scale > encoding.rungs[rung].scale:
            pixels, scale = halved(pixels), scale / 2
        known = bands if rung == TOP else None
        data = encoding.to_file(header, (encoding.encode(pixels, rung),) if known is None else known)
        files[rung] = MediaFile("video", header, data)
    return files


def _encode_sound(sound: BundleSound, ring: RingReader, header: MediaHeader) -> EncodedSound:
    samples = ring.samples(sound.offset, sound.channels, sound.samples)
    data = attach(header, wav.encode(samples, sound.sample_rate))
    return EncodedSound(header, data, sound.samples / sound.sample_rate)
