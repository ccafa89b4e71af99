"""The object that get_ctx() returns: blocks, messages and tracks."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.values.jsonable import MOST_JSON_BYTES
from reactor_runtime.interface import (
    Audio,
    Input,
    ModelMessage,
    Output,
    TrackPayload,
    Video,
    get_ctx,
)
from reactor_runtime.testing import Message
from tests.engine.blocks import Scripted, paint, reds, studio_of, until
from tests.engine.rig import Rig, batch, frame


def test_a_single_frame_is_a_block_of_one() -> None:
    with studio_of(lambda _: get_ctx().emit_block(frame(7))) as studio:
        studio.connect()
        assert reds(studio) == [7]


def test_none_shows_black_of_the_size_frames_have() -> None:
    def script(_: Scripted) -> None:
        get_ctx().emit_block(None)
        get_ctx().emit_block(frame(7, height=4, width=6))
        get_ctx().emit_block(None)
        while not get_ctx().should_stop():
            pass

    with studio_of(script) as studio:
        studio.connect()
        studio.run(1)
        shapes = [shown.array.shape for shown in studio.frames]
        assert shapes == [(480, 640, 3), (4, 6, 3), (4, 6, 3)]
        assert reds(studio) == [0, 7, 0]
        studio.disconnect()
        studio.clear()
        studio.connect()
        assert studio.frames[0].array.shape == (4, 6, 3)


@pytest.mark.parametrize(
    ("frames", "error", "words"),
    [
        (np.zeros((2, 2)), ValueError, r"emit_block: got 2 dimensions, \(2, 2\); a block is"),
        (np.zeros((1, 2, 2, 2, 3), np.uint8), ValueError, "got 5 dimensions"),
        (np.zeros((2, 2, 3)), TypeError, "main_video: got float64"),
        (np.zeros((2, 2, 4), np.uint8), ValueError, "drop the alpha channel"),
        ("frames", TypeError, "main_video: got str"),
    ],
    ids=["rank 2", "rank 5", "floats", "alpha", "no array"],
)
def test_an_invalid_payload_raises_at_the_call_that_emits_it(frames: Any, error: type[Exception], words: str) -> None:
    def script(model: Scripted) -> None:
        with pytest.raises(error, match=words):
            get_ctx().emit_block(frames)
        model.log.append("caught")
        paint(model)

    with studio_of(script) as studio:
        studio.connect()
        assert studio.model.log == ["caught"]


class Note(ModelMessage):
    text: str


@pytest.mark.parametrize(
    "message",
    [{"type": "note", "text": "x" * MOST_JSON_BYTES}, Note("x" * MOST_JSON_BYTES)],
    ids=["dict", "ModelMessage"],
)
def test_a_message_of_more_than_1_mib_raises_at_send(message: Any) -> None:
    def script(model: Scripted) -> None:
        with pytest.raises(ValueError, match=r"(?i)note\.text has 1\.05 MB as JSON"):
            get_ctx().send(message)
        model.log.append("caught")
        paint(model)

    with studio_of(script) as studio:
        studio.connect()
        assert studio.model.log == ["caught"]
        assert not studio.messages


def test_an_array_may_be_used_again_at_once() -> None:
    def script(_: Scripted) -> None:
        canvas = batch(1, 1)
        for number in range(4):
            canvas[:] = number
            get_ctx().emit_block(canvas)

    with studio_of(script) as studio:
        studio.connect()
        studio.run(1)
        assert reds(studio)[:-1] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_context_of_a_finished_session_emits_nothing() -> None:
    kept: list[Any] = []

    def script(model: Scripted) -> None:
        for old in kept:
            assert old.should_stop()
            old.emit_block(frame(9))
            old.send({"type": "late"})
        kept.append(get_ctx())
        paint(model)

    with studio_of(script) as studio:
        for _ in range(2):
            studio.connect()
            studio.run(0.1)
            studio.disconnect()
        assert 9 not in reds(studio)
        assert studio.messages == []


def test_a_message_comes_after_the_blocks_before_it() -> None:
    class Progress(ModelMessage):
        step: int

    def script(_: Scripted) -> None:
        get_ctx().emit_block(batch(*range(12)))
        get_ctx().send({"type": "progress", "data": {"frames": np.int64(12)}})
        get_ctx().send(Progress(step=1))
        get_ctx().send({"type": "bare"})
        get_ctx().send({"type": "flat", "step": 2, "data": 3})
        get_ctx().send({"step": 3})

    with studio_of(script) as studio:
        studio.connect()
        assert len(studio.frames) == 12
        assert studio.messages == [
            Message("progress", {"frames": 12}),
            Message("progress", {"step": 1}),
            Message("bare", {}),
            Message("flat", {"step": 2, "data": 3}),
            Message("message", {"step": 3}),
        ]


@pytest.mark.parametrize(
    ("message", "error", "words"),
    [
        ("hello", TypeError, r"send\(\) takes"),
        ({"type": 3, "data": {}}, ValueError, r'"type": "progress"'),
        ({"type": "reactor.state"}, ValueError, "belong to the protocol"),
        ({"type": "a", "data": {"f": open}}, TypeError, r"a\.f"),
    ],
)
def test_a_message_that_can_t_be_sent_raises_where_it_is_sent(message: Any, error: type[Exception], words: str) -> None:
    def script(model: Scripted) -> None:
        with pytest.raises(error, match=words):
            get_ctx().send(message)
        model.log.append("caught")

    with studio_of(script) as studio:
        studio.connect()
        assert studio.model.log == ["caught", "over"]


def test_tracks_are_emitted_to_by_name_or_as_an_output() -> None:
    class Pair(Output):
        left: Video
        sound: Audio

    class Right(Output):
        right: Video

    class Tracks(Scripted):
        output: Pair | Right

    def script(model: Scripted) -> None:
        ctx = get_ctx()
        with pytest.raises(ValueError, match=r"tracks left, right: .* name the track"):
            ctx.emit_block(frame(1))
        with pytest.raises(ValueError, match="no track 'top'; it has: left, sound, right"):
            ctx.get_track("top")
        with pytest.raises(ValueError, match="left is sent to clients"):
            ctx.get_track("left").latest()
        ctx.get_track("right").emit(frame(3))
        ctx.get_track("sound").emit(np.full(10, 5, np.int16))
        ctx.emit_block(Pair(left=batch(1, 2), sound=np.zeros(8, np.int16)))
        model.log.append("all")

    with studio_of(script, Tracks) as studio:
        studio.connect()
        studio.run(1)
        assert studio.model.log == ["all", "over"]
        shown = [(each.track, int(each.array.flat[0])) for each in studio.frames[:6]]
        assert shown == [("right", 3), ("sound", 5), ("left", 1), ("sound", 0), ("left", 2), ("sound", 0)]


def test_latest_returns_the_newest_frame_until_a_newer_one_comes() -> None:
    class Camera(Input):
        camera: Video

    class Seeing(Scripted):
        input: Camera

    def script(model: Scripted) -> None:
        tracks = [get_ctx().get_track(name) for name in ("camera", None)]
        while not get_ctx().should_stop():
            pictures = [track.latest() for track in tracks]
            model.log.append([None if picture is None else int(picture.flat[0]) for picture in pictures])
            if pictures[0] is not None:
                get_ctx().emit_block(pictures[0])

    async def look() -> None:
        rig.start()
        await until(lambda: rig.model.log)
        assert rig.model.log[0] == [None, None]
        rig.inputs.push_array("camera", frame(6))
        await until(lambda: 6 in rig.sink.reds)
        await rig.play(0.2)
        rig.inputs.push_array("camera", frame(7))
        await rig.play(0.2)
        await until(lambda: 7 in rig.sink.reds)
        await rig.stop()

    rig = Rig(Seeing, config={"script": script})
    asyncio.run(look())


def test_a_thread_of_the_author_s_may_emit() -> None:
    def script(model: Scripted) -> None:
        thread = threading.Thread(target=lambda: get_ctx().emit_block(frame(4)))
        thread.start()
        thread.join()
        model.log.append("joined")

    with studio_of(script) as studio:
        studio.connect()
        studio.run(0.1)
        assert reds(studio)[0] == 4


def test_the_thread_that_plays_the_blocks_must_not_wait_for_itself() -> None:
    with studio_of(paint) as studio:
        studio.connect()
        with pytest.raises(RuntimeError, match=r"emit_block\(\) was called in the event loop's thread"):
            get_ctx().emit_block(frame(1))


def test_torch_frames_pass() -> None:
    torch = pytest.importorskip("torch")

    def script(_: Scripted) -> None:
        video = torch.rand(1, 3, 5, 4, 6, dtype=torch.float16) * 2 - 1
        frames = video.squeeze(0).permute(1, 2, 3, 0)
        frames = ((frames + 1.0) * 127.5).clamp(0, 255).to(torch.uint8)
        get_ctx().emit_block(frames)
        get_ctx().emit_block(frames.cpu().numpy())

    with studio_of(script) as studio:
        studio.connect()
        studio.run(1)
        assert [shown.array.shape for shown in studio.frames[:10]] == [(4, 6, 3)] * 10


def test_blocks_and_frames_take_metadata() -> None:
    def script(_: Scripted) -> None:
        get_ctx().emit_block(TrackPayload(batch(1, 2), metadata=[{"n": 1}, None]))
        get_ctx().get_track().emit(TrackPayload(frame(3), metadata={"n": 3}))
        with pytest.raises(ValueError, match="video: 1 metadata for 2 frames"):
            get_ctx().emit_block(TrackPayload(batch(1, 2), metadata=[{}]))
        while not get_ctx().should_stop():
            pass

    with studio_of(script) as studio:
        studio.connect()
        studio.run(1)
        assert [shown.metadata for shown in studio.frames] == [{"n": 1}, None, {"n": 3}]
        assert reds(studio) == [1, 2, 3]
