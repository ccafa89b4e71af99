"""When sound is heard: with its frames, alone, for long, and when the model is late."""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from reactor_runtime.authoring.events.messages import ClientInfo
from reactor_runtime.engine.output.emitter import Emitter
from reactor_runtime.engine.output.sink import Black, Piece
from reactor_runtime.engine.session import ModelSession
from reactor_runtime.engine.trace import TraceRecorder
from reactor_runtime.interface import Audio, Output, ReactorModel, ReactorPipeline, Video
from reactor_runtime.ipc.messages import Credit, TraceSpans
from reactor_runtime.testing import Studio
from tests.engine.rig import Bright, batch, frame, served_model
from tests.fakes import CollectingSink, FakeClock, settle

LONG_S = 60
# Errors of any size that add up are found in a minute; one case is as long as real sessions are.
LONGEST_S = 600
ONE_FRAME = frame(1)


class Stage:
    """An emitter of a model with frames and sound, whose bundles are shown when they are due."""

    def __init__(self, sample_rate: int = 48_000, rate: float | None = 30, size: int = 4) -> None:
        sound = type("Sound", (Audio,), {"sample_rate": sample_rate})

        class Both(Output):
            video: Video
            audio: sound  # type: ignore[valid-type]  # made for this test

        class Alone(Output):
            audio: sound  # type: ignore[valid-type]

        class Silent(Output):
            video: Video

        class Model(ReactorPipeline):
            state: Bright
            output: Both | Alone | Silent
            buffer_size = size

        model = Model if rate is None else type("Paced", (Model,), {"fps": rate})
        self.both, self.alone, self.silent = Both, Alone, Silent
        self.rate = sample_rate
        self.clock = FakeClock()
        self.sink = CollectingSink(self.clock)
        self.emitter = Emitter(served_model(model), self.clock, self.sink)
        self.session = ModelSession("s-1", ClientInfo("c", 0.0), self.clock, started_at_unix=1e9)
        self.emitter.open(self.session)
        self.pieces: list[Piece] = []

    async def emit(self, output: Output) -> None:
        """Hand over, and show; when it comes early, time passes until it is due."""
        await self.emitter.emit(output)
        for shown in self.sink.shown:
            self.pieces += shown.bundle.pieces
            self.clock.move_to(max(self.clock.now(), shown.bundle.due))
            self.emitter.credit(Credit("s-1", shown.bundle.number, 0.0))
        self.sink.shown.clear()

    def silence(self, samples: int) -> NDArray[np.int16]:
        return np.zeros(samples, np.int16)

    def sounds(self) -> list[Piece]:
        return [piece for piece in self.pieces if piece.track.name == "audio"]

    def errors(self) -> list[float]:
        """Return the gap between the end of each piece and the begin of the next, in samples."""
        ends = [piece.at + _samples(piece) / self.rate for piece in self.sounds()]
        return [(piece.at - end) * self.rate for piece, end in zip(self.sounds()[1:], ends[:-1], strict=True)]


def _samples(piece: Piece) -> int:
    return int(piece.payload.shape[1])


@pytest.mark.parametrize(
    ("sample_rate", "fps", "samples", "seconds"),
    [
        (48_000, 30, [1600], LONG_S),
        (44_100, 30, [1470], LONG_S),
        (44_100, 24, [1837, 1838], LONGEST_S),
        (44_100, 24, [1837], LONG_S),
        (44_100, 24, [1838], LONG_S),
        (16_000, 30, [533, 533, 534], LONG_S),
        (8_000, 60, [133], LONG_S),
        (48_000, 29.97, [1601], LONG_S),
    ],
    ids=str,
)
@pytest.mark.parametrize("jitter_s", [0.0, 0.015], ids=["on time", "jittering"])
async def test_long_sound_has_no_gaps_and_stays_with_its_frames(
    sample_rate: int, fps: float, samples: list[int], seconds: int, jitter_s: float
) -> None:
    stage, chance = Stage(sample_rate, fps), random.Random(1)
    given = 0
    for number in range(int(seconds * fps)):
        sound = stage.silence(samples[number % len(samples)])
        given += len(sound)
        await stage.emit(stage.both(video=ONE_FRAME, audio=sound))
        stage.clock.spend(chance.uniform(0, 1 / fps + jitter_s if number % 9 == 0 else 1 / fps))
    pictures, sounds = stage.pieces[0::2], stage.pieces[1::2]
    began = sounds[0].at
    passed = sounds[-1].at + _samples(sounds[-1]) / sample_rate - began
    assert passed == pytest.approx(given / sample_rate, abs=0.5 / sample_rate)
    assert max(map(abs, stage.errors())) < 0.01
    assert max(abs(sound.at - picture.at) for picture, sound in zip(pictures, sounds, strict=True)) < 1 / sample_rate


