from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from reactor_runtime.ipc.messages import Bundle, BundleFrame, BundleSound
from reactor_runtime.ipc.ring import RingReader, RingWriter, create_memory, room_for
from reactor_runtime.media import jpeg
from reactor_runtime.server.encoding.encoded import Encoded, EncodedFrame
from reactor_runtime.server.encoding.encodings import DEFAULT
from reactor_runtime.server.encoding.jobs import Job, RungsInUse, merge_frames, plan_jobs, run_job
from reactor_runtime.server.encoding.raw_encoding import RAW
from reactor_runtime.wire.containers import attach, detach
from reactor_runtime.wire.media_header import MediaHeader
from tests.fakes import written

LEFT, RIGHT = BundleFrame("left", 3, -1, 8, 8), BundleFrame("right", 4, -1, 8, 8)


THREADS = 4


def jobs_of(bundle: Bundle, rungs: Sequence[int]) -> list[Job]:
    """Plan the jobs for clients that are on the same rungs of the default encoding for each track."""
    return plan_jobs(bundle, lambda *_: {DEFAULT: rungs}, threads=THREADS)


def file_of(frame: EncodedFrame) -> bytes:
    """Return the best file of a frame."""
    return frame.file_on(DEFAULT, 0)[1].data


def bundle(*pictures: BundleFrame) -> Bundle:
    return Bundle("s", 0, 0.0, 0.1, 0.0, 5, 3, 0.0, pictures, ())


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
    writer.release(0)
    assert written(writer, 1, [np.zeros_like(pixels)]) == [offset]  # the engine's next frame
    assert (frame.pixels is not None) == kept
    if kept:
        large = frame.with_full_size()
        assert sorted(large.files[DEFAULT]) == [0, *rungs]
        assert detach(file_of(large))[0] == detach(file_of(frame))[0]
        assert np.array_equal(jpeg.decode(file_of(large)), jpeg.decode(jpeg.encode(pixels)))


def large(encoding_order: Sequence[int] | None = None) -> tuple[NDArray[np.uint8], list[Encoded]]:
    """Encode a frame of four bands, in an order of its jobs."""
    memory = create_memory()
    pixels = np.random.default_rng(1).integers(0, 256, (720, 1280, 3), np.uint8)
    (offset,) = written(RingWriter(memory), 0, [pixels])
    whole = bundle(BundleFrame("video", 0, offset, 720, 1280))
    jobs = jobs_of(whole, [0])
    order = range(len(jobs)) if encoding_order is None else encoding_order
    return pixels, [run_job(whole, RingReader(memory), 0.0, (), jobs[number]) for number in order]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2)], ids=str)
def test_the_job_of_the_last_band_makes_the_file(order: tuple[int, ...]) -> None:
    pixels, encoded = large(order)
    assert [len(each.frames) for each in encoded] == [0, 0, 0, 1]
    (frame,) = merge_frames(encoded)
    assert np.array_equal(jpeg.decode(file_of(frame)), jpeg.decode(jpeg.encode(pixels)))
    assert frame.pixels is None


def test_a_large_frame_below_the_top_rung_is_split_only_in_full_size() -> None:
    whole = bundle(BundleFrame("video", 0, -1, 720, 1280))
    assert [len(jobs_of(whole, [rung])) for rung in (0, 2, 3)] == [4, 4, 1]


def test_a_frame_of_two_bands_is_two_jobs() -> None:
    whole = bundle(BundleFrame("video", 0, -1, 1080, 1920))
    assert len(plan_jobs(whole, lambda *_: {DEFAULT: [0]}, threads=2)) == 2


def test_sound_beside_a_large_frame_is_a_job_of_its_own() -> None:
    sound = BundleSound("audio", 0, 0, 1, 6, 48000, 0.0)
    *bands, last = jobs_of(bundle(BundleFrame("video", 0, -1, 720, 1280))._replace(sounds=(sound,)), [0])
    assert [(job.sounds, len(job.tasks)) for job in bands] == [((), 1)] * 4
    assert (last.sounds, last.tasks) == ((sound,), [])


def test_a_piece_of_sound_has_the_duration_of_its_samples() -> None:
    memory = create_memory()
    (offset,) = written(RingWriter(memory), 0, [np.zeros((2, 4800), np.int16)])
    sound = Bundle("s", 0, 0.0, 0.1, 0.0, 5, 3, 0.0, (), (BundleSound("audio", 0, offset, 2, 4800, 48_000, 0.0),))
    (job,) = plan_jobs(sound, lambda *_: {}, threads=THREADS)
    (piece,) = run_job(sound, RingReader(memory), 0.0, (), job).sounds
    assert (piece.track, piece.duration_s) == ("audio", 0.1)


