"""Every construct of the reference pages on loops and inputs, driven without server and wall clock."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime.testing import Message, Studio
from tests.testing import pages


@pytest.fixture
def loop() -> Iterator[Studio[Any]]:
    with pages.defined(pages.LOOP) as model, Studio(model) as studio:
        studio.connect()
        yield studio


def levels(studio: Studio[Any]) -> list[int]:
    return [int(frame.array.flat[0]) for frame in studio.frames]


def push(studio: Studio[Any], track: str, *pictures: int) -> None:
    for level in pictures:
        studio._slot.inputs.push_array(track, np.full((32, 48, 3), level, np.uint8))


def gaps(studio: Studio[Any]) -> list[float]:
    return [float(gap) for gap in np.diff([frame.due_s for frame in studio.frames])]


def test_frames_leave_at_the_declared_rate_and_events_are_seen(loop: Studio[Any]) -> None:
    loop.run(0.5)
    loop.send_event("set_level", level=200)
    loop.run(1)
    assert gaps(loop) == pytest.approx([1 / 30] * (len(loop.frames) - 1))
    assert levels(loop) == sorted(levels(loop))
    assert set(levels(loop)) == {100, 200}
    assert len(loop.frames) == pytest.approx(45 + 8, abs=1)  # the queue holds eight ahead


def test_an_emitted_frame_shows_the_values_its_loop_had_read(loop: Studio[Any]) -> None:
    loop.send_event("set_level", level=200)
    loop.run(1)
    assert all(frame.applied == 1 for frame in loop.frames if int(frame.array.flat[0]) == 200)


def test_a_batch_is_split_and_paced(loop: Studio[Any]) -> None:
    loop.send_event("go", how="batch")
    loop.clear()
    loop.run(2)
    assert [frame.array.shape for frame in loop.frames] == [(32, 48, 3)] * len(loop.frames)
    assert gaps(loop) == pytest.approx([1 / 30] * (len(loop.frames) - 1))
    steps = [message.data["step"] for message in loop.messages]
    assert len(loop.frames) == pytest.approx(4 * len(steps), abs=8)


def test_drop_never_waits_and_discards(loop: Studio[Any]) -> None:
    loop.send_event("go", how="drop")
    loop.run(0.5)
    loop.clear()
    loop.run(1)
    assert len(loop.messages) > 500
    assert len(loop.frames) == pytest.approx(30, abs=1)
    assert loop.frames[-1].seq - loop.frames[0].seq > 400  # what was discarded counts


def test_compute_time_sets_the_rate(loop: Studio[Any]) -> None:
    loop.send_event("go", how="adaptive")
    loop.run(5)
    assert loop.model.output_buffer.fps == pytest.approx(20)
    assert gaps(loop)[-20:] == pytest.approx([0.05] * 20)


def test_the_rate_may_be_set_at_any_time(loop: Studio[Any]) -> None:
    loop.run(0.5)
    loop.send_event("set_rate", fps=10.0)
    loop.clear()
    loop.run(1.5)
    assert gaps(loop)[1:] == pytest.approx([0.1] * (len(loop.frames) - 2))
    loop.disconnect()
    loop.clear()
    loop.connect()
    loop.run(0.5)
    assert gaps(loop) == pytest.approx([1 / 30] * (len(loop.frames) - 1))


def test_a_flush_shows_black_and_then_later_frames(loop: Studio[Any]) -> None:
    loop.send_event("go", how="batch")
    loop.run(0.5)
    loop.send_event("cut")
    black = [frame for frame in loop.frames if not frame.array.any()]
    assert len(black) == 1
    loop.run(0.5)
    assert levels(loop)[-1] == 100


def test_a_payload_that_cannot_be_shown_is_raised_at_the_emit_and_may_be_caught(loop: Studio[Any]) -> None:
    loop.send_event("go", how="wrong")
    loop.run(0.5)
    assert "main_video: got float64" in loop.model.wrong
    loop.send_event("go", how="single")
    loop.clear()
    loop.run(0.5)
    assert levels(loop)


def test_run_sends_messages_and_does_not_compute_without_a_client(loop: Studio[Any]) -> None:
    loop.run(0.2)
    assert [message.type for message in loop.messages] == ["progress"] * len(loop.messages)
    loop.disconnect()
    loop.clear()
    loop.run(1)
    assert (loop.frames, loop.messages) == ([], [])


def test_a_model_without_run_lives_in_its_handlers() -> None:
    with pages.defined(pages.EVENTS) as model, Studio(model) as studio:
        for _ in range(2):
            studio.connect()
            assert studio.send_event("draw", level=7) == Message("progress", {"step": 7})
            assert (levels(studio)[-1], studio.frames[-1].seq) == (7, 0)
            studio.disconnect()


@pytest.mark.parametrize(
    ("program", "sent", "shown"),
    [
        (pages.POLLING, [10], [245]),
        (pages.READING, [10], [245]),
        (pages.READING, [10, 20, 30], [225]),
        (pages.FOUR, [10, 20, 30], []),
        (pages.FOUR, [10, 20, 30, 40], [245, 235, 225, 215]),
        (pages.FOUR, [10, 20, 30, 40, 50], [235, 225, 215, 205]),
    ],
    ids=["try_read", "read", "read the newest", "too few", "four", "the newest four"],
)
def test_inputs_are_read_as_the_page_describes(program: str, sent: list[int], shown: list[int]) -> None:
    with pages.defined(program) as model, Studio(model) as studio:
        for _ in range(3):
            studio.connect()
            push(studio, "webcam", *sent)
            studio.run(1)
            assert [level for level in levels(studio) if level] == shown
            push(studio, "webcam", 99)
            studio.disconnect()
            studio.clear()
        assert studio.model.input.webcam.available == 0


def test_video_to_video() -> None:
    with pages.defined(pages.V2V) as model, Studio(model, {"checkpoint": "weights"}) as studio:
        for _ in range(3):
            studio.connect()
            assert studio.model.style == "none"
            push(studio, "camera", 10)
            studio.run(0.1)
            studio.send_event("set_style", style="sketch")
            push(studio, "camera", 20)
            studio.run(0.1)
            assert [level for level in levels(studio) if level] == [10, 235]
            with pytest.raises(ValueError, match=r"set_style\.style"):
                studio.send_event("set_style", style="watercolour")
            studio.disconnect()
            studio.clear()


def test_nothing_is_left_of_many_sessions() -> None:
    with pages.defined(pages.READING) as model, Studio(model) as studio:
        counts = []
        for _ in range(10):
            studio.connect()
            push(studio, "webcam", 10, 20)
            studio.run(1)
            studio.disconnect()
            studio.run(1)
            counts.append((len(asyncio.all_tasks(studio._loop)), studio.clock.pending))
    assert counts == [counts[0]] * 10