async def test_pieces_of_a_batch_are_end_to_end() -> None:
    stage = Stage(44_100, 24, size=20)
    for _ in range(1000):
        await stage.emit(stage.both(video=batch(*range(7)), audio=stage.silence(12_862)))
    assert max(map(abs, stage.errors())) < 0.01


async def test_a_late_model_makes_a_gap_and_no_delay() -> None:
    stage = Stage()
    for late_s in (0, 0, 0, 0.5, 0, 0):
        stage.clock.spend(late_s)
        await stage.emit(stage.both(video=ONE_FRAME, audio=stage.silence(1600)))
    gaps = [error / 48_000 for error in stage.errors()]
    assert gaps == pytest.approx([0, 0, 0.5 - 1 / 30, 0, 0], abs=1e-6)


async def test_a_model_that_is_always_too_slow_is_never_far_behind() -> None:
    stage = Stage()
    for _ in range(1000):
        stage.clock.spend(1 / 28)
        await stage.emit(stage.both(video=ONE_FRAME, audio=stage.silence(1600)))
        assert stage.clock.now() - stage.sounds()[-1].at < 0.021
    gaps = [error / 48_000 for error in stage.errors()]
    assert sum(gap > 0.001 for gap in gaps) < 150
    assert min(gaps) > -1e-6
    assert sum(gaps) == pytest.approx(1000 * (1 / 28 - 1 / 30), rel=0.02)


async def test_little_sound_begins_with_its_frame_and_is_silent_for_the_rest() -> None:
    stage = Stage()
    for _ in range(30):
        await stage.emit(stage.both(video=ONE_FRAME, audio=stage.silence(1000)))
    assert [sound.at for sound in stage.sounds()] == [piece.at for piece in stage.pieces[0::2]]
    assert stage.errors() == pytest.approx([600] * 29, abs=0.01)