@pytest.mark.parametrize("rungs", [[0], [0, 3], [3], []], ids=str)
def test_pixels_are_kept_for_a_track_that_needs_them(rungs: list[int]) -> None:
    in_use: RungsInUse = {DEFAULT: rungs} if rungs else {}
    memory = create_memory()
    pixels = np.random.default_rng(1).integers(0, 256, (720, 1280, 3), np.uint8)
    (offset,) = written(RingWriter(memory), 0, [pixels])
    whole = bundle(BundleFrame("video", 7, offset, 720, 1280))
    jobs = plan_jobs(whole, lambda *_: in_use, THREADS, lambda track, _: track == "video")
    (frame,) = merge_frames([run_job(whole, RingReader(memory), 0.0, (), job) for job in jobs])
    assert sum(len(job.kept) for job in jobs) == 1
    assert frame.seq == 7
    assert frame.pixels is not None
    assert np.array_equal(frame.pixels, pixels)
    assert {encoding: sorted(files) for encoding, files in frame.files.items()} == in_use


def encoded_already(file: bytes, in_use: RungsInUse, *, needs_pixels: bool = False) -> EncodedFrame:
    """Return a frame that the model has encoded, for clients on these rungs."""
    memory, header = create_memory(), jpeg.read_header(file)
    (offset,) = written(RingWriter(memory), 0, [np.frombuffer(file, np.uint8)])
    whole = bundle(BundleFrame("video", 7, offset, header.height, header.width, "", len(file)))
    jobs = plan_jobs(whole, lambda *_: in_use, THREADS, lambda *_: needs_pixels)
    (frame,) = merge_frames([run_job(whole, RingReader(memory), 0.0, (), job) for job in jobs])
    return frame


NOISE = np.random.default_rng(1).integers(0, 256, (720, 1280, 3), np.uint8)
NOISE_FILE = jpeg.encode(NOISE, quality=95)


@pytest.mark.parametrize("rungs", [[0], [0, 1, 3], [3], []], ids=str)
def test_a_frame_that_is_a_jpeg_goes_out_as_it_is_on_the_top_rung(rungs: list[int]) -> None:
    frame = encoded_already(NOISE_FILE, {DEFAULT: rungs} if rungs else {})
    header, file = detach(file_of(frame))
    assert file == NOISE_FILE
    assert header is not None
    assert (header.track, header.seq) == ("video", 7)
    assert sorted(frame.files[DEFAULT]) == sorted({0, *rungs})
    assert frame.pixels is None


def test_it_is_decoded_for_the_other_rungs_and_encodings() -> None:
    frame = encoded_already(NOISE_FILE, {DEFAULT: [1, 3], RAW: [0]}, needs_pixels=True)
    decoded = jpeg.decode(NOISE_FILE)
    expected = jpeg.encode(decoded, quality=DEFAULT.rungs[1].quality)
    assert np.array_equal(jpeg.decode(detach(frame.files[DEFAULT][1].data)[1]), jpeg.decode(expected))
    assert jpeg.read_header(detach(frame.files[DEFAULT][3].data)[1]).width == 640
    assert np.array_equal(np.load(io.BytesIO(frame.files[RAW][0].data)), decoded)
    assert frame.pixels is not None
    assert np.array_equal(frame.pixels, decoded)


def test_a_header_that_a_client_of_reactor_has_put_into_the_file_is_replaced() -> None:
    other = attach(MediaHeader("camera", 3, 1, 2, metadata=b"theirs"), NOISE_FILE)
    header, file = detach(file_of(encoded_already(other, {DEFAULT: [0]})))
    assert file == NOISE_FILE
    assert header is not None
    assert (header.track, header.metadata) == ("video", b"")


def test_a_damaged_jpeg_is_shown_to_all() -> None:
    middle = len(NOISE_FILE) // 2
    damaged = NOISE_FILE[:middle] + bytes(40) + NOISE_FILE[middle + 40 :]
    assert sorted(encoded_already(damaged, {DEFAULT: [0, 3]}).files[DEFAULT]) == [0, 3]


def test_frames_on_the_top_rung_alone_are_one_job() -> None:
    (job,) = jobs_of(bundle(LEFT, RIGHT), [0])
    assert [(task.source, task.rungs) for task in job.tasks] == [(LEFT, (0,)), (RIGHT, (0,))]


