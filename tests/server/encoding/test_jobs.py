from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from reactor_runtime.ipc.messages import Bundle, BundleFrame
from reactor_runtime.ipc.ring import RingReader, RingWriter, create_memory
from reactor_runtime.media import jpeg
from reactor_runtime.media.bands import bands
from reactor_runtime.server.encoding.encoded import EncodedFrame, Work
from reactor_runtime.server.encoding.encoder import EncodedBand
from reactor_runtime.server.encoding.encodings import DEFAULT
from reactor_runtime.server.encoding.jobs import Job, merge_frames, plan_jobs, run_job
from reactor_runtime.wire.media_header import detach
from tests.fakes import written

LEFT, RIGHT = BundleFrame("left", 3, -1, 8, 8), BundleFrame("right", 4, -1, 8, 8)


def jobs_of(bundle: Bundle, rungs: Sequence[int]) -> list[Job]:
    """Plan the jobs for clients that are on the same rungs of the default encoding for each track."""
    return plan_jobs(bundle, lambda _: {DEFAULT: rungs})


def file_of(frame: EncodedFrame) -> bytes:
    """Return the best file of a frame."""
    return frame.file_on(DEFAULT, 0)[1].data


def bundle(*pictures: BundleFrame) -> Bundle:
    return Bundle("s", 0, 0.0, 0.1, 0.0, 5, 3, 0.0, pictures, ())


LARGE = bundle(BundleFrame("video", 0, -1, 720, 1280))  # black, where it has not been encoded ahead


def test_each_rung_has_its_quality_and_scale() -> None:
    memory = create_memory()
    pixels = np.random.default_rng(1).integers(0, 256, (400, 800, 3), np.uint8)
    (offset,) = written(RingWriter(memory), 0, [pixels])
    whole = bundle(BundleFrame("video", 0, offset, 400, 800))
    jobs = jobs_of(whole, range(len(DEFAULT.rungs)))
    assert [task.rungs for job in jobs for task in job.tasks] == [(0,), (1,), (2,), [3, 4, 5, 6]]
    (frame,) = merge_frames([run_job(whole, RingReader(memory), 0.0, (), job) for job in jobs])
    files = [frame.files[DEFAULT][rung].data for rung in range(len(DEFAULT.rungs))]
    assert [jpeg.read_header(file).width for file in files] == [800, 800, 800, 400, 400, 400, 200]
    lengths = [len(file) for file in files]
    assert lengths == sorted(set(lengths), reverse=True)


@pytest.mark.parametrize(("rungs", "kept"), [([3, 6], True), ([6], True), ([2, 6], False), ([0], False)])
def test_pixels_are_kept_when_no_client_is_sent_the_full_size(rungs: list[int], kept: bool) -> None:
    memory = create_memory()
    writer = RingWriter(memory)
    pixels = np.random.default_rng(1).integers(0, 256, (400, 800, 3), np.uint8)
    (offset,) = written(writer, 0, [pixels])
    whole = bundle(BundleFrame("video", 0, offset, 400, 800))
    (frame,) = merge_frames([run_job(whole, RingReader(memory), 0.0, (), job) for job in jobs_of(whole, rungs)])
    writer.copy(offset, np.zeros_like(pixels))  # the engine's next frame
    assert (frame.pixels is not None) == kept
    if kept:
        large = frame.with_full_size()
        assert sorted(large.files[DEFAULT]) == [0, *rungs]
        assert detach(file_of(large))[0] == detach(file_of(frame))[0]
        assert np.array_equal(jpeg.decode(file_of(large)), jpeg.decode(jpeg.encode(pixels)))


def test_joined_bands_equal_the_file_of_the_job() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (720, 1280, 3), np.uint8)
    (job,) = jobs_of(LARGE, [0])
    early = tuple(
        EncodedBand(jpeg.encode(pixels[rows], quality=DEFAULT.rungs[0].quality), Work(1.0, 2.0 + number, 7 + number))
        for number, rows in enumerate(bands(720, 1280))
    )
    encoded = run_job(LARGE, RingReader(-1), 0.0, (), job, early)
    assert (encoded.began, encoded.ended) == (1.0, 1.0 + len(early))
    assert [work.thread for work in encoded.work] == [7 + number for number in range(len(early))]
    assert np.array_equal(jpeg.decode(file_of(encoded.frames[0])), jpeg.decode(jpeg.encode(pixels)))


def test_unused_bands_do_not_count_as_work_of_the_job() -> None:
    (job,) = jobs_of(LARGE, [1])
    black = jpeg.encode(np.zeros((16, 1280, 3), np.uint8))
    encoded = run_job(
        LARGE, RingReader(-1), 0.0, (), job, tuple(EncodedBand(black, Work(1.0, 2.0, 7)) for _ in bands(720, 1280))
    )
    assert encoded.began > 2.0
    assert list(encoded.frames[0].files[DEFAULT]) == [1]


def test_a_job_encodes_everything_if_a_band_is_missing() -> None:
    (job,) = jobs_of(LARGE, [0])
    grey = EncodedBand(jpeg.encode(np.full((368, 1280, 3), 99, np.uint8)), Work(1.0, 2.0, 7))
    encoded = run_job(LARGE, RingReader(-1), 0.0, (), job, (grey,))
    assert not jpeg.decode(file_of(encoded.frames[0])).any()


def test_frames_on_the_top_rung_alone_are_one_job() -> None:
    (job,) = jobs_of(bundle(LEFT, RIGHT), [0])
    assert job.tasks == [(LEFT, DEFAULT, (0,)), (RIGHT, DEFAULT, (0,))]


def test_each_track_has_rungs_of_its_own() -> None:
    jobs = plan_jobs(bundle(LEFT, RIGHT), lambda track: {DEFAULT: {"left": [0, 2], "right": [1, 2, 6]}[track]})
    assert [[(task.source, task.rungs) for task in job.tasks] for job in jobs] == [
        [(LEFT, (0,)), (RIGHT, (1,))],
        [(LEFT, (2,)), (RIGHT, (2,))],
        [(RIGHT, [6])],
    ]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_jobs_may_end_in_any_order(order: tuple[int, ...]) -> None:
    memory = RingReader(create_memory())
    both = bundle(LEFT, RIGHT)
    jobs = plan_jobs(both, lambda track: {DEFAULT: {"left": [0, 2], "right": [1, 4, 6]}[track]})
    encoded = [run_job(both, memory, 0.0, (), jobs[number]) for number in order]
    frames = {frame.track: (frame.seq, sorted(frame.files[DEFAULT])) for frame in merge_frames(encoded)}
    assert frames == {"left": (3, [0, 2]), "right": (4, [1, 4, 6])}