async def test_much_sound_is_heard_whole_and_its_frames_last_as_long(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage()
    for _ in range(30):
        await stage.emit(stage.both(video=ONE_FRAME, audio=stage.silence(2000)))
    assert stage.errors() == pytest.approx([0] * 29, abs=0.01)
    (warning,) = caplog.messages
    assert "41.7 ms of sound and lasts 33.3 ms at 30 fps" in warning
    assert "set fps=24" in warning


async def test_a_rate_that_follows_the_model_is_never_faster_than_its_sound(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(rate=None)
    for _ in range(20):
        await stage.emitter.emit(stage.both(video=ONE_FRAME, audio=stage.silence(1600)), compute_time=0.001, drop=True)
        await stage.emit(stage.both(video=ONE_FRAME, audio=stage.silence(1600)))
    assert stage.emitter.pace.schedule.fps == 60
    assert max(map(abs, stage.errors())) < 0.01
    assert not caplog.messages


@pytest.mark.parametrize("fps", [None, 10, 60])
async def test_sound_alone_is_paced_by_its_duration(fps: float | None) -> None:
    stage = Stage(24_000, fps)
    for samples in (480, 2400, 480, 12_000, 240):
        await stage.emitter.emit(stage.alone(audio=stage.silence(samples)), compute_time=0.001)
        await stage.emit(stage.alone(audio=stage.silence(samples)))
    assert max(map(abs, stage.errors())) < 0.01
    assert len(stage.sounds()) == 10
    assert stage.emitter.pace.schedule.fps == (fps or 30)


async def test_long_sound_alone_is_handed_over_piece_by_piece_and_a_flush_cuts_the_rest() -> None:
    stage = Stage()
    emitting = asyncio.create_task(stage.emitter.emit(stage.alone(audio=stage.silence(5 * 48_000))))
    await settle()
    assert [shown.bundle.interval_s for shown in stage.sink.shown] == [0.5] * 4
    assert not emitting.done()
    stage.emitter.flush()
    await settle()
    assert emitting.done()
    assert len(stage.sink.shown) == 4


async def test_after_a_flush_sound_begins_at_once() -> None:
    stage = Stage()
    await stage.emitter.emit(stage.alone(audio=stage.silence(24_000)))
    stage.clock.spend(0.1)
    stage.emitter.flush()
    await stage.emitter.emit(stage.alone(audio=stage.silence(480)))
    assert stage.sink.shown[-1].bundle.pieces[0].at == stage.clock.now()


async def test_a_trace_shows_which_bundles_have_frames() -> None:
    stage, sent = Stage(), list[TraceSpans]()
    stage.session.trace = TraceRecorder(stage.clock, sent.append)
    await stage.emit(stage.both(video=ONE_FRAME, audio=stage.silence(480)))
    await stage.emit(stage.alone(audio=stage.silence(480)))
    await stage.emit(stage.silent(video=ONE_FRAME))
    stage.emitter.flush()
    stage.session.trace.flush("s-1")
    spans = [span for each in sent for span in each.spans if span["name"] == "hand over"]
    assert [span["args"]["has_frame"] for span in spans] == [True, False, True, False]


async def test_frames_and_sound_alone_do_not_wait_for_each_other() -> None:
    stage = Stage(size=100)
    for _ in range(10):
        await stage.emitter.emit(stage.alone(audio=stage.silence(4800)))
        await stage.emitter.emit(stage.silent(video=batch(1, 2, 3)))
    bundles = [shown.bundle for shown in stage.sink.shown]
    alone = [bundle.due - 1000 for bundle in bundles if bundle.pieces[0].track.name == "audio"]
    frames = [bundle.due - 1000 for bundle in bundles if bundle.pieces[0].track.name == "video"]
    assert alone == pytest.approx([number / 10 for number in range(10)])
    assert frames == pytest.approx([number / 30 for number in range(30)])


async def test_a_flush_blackens_every_track_and_is_silent() -> None:
    class Two(Output):
        left: Video
        right: Video
        audio: Audio

    class Model(ReactorPipeline):
        state: Bright
        output: Two

    clock = FakeClock()
    sink = CollectingSink(clock)
    emitter = Emitter(served_model(Model), clock, sink)
    emitter.open(ModelSession("s-1", ClientInfo("c", 0.0), clock, started_at_unix=0.0))
    await emitter.emit(Two(left=frame(1), right=frame(2, 4, 6), audio=np.zeros(1600, np.int16)))
    emitter.flush()
    pieces = sink.shown[-1].bundle.pieces
    assert [(piece.track.name, piece.seq, piece.payload) for piece in pieces] == [
        ("left", 1, Black(2, 2)),
        ("right", 1, Black(4, 6)),
    ]


class Spoken(Output):
    voice: Audio


class Speaker(ReactorPipeline):
    """Speak for as long as anybody listens, 20 ms a step, and show nothing."""

    state: Bright
    output: Spoken

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        self.steps = 0

    def inference(self) -> Any:
        while True:
            self.steps += 1
            yield np.full(960, self.steps, np.int16)


def test_a_model_with_sound_alone_runs_in_real_time_and_is_not_far_ahead() -> None:
    with Studio(Speaker) as studio:
        studio.connect()
        studio.run(10)
        due = [piece.due_s for piece in studio.frames]
        assert due == pytest.approx([number * 0.02 for number in range(len(due))])
        assert 500 <= studio.model.steps <= 505


class Singer(ReactorModel):
    output: Spoken

    async def run(self) -> None:
        for number in itertools.count():
            await self.connected.wait()
            await self.emit(Spoken(voice=np.full((2, 4800), number, np.int16)))


def test_a_loop_of_sound_alone_waits_while_the_queue_is_full() -> None:
    with Studio(Singer) as studio:
        studio.connect()
        studio.run(5)
        assert [piece.due_s for piece in studio.frames[:3]] == pytest.approx([0, 0.1, 0.2])
        assert 50 <= len(studio.frames) <= 56


class Seen(Output):
    picture: Video


class Duet(Singer):
    """Sing in one task and paint in another; what sounds is queued for much longer than what is seen."""

    output: Spoken | Seen  # type: ignore[assignment]  # what it may emit, not what it is
    fps = 20

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self.paint())

    async def paint(self) -> None:
        while True:
            await self.connected.wait()
            await self.emit(Seen(picture=ONE_FRAME))


def test_tasks_that_emit_frames_and_sound_alone_do_not_wait_for_each_other() -> None:
    with Studio(Duet) as studio:
        studio.connect()
        studio.run(5)
        frames = [frame.due_s for frame in studio.frames if frame.track == "picture"]
        sounds = [piece.due_s for piece in studio.frames if piece.track == "voice"]
        assert frames == pytest.approx([number / 20 for number in range(len(frames))])
        assert sounds == pytest.approx([number / 10 for number in range(len(sounds))])
        assert 100 <= len(frames) <= 106
        assert 50 <= len(sounds) <= 56