def test_each_track_has_rungs_of_its_own() -> None:
    jobs = plan_jobs(
        bundle(LEFT, RIGHT), lambda track, _: {DEFAULT: {"left": [0, 2], "right": [1, 2, 6]}[track]}, THREADS
    )
    assert [[(task.source, task.rungs) for task in job.tasks] for job in jobs] == [
        [(LEFT, (0,)), (RIGHT, (1,))],
        [(LEFT, (2,)), (RIGHT, (2,))],
        [(RIGHT, [6])],
    ]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_jobs_may_end_in_any_order(order: tuple[int, ...]) -> None:
    memory = RingReader(create_memory())
    both = bundle(LEFT, RIGHT)
    jobs = plan_jobs(both, lambda track, _: {DEFAULT: {"left": [0, 2], "right": [1, 4, 6]}[track]}, THREADS)
    encoded = [run_job(both, memory, 0.0, (), jobs[number]) for number in order]
    frames = {frame.track: (frame.seq, sorted(frame.files[DEFAULT])) for frame in merge_frames(encoded)}
    assert frames == {"left": (3, [0, 2]), "right": (4, [1, 4, 6])}


def test_metadata_is_in_the_header_of_every_file_of_its_frame() -> None:
    memory = create_memory()
    (offset,) = written(RingWriter(memory), 0, [np.zeros((720, 1280, 3), np.uint8)])
    left = BundleFrame("left", 0, offset, 720, 1280, '{"pose":[1,2]}')
    whole = bundle(left, left._replace(track="right", metadata=""))
    frames = list(merge_frames([run_job(whole, RingReader(memory), 0.0, (), job) for job in jobs_of(whole, [0, 1, 5])]))
    for frame, text in zip(frames, (b'{"pose":[1,2]}', b""), strict=True):
        for shown in (frame, frame.as_held(), replace(frame, pixels=np.zeros((8, 8, 3), np.uint8)).with_full_size()):
            headers = [detach(file.data)[0] for file in shown.files[DEFAULT].values()]
            assert [header.metadata for header in headers if header is not None] == [text] * len(shown.files[DEFAULT])


@pytest.mark.parametrize("rungs", [[0], [3], []], ids=str)
def test_a_frame_with_room_for_its_file_has_the_best_one_there(rungs: list[int]) -> None:
    in_use: RungsInUse = {DEFAULT: rungs} if rungs else {}
    memory = create_memory()
    writer = RingWriter(memory)
    pixels = np.random.default_rng(1).integers(0, 256, (720, 1280, 3), np.uint8)
    offset, room = writer.write(0, [pixels], [room_for(720, 1280)])
    whole = bundle(BundleFrame("video", 7, offset, 720, 1280, room=room))
    (frame,) = merge_frames(
        [run_job(whole, RingReader(memory), 0.0, (), job) for job in plan_jobs(whole, lambda *_: in_use, THREADS)]
    )
    assert list(frame.files) == [DEFAULT]
    assert sorted(frame.files[DEFAULT]) == sorted({0, *rungs})
    file = writer.read_file(room)
    assert detach(frame.files[DEFAULT][0].data)[1] == file
    assert np.array_equal(jpeg.decode(file), jpeg.decode(jpeg.encode(pixels)))


def test_a_frame_has_the_number_and_the_applied_events_of_its_seat() -> None:
    memory = create_memory()
    pictures = [np.full((8, 8, 3), level, np.uint8) for level in (10, 90, 200)]
    offsets = written(RingWriter(memory), 0, pictures)
    seats = (0, 1, None)
    frames = [BundleFrame("view", 4, at, 8, 8, seat=seat) for at, seat in zip(offsets, seats, strict=True)]
    frames[2] = frames[2]._replace(others_seqs=(9,))
    whole = bundle(*frames)._replace(applied=3, others_applied=(8,))
    encoded = [run_job(whole, RingReader(memory), 0.0, (), job) for job in jobs_of(whole, [0])]
    made = {frame.seat: frame for frame in merge_frames(encoded)}
    assert {seat: frame.header.applied for seat, frame in made.items()} == {0: 3, 1: 8, None: 3}
    assert {seat: round(jpeg.decode(file_of(frame)).mean()) for seat, frame in made.items()} == {
        0: 10,
        1: 90,
        None: 200,
    }
    (header, _) = detach(file_of(made[None].for_seat(1)))
    assert header is not None
    assert (header.applied, header.seq) == (8, 9)


def test_the_jpegs_of_each_seat_are_decoded_for_it() -> None:
    memory = create_memory()
    files = [jpeg.encode(np.full((64, 64, 3), level, np.uint8)) for level in (10, 200)]
    offsets = written(RingWriter(memory), 0, [np.frombuffer(file, np.uint8) for file in files])
    places = zip(offsets, files, strict=True)
    frames = [BundleFrame("view", 4, at, 64, 64, "", len(file), seat=seat) for seat, (at, file) in enumerate(places)]
    whole = bundle(*frames)._replace(others_applied=(0,))
    encoded = [run_job(whole, RingReader(memory), 0.0, (), job) for job in jobs_of(whole, [0, 3])]
    small = {frame.seat: detach(frame.files[DEFAULT][3].data)[1] for frame in merge_frames(encoded)}
    assert {seat: round(jpeg.decode(file).mean()) for seat, file in small.items()} == {0: 10, 1: 200}
