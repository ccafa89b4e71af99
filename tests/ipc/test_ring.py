from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from numpy.typing import NDArray

from reactor_runtime.ipc.ring import PAGE, RingReader, RingWriter, create_memory, room_for
from reactor_runtime.media import jpeg
from tests.fakes import written
from tests.processes import descriptors
from tests.timeouts import TIMEOUT_S


@pytest.fixture
def memory() -> Iterator[int]:
    fd = create_memory()
    yield fd
    os.close(fd)


def picture(value: int, height: int = 8, width: int = 10) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    return np.full((height, width, 3), value, np.uint8)


def test_a_closed_reader_holds_no_memory(memory: int) -> None:
    (offset,) = written(RingWriter(memory), 1, [picture(5)])
    before = descriptors(os.getpid())
    reader = RingReader(memory)
    looked_at = reader.frame(offset, 8, 10)
    assert descriptors(os.getpid()) == before + 1
    reader.close()
    assert (looked_at == 5).all()
    del looked_at
    assert descriptors(os.getpid()) == before
    with pytest.raises(OSError, match="Bad file descriptor"):
        reader.frame(offset, 8, 10)


def test_written_arrays_are_read_on_the_other_side(memory: int) -> None:
    frame = np.random.default_rng(1).integers(0, 256, (48, 64, 3), np.uint8)
    samples = np.arange(-480, 480, dtype=np.int16).reshape(2, 480)
    at_frame, at_samples = written(RingWriter(memory), 1, [frame, samples])
    reader = RingReader(memory)
    assert (reader.frame(at_frame, 48, 64) == frame).all()
    assert (reader.samples(at_samples, 2, 480) == samples).all()


def test_without_memfd_the_memory_is_a_file_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    fd = create_memory()
    (offset,) = written(RingWriter(fd), 1, [picture(5)])
    assert (RingReader(fd).frame(offset, 8, 10) == 5).all()
    assert os.fstat(fd).st_nlink == 0
    os.close(fd)


def test_any_strides_are_taken(memory: int) -> None:
    frame = np.random.default_rng(1).integers(0, 256, (64, 48, 3), np.uint8)
    turned = frame.transpose(1, 0, 2)[::-1, ::2]
    (offset,) = written(RingWriter(memory), 1, [turned])
    assert (RingReader(memory).frame(offset, *turned.shape[:2]) == turned).all()


def test_released_room_is_used_again(memory: int) -> None:
    writer = RingWriter(memory)
    for key in range(100):
        written(writer, key, [picture(key)])
        writer.release(key - 1)
    assert os.fstat(memory).st_size <= 2 * 4096


def test_a_reader_maps_memory_that_has_grown(memory: int) -> None:
    writer, reader = RingWriter(memory), RingReader(memory)
    (small,) = written(writer, 1, [picture(1)])
    seen = reader.frame(small, 8, 10)
    (large,) = written(writer, 2, [picture(2, 720, 1280)])
    assert (reader.frame(large, 720, 1280) == 2).all()
    assert (seen == 1).all()


def test_a_reader_that_is_closed_while_a_thread_maps_the_memory_keeps_none_of_it(memory: int) -> None:
    (offset,) = written(RingWriter(memory), 1, [picture(5)])
    before = descriptors(os.getpid())
    reader = RingReader(memory)
    closing = threading.Thread(target=reader.close)

    def close_in_the_middle(_frame: object, event: str, called: object) -> None:
        if event == "c_return" and called is np.frombuffer:
            closing.start()
            closing.join(0.1)  # it has to wait for us: no end comes

    def look() -> None:
        sys.setprofile(close_in_the_middle)
        reader.frame(offset, 8, 10)

    looking = threading.Thread(target=look)
    looking.start()
    looking.join(TIMEOUT_S)
    closing.join(TIMEOUT_S)
    assert descriptors(os.getpid()) == before


def test_release_of_an_unknown_key_changes_nothing(memory: int) -> None:
    writer = RingWriter(memory)
    (first,) = written(writer, 1, [picture(1)])
    writer.release(7)
    (second,) = written(writer, 2, [picture(2)])
    assert second > first
    writer.release(1)
    writer.release(1)
    assert written(writer, 3, [picture(3)]) == [first]


