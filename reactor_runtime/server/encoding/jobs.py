"""What there is to encode of a moment, shared out among threads: each rung in use once, however many clients are on it.

The jobs run on the encoder's threads, and read the moment's pixels and samples where the engine put them.
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
from reactor_runtime.server.encoding.encoder import Ahead
from reactor_runtime.server.encoding.ladder import RUNGS, TOP
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader, attach, detach


class Job(NamedTuple):
    """What one thread encodes of a moment: pictures, each on one rung or several, and sounds.

    The job that has the `best` rung of each picture keeps the pixels of those that nobody sees in full size.
    """

    pictures: Sequence[tuple[BundleFrame, Sequence[int]]]
    sounds: Sequence[BundleSound]
    best: bool = False

    @property
    def is_top(self) -> bool:
        """Tell that its pictures are all on the top rung: what an engine's nudge has encoded is of use."""
        return all(rungs[0] == TOP for _, rungs in self.pictures)


def jobs_of(bundle: Bundle, rungs_of: Callable[[str], Sequence[int]]) -> list[Job]:
    """Share out what there is to encode: the best rung of all tracks, each further quality, and all that is smaller."""
    best: list[tuple[BundleFrame, Sequence[int]]] = []
    others: dict[int, list[tuple[BundleFrame, Sequence[int]]]] = {}
    for picture in bundle.pictures:
        first, *rest = rungs_of(picture.track)
        best.append((picture, (first,)))
        for rung in rest:
            if RUNGS[rung].scale == 1:
                others.setdefault(rung, []).append((picture, (rung,)))
        smaller = [rung for rung in rest if RUNGS[rung].scale < 1]
        if smaller:
            others.setdefault(len(RUNGS), []).append((picture, smaller))
    return [Job(best, bundle.sounds, best=True), *(Job(pictures, ()) for pictures in others.values())]


def encode(
    bundle: Bundle, ring: RingReader, started_at: float, first: Collection[str], job: Job, ahead: Ahead | None = None
) -> Encoded:
    """Do a job for a moment, some tracks of it the `first` after a flush; runs on an encoder thread.

    `ahead` holds the bands of the moment's pictures on the top rung, where they are encoded already.
    """
    began = time.monotonic()
    early = _joined(bundle.pictures, ahead) if ahead is not None and job.is_top else {}

    def header(part: BundleFrame | BundleSound, at: float) -> MediaHeader:
        flag = FrameFlag.AFTER_FLUSH if part.track in first else FrameFlag(0)
        pts_us = max(0, round((at - started_at) * 1e6))
        return MediaHeader(part.track, part.seq, pts_us, bundle.wall_us, bundle.applied, flag)

    def frame(picture: BundleFrame, rungs: Sequence[int]) -> EncodedFrame:
        pixels = ring.picture(picture.offset, picture.height, picture.width)
        known = early.get(picture.track)
        frame = _encode_picture(pixels, rungs, header(picture, bundle.due), bundle.interval_s, known)
        if frame.in_full_size or not job.best:
            return frame
        return replace(frame, pixels=pixels.copy())  # the ring has its memory back when the frame is shown

    frames = tuple(frame(picture, rungs) for picture, rungs in job.pictures)
    sounds = tuple(_encode_sound(sound, ring, header(sound, sound.at)) for sound in job.sounds)
    if early and ahead is not None:  # what was left to do is nothing next to that
        return Encoded(frames, sounds, tuple(band.work for band in ahead))
    return Encoded(frames, sounds, (Work(began, time.monotonic(), threading.get_native_id()),))


def _joined(pictures: Sequence[BundleFrame], ahead: Ahead) -> dict[str, bytes]:
    """Give each track's file, or none where the engine could not nudge for all bands."""
    counts = [len(bands(picture.height, picture.width)) for picture in pictures]
    if sum(counts) != len(ahead):
        return {}
    files = iter(band.file for band in ahead)
    return {
        picture.track: join(list(islice(files, count)), picture.height, picture.width)
        for picture, count in zip(pictures, counts, strict=True)
    }


def frames_of(encoded: Sequence[Encoded]) -> Iterator[EncodedFrame]:
    """Give each track's frame with all its rungs, whichever jobs they come from."""
    by_track: dict[str, list[EncodedFrame]] = {}
    for frame in (frame for part in encoded for frame in part.frames):
        by_track.setdefault(frame.track, []).append(frame)
    for frames in by_track.values():
        yield reduce(_together, frames)


def enlarged(frame: EncodedFrame) -> EncodedFrame:
    """Give a frame whose pixels were kept in full size too."""
    assert frame.pixels is not None, "a frame that nobody saw in full size keeps its pixels"
    header, _ = detach(frame.data)
    assert header is not None, "every frame of ours carries its header"
    data = attach(header, jpeg.encode(frame.pixels, quality=RUNGS[TOP].quality))
    return replace(frame, data=data, rung=TOP, worse=frame.by_rung, pixels=None)


def _together(one: EncodedFrame, other: EncodedFrame) -> EncodedFrame:
    best, worse = sorted((one, other), key=lambda frame: frame.rung)
    return replace(best, worse={**best.worse, **worse.by_rung})


def _encode_picture(
    pixels: NDArray[np.uint8],
    rungs: Sequence[int],
    header: MediaHeader,
    interval_s: float,
    early: bytes | None,
) -> EncodedFrame:
    files, scale = {}, 1.0
    for rung in rungs:
        while scale > RUNGS[rung].scale:
            pixels, scale = halved(pixels), scale / 2
        known = early if rung == TOP else None
        files[rung] = attach(header, jpeg.encode(pixels, quality=RUNGS[rung].quality) if known is None else known)
    best = rungs[0]
    return EncodedFrame(header.track, header.seq, files.pop(best), interval_s, best, files)


def _encode_sound(sound: BundleSound, ring: RingReader, header: MediaHeader) -> EncodedSound:
    samples = ring.samples(sound.offset, sound.channels, sound.samples)
    data = attach(header, wav.encode(samples, sound.sample_rate))
    return EncodedSound(sound.track, data, sound.samples / sound.sample_rate)
