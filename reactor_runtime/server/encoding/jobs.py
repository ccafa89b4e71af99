"""The encoding jobs of a bundle: each rung in use is encoded once, however many clients are on it.

Jobs run on the encoder's threads and read pixels and samples in place from the engine's shared memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.ipc.messages import Bundle, BundleFrame, BundleSound
from reactor_runtime.ipc.ring import RingReader
from reactor_runtime.media import jpeg, wav
from reactor_runtime.media.bands import bands, join
from reactor_runtime.media.scale import halved
from reactor_runtime.server.encoding.encoded import Encoded, EncodedFrame, EncodedSound, Work
from reactor_runtime.server.encoding.encoder import BandsAhead
from reactor_runtime.server.encoding.ladder import RUNGS, TOP
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader, attach, detach


class Job(NamedTuple):
    """The part of a bundle that one thread encodes: frames, each on one rung or several, and sounds.

    The job with the `best` rung of each frame keeps the pixels of frames that no client is sent in full size.
    """

    pictures: Sequence[tuple[BundleFrame, Sequence[int]]]
    sounds: Sequence[BundleSound]
    best: bool = False

    @property
    def is_top(self) -> bool:
        """Whether all frames are on the top rung, so that bands encoded ahead can be used."""
        return all(rungs[0] == TOP for _, rungs in self.pictures)


def plan_jobs(bundle: Bundle, rungs_of: Callable[[str], Sequence[int]]) -> list[Job]:
    """Split a bundle into jobs: the best rung of all tracks, each other full-size rung, and all scaled rungs."""
    best: list[tuple[BundleFrame, Sequence[int]]] = []
    others: dict[int, list[tuple[BundleFrame, Sequence[int]]]] = {}
    for picture in bundle.frames:
        first, *rest = rungs_of(picture.track)
        best.append((picture, (first,)))
        for rung in rest:
            if RUNGS[rung].scale == 1:
                others.setdefault(rung, []).append((picture, (rung,)))
        smaller = [rung for rung in rest if RUNGS[rung].scale < 1]
        if smaller:
            others.setdefault(len(RUNGS), []).append((picture, smaller))
    return [Job(best, bundle.sounds, best=True), *(Job(pictures, ()) for pictures in others.values())]


def run_job(
    bundle: Bundle,
    ring: RingReader,
    started_at: float,
    after_flush: Collection[str],
    job: Job,
    ahead: BandsAhead | None = None,
) -> Encoded:
    """Encode a job's part of a bundle; runs on an encoder thread.

    Frames of the tracks in `after_flush` get the flag for that. `ahead` holds the bundle's bands on the top rung if
    they are encoded already.
    """
    began = time.monotonic()
    joined = _join_bands(bundle.frames, ahead) if ahead is not None and job.is_top else {}

    def header(part: BundleFrame | BundleSound, at: float) -> MediaHeader:
        flag = FrameFlag.AFTER_FLUSH if part.track in after_flush else FrameFlag(0)
        pts_us = max(0, round((at - started_at) * 1e6))
        return MediaHeader(part.track, part.seq, pts_us, bundle.wall_us, bundle.applied, flag)

    def frame(picture: BundleFrame, rungs: Sequence[int]) -> EncodedFrame:
        pixels = ring.frame(picture.offset, picture.height, picture.width)
        known = joined.get(picture.track)
        frame = _encode_frame(pixels, rungs, header(picture, bundle.due), bundle.interval_s, known)
        if frame.is_full_size or not job.best:
            return frame
        # a copy: the engine reuses the memory once the frame is shown
        return replace(frame, pixels=pixels.copy())

    frames = tuple(frame(picture, rungs) for picture, rungs in job.pictures)
    sounds = tuple(_encode_sound(sound, ring, header(sound, sound.at)) for sound in job.sounds)
    # joining bands takes no time compared with encoding them
    if joined and ahead is not None:
        return Encoded(frames, sounds, tuple(band.work for band in ahead))
    return Encoded(frames, sounds, (Work(began, time.monotonic(), threading.get_native_id()),))


def _join_bands(pictures: Sequence[BundleFrame], ahead: BandsAhead) -> dict[str, bytes]:
    """Return the file of each track, or no file if the engine could not send all hints."""
    counts = [len(bands(picture.height, picture.width)) for picture in pictures]
    if sum(counts) != len(ahead):
        return {}
    files = iter(band.file for band in ahead)
    return {
        picture.track: join(list(islice(files, count)), picture.height, picture.width)
        for picture, count in zip(pictures, counts, strict=True)
    }


def merge_frames(encoded: Sequence[Encoded]) -> Iterator[EncodedFrame]:
    """Return the frame of each track with its rungs from all jobs."""
    by_track: dict[str, list[EncodedFrame]] = {}
    for frame in (frame for part in encoded for frame in part.frames):
        by_track.setdefault(frame.track, []).append(frame)
    for frames in by_track.values():
        yield reduce(_merged, frames)


def with_full_size(frame: EncodedFrame) -> EncodedFrame:
    """Return a frame whose pixels were kept with its file in full size added."""
    assert frame.pixels is not None, "a frame that was sent to no client in full size keeps its pixels"
    header, _ = detach(frame.data)
    assert header is not None, "an encoded frame carries its header"
    data = attach(header, jpeg.encode(frame.pixels, quality=RUNGS[TOP].quality))
    return replace(frame, data=data, rung=TOP, worse=frame.by_rung, pixels=None)


def _merged(one: EncodedFrame, other: EncodedFrame) -> EncodedFrame:
    best, worse = sorted((one, other), key=lambda frame: frame.rung)
    return replace(best, worse={**best.worse, **worse.by_rung})


def _encode_frame(
    pixels: NDArray[np.uint8],
    rungs: Sequence[int],
    header: MediaHeader,
    interval_s: float,
    top: bytes | None,
) -> EncodedFrame:
    files, scale = {}, 1.0
    for rung in rungs:
        while scale > RUNGS[rung].scale:
            pixels, scale = halved(pixels), scale / 2
        known = top if rung == TOP else None
        files[rung] = attach(header, jpeg.encode(pixels, quality=RUNGS[rung].quality) if known is None else known)
    best = rungs[0]
    return EncodedFrame(header.track, header.seq, files.pop(best), interval_s, best, files)


def _encode_sound(sound: BundleSound, ring: RingReader, header: MediaHeader) -> EncodedSound:
    samples = ring.samples(sound.offset, sound.channels, sound.samples)
    data = attach(header, wav.encode(samples, sound.sample_rate))
    return EncodedSound(sound.track, data, sound.samples / sound.sample_rate)