def test_the_head_of_the_memory_is_left_alone(memory: int) -> None:
    writer = RingWriter(memory, head=2 * PAGE)
    assert writer.write(1, [picture(1)]) == [2 * PAGE]
    frame = lent(writer, 2)
    writer.write(2, [frame])
    assert os.pread(memory, 2 * PAGE, 0) == bytes(2 * PAGE)


def test_an_empty_piece_does_no_harm(memory: int) -> None:
    writer = RingWriter(memory)
    (before,) = written(writer, 1, [picture(1)])
    written(writer, 2, [np.empty((1, 0), np.int16)])
    (after,) = written(writer, 3, [picture(3)])
    reader = RingReader(memory)
    assert (reader.frame(before, 8, 10) == 1).all()
    assert (reader.frame(after, 8, 10) == 3).all()


def lent(writer: RingWriter, level: int) -> NDArray[np.uint8]:
    frame = writer.lend(8 * 10 * 3).reshape(8, 10, 3)
    frame[:] = level
    return frame


def test_a_lent_array_is_not_copied(memory: int) -> None:
    writer, reader = RingWriter(memory), RingReader(memory)
    frame = lent(writer, 5)
    (offset,) = writer.write(1, [frame])
    assert (reader.frame(offset, 8, 10) == 5).all()
    frame[:] = 6
    assert (reader.frame(offset, 8, 10) == 6).all()


def test_lent_and_other_arrays_of_a_bundle_have_their_places(memory: int) -> None:
    writer, reader = RingWriter(memory), RingReader(memory)
    offsets = writer.write(1, [picture(1), lent(writer, 2), picture(3)])
    assert [int(reader.frame(offset, 8, 10)[0, 0, 0]) for offset in offsets] == [1, 2, 3]


def test_the_frames_of_a_lent_batch_are_not_copied(memory: int) -> None:
    writer = RingWriter(memory)
    batch = writer.lend(3 * 8 * 10 * 3).reshape(3, 8, 10, 3)
    (first,), (second,) = writer.write(1, [batch[0]]), writer.write(2, [batch[1]])
    assert second - first == 8 * 10 * 3


@pytest.mark.parametrize("part", [np.s_[::-1], np.s_[:, :5], np.s_[::2, 1:9:3]], ids=["turned", "cropped", "thinned"])
def test_a_view_of_a_lent_array_with_other_strides_is_copied(memory: int, part: Any) -> None:
    writer, reader = RingWriter(memory), RingReader(memory)
    frame = lent(writer, 5)
    frame[:] = np.arange(frame.size).reshape(frame.shape)
    view = frame[part]
    (offset,) = writer.write(1, [view])
    assert (reader.frame(offset, *view.shape[:2]) == view).all()


def test_lent_memory_whose_array_was_not_shown_is_lent_again(memory: int) -> None:
    writer = RingWriter(memory)
    for level in range(100):
        lent(writer, level)
    assert os.fstat(memory).st_size <= 2 * PAGE


def test_an_array_where_a_lent_one_was_is_copied(memory: int) -> None:
    writer, reader = RingWriter(memory), RingReader(memory)
    frame = lent(writer, 1)
    (shown,) = writer.write(1, [frame])
    del frame
    other = picture(2)
    # As if the memory had been unmapped after growing.
    writer._loans[0].address = other.ctypes.data
    (offset,) = writer.write(2, [other])
    assert offset != shown
    assert (reader.frame(offset, 8, 10) == 2).all()


def test_lent_memory_is_used_again_when_it_was_shown_and_its_array_is_gone(memory: int) -> None:
    writer = RingWriter(memory)
    frame = lent(writer, 1)
    (offset,) = writer.write(1, [frame])
    writer.release(1)
    view = frame[3]
    del frame
    assert writer.write(2, [picture(2)]) != [offset], "a view of it exists"
    del view
    assert writer.write(3, [picture(3)]) == [offset]


def test_lent_memory_is_kept_until_it_was_shown(memory: int) -> None:
    writer, reader = RingWriter(memory), RingReader(memory)
    frame = lent(writer, 1)
    # One frame may be shown twice.
    (offset,), (again,) = writer.write(1, [frame]), writer.write(2, [frame])
    del frame
    writer.release(1)
    writer.release(1)
    assert again == offset
    written(writer, 3, [picture(3)])
    assert (reader.frame(offset, 8, 10) == 1).all()
    writer.release(2)
    assert written(writer, 4, [picture(4)]) == [offset]


def test_lent_arrays_stay_where_they_are_when_the_memory_grows(memory: int) -> None:
    writer, reader = RingWriter(memory), RingReader(memory)
    frame = lent(writer, 1)
    written(writer, 1, [picture(2, 720, 1280)])
    frame[:] = 7
    (offset,) = writer.write(2, [frame])
    assert (reader.frame(offset, 8, 10) == 7).all()


@pytest.mark.process
def test_a_forked_child_is_lent_memory_of_its_own(memory: int) -> None:
    writer = RingWriter(memory)
    with warnings.catch_warnings():
        # The child uses nothing that another thread may have locked.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        lent(writer, 1)
        os._exit(0 if not writer._loans else 1)
    assert os.waitpid(child, 0)[1] == 0


class Ring(RuleBasedStateMachine):
    """Write and release at will: every piece that is kept reads as it was written."""

    @initialize()
    def start(self) -> None:
        self.fd = create_memory()
        self.writer, self.reader = RingWriter(self.fd), RingReader(self.fd)
        self.kept: dict[int, tuple[int, int, int]] = {}
        self.count = 0

    @rule(height=st.integers(1, 60), width=st.integers(1, 60))
    def write(self, height: int, width: int) -> None:
        self.count += 1
        (offset,) = written(self.writer, self.count, [picture(self.count % 256, height, width)])
        self.kept[self.count] = (offset, height, width)

    @rule(pick=st.integers(0))
    def release(self, pick: int) -> None:
        if self.kept:
            key = sorted(self.kept)[pick % len(self.kept)]
            del self.kept[key]
            self.writer.release(key)

    @invariant()
    def kept_pieces_are_intact(self) -> None:
        for key, (offset, height, width) in getattr(self, "kept", {}).items():
            assert (self.reader.frame(offset, height, width) == key % 256).all()

    def teardown(self) -> None:
        if hasattr(self, "fd"):
            os.close(self.fd)


TestRing = Ring.TestCase
TestRing.settings = settings(stateful_step_count=25)


def test_a_file_that_is_put_into_a_room_is_read_where_the_room_was_made(memory: int) -> None:
    writer, reader = RingWriter(memory), RingReader(memory)
    offset, first, second, third = writer.write(1, [picture(5)], [4000, 4000, 10])
    reader.put_file(second, b"second", 4000)
    reader.put_file(third, b"more than ten bytes", 10)
    assert [writer.read_file(room) for room in (first, second, third)] == [b"", b"second", b""]
    assert (reader.frame(offset, 8, 10) == 5).all()
    writer.release(1)
    *_, again = writer.write(2, [picture(5)], [4000, 4000])
    assert (again, writer.read_file(again)) == (second, b"")
    reader.close()
    reader.put_file(again, b"late", 4000)
    assert writer.read_file(again) == b""


def test_files_that_fill_their_rooms_do_not_overlap(memory: int) -> None:
    writer, reader = RingWriter(memory), RingReader(memory)
    files = [bytes([number]) * 1000 for number in (1, 2, 3)]
    rooms = writer.write(1, [], [1000, 1000, 1000])
    for room, file in zip(rooms, files, strict=True):
        reader.put_file(room, file, 1000)
    assert [writer.read_file(room) for room in rooms] == files


@pytest.mark.parametrize(("height", "width"), [(16, 16), (480, 640)])
def test_a_room_holds_the_largest_jpeg_of_a_frame(height: int, width: int) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)
    assert len(jpeg.encode(noise, quality=100)) <= room_for(height, width)
