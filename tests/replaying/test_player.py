"""The player with the engine that serves it, and with a replay on a thread, on a fake clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.interface import Audio, InputState, Output, ReactorPipeline, TrackPayload, Video
from reactor_runtime.recording.file import SessionRecording, read_recording
from reactor_runtime.replaying.player import Player, PlayerState
from reactor_runtime.replaying.recorded_frames import RecordedFrames
from reactor_runtime.replaying.replayer import ReplayedSession
from reactor_runtime.testing import Studio
from tests.testing.recorded import recorded
from tests.timeouts import TIMEOUT_S


class Shown(Output):
    main_video: Video
    main_audio: Audio


class Level(InputState):
    level: int = 100


class Gray(ReactorPipeline):
    state: Level
    output: Shown
    fps = 30

    def inference(self) -> Iterator[Any]:
        while True:
            yield Shown(
                main_video=np.full((16, 24, 3), self.state.level, np.uint8),
                main_audio=np.full((1, 1600), self.state.level, np.int16),
            )


class Brighter(Gray):
    def inference(self) -> Iterator[Any]:
        for output in super().inference():
            output.main_video += 2 if self.state.level > 150 else 0
            yield output


class Doubled(Gray):
    def inference(self) -> Iterator[Any]:
        for output in super().inference():
            times = 2 if self.state.level > 150 else 1
            yield Shown(
                main_video=np.stack([output.main_video] * times),
                main_audio=np.tile(output.main_audio, times),
            )


class Placed(Gray):
    def inference(self) -> Iterator[Any]:
        for output in super().inference():
            metadata = {"level": self.state.level} if self.state.level > 150 else b"dark"
            yield Shown(TrackPayload(output.main_video, metadata=metadata), output.main_audio)


class FailingAtOnce(Gray):
    def inference(self) -> Iterator[Any]:
        yield self.state.level // 0


class Failing(Gray):
    def inference(self) -> Iterator[Any]:
        for output in super().inference():
            if self.state.level > 150:
                raise ValueError("too bright")
            yield output


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> SessionRecording:
    """Record 30 frames, 15 of them dark and 15 bright, that are shown in a second."""
    directory = tmp_path_factory.mktemp("recorded")
    with recorded(Gray, directory) as studio:
        studio.run(0.45)
        studio.send_event("set_level", level=200)
        studio.run(0.5)
    (file,) = directory.glob("*.mcap")
    return read_recording(file)


def player_of(recording: SessionRecording, model: type[Gray]) -> Studio[Any]:
    """Return a client's view of the player, when the whole recording is replayed."""
    frames = RecordedFrames([index / 30 for index in range(len(recording.outputs))], range(len(recording.outputs) + 1))

    class ReplayedModel(Player):
        session = ReplayedSession(recording, frames, Contract.of(model), Path())
        output: Shown
        state: PlayerState
        fps = 30

    studio = Studio(ReplayedModel)
    for thread in threading.enumerate():
        if thread.name == "reactor-replay":
            thread.join(TIMEOUT_S)
    studio.connect()
    return studio


def levels(studio: Studio[Any]) -> list[int]:
    """Return how bright the frames are that were shown since the last call."""
    shown = [round(float(frame.array.mean())) for frame in studio.frames if frame.track == "main_video"]
    studio.clear()
    return shown


def test_frames_and_sound_are_shown_at_the_recorded_pace(recording: SessionRecording) -> None:
    with player_of(recording, Gray) as studio:
        assert studio.messages[-1].data == {
            "made": len(recording.outputs), "differing": [], "result": "equal to the recording",
        }  # fmt: skip
        studio.run(2.0)
        frames = [frame for frame in studio.frames if frame.track == "main_video"]
        assert [frame.due_s for frame in frames] == pytest.approx(
            [index / 30 for index in range(len(frames))], abs=0.002
        )
        assert len(frames) == len(recording.outputs)
        sound = [frame.array for frame in studio.frames if frame.track == "main_audio"]
        assert {int(piece.max()) for piece in sound} == {100, 200}
        assert studio.model.state == PlayerState(frame=len(frames) - 1, playing=False)


def test_pause_step_and_seek(recording: SessionRecording) -> None:
    with player_of(recording, Gray) as studio:
        studio.run(0.2)
        studio.send_event("set_playing", playing=False)
        studio.run(0.2)
        at, _ = studio.model.state.frame, levels(studio)
        studio.run(1.0)
        assert levels(studio) == []
        studio.send_event("set_frame", frame=at - 1)
        studio.run(1.0)
        assert (levels(studio), studio.model.state.frame) == ([100], at - 1)
        studio.send_event("set_frame", frame=9999)
        studio.run(1.0)
        assert levels(studio) == [200]
        studio.send_event("set_playing", playing=True)
        studio.run(0.1)
        assert levels(studio)[0] == 100


def test_the_next_client_begins_with_the_first_frame(recording: SessionRecording) -> None:
    with player_of(recording, Gray) as studio:
        studio.run(2.0)
        studio.disconnect()
        studio.clear()
        studio.connect()
        studio.run(0.2)
        assert levels(studio)[0] == 100


def test_frames_that_differ_are_reported(recording: SessionRecording) -> None:
    with player_of(recording, Brighter) as studio:
        count = len(recording.outputs)
        bright = recording.events[0].step
        assert studio.messages[-1].data == {
            "made": count,
            "differing": [[bright, count - 1]],
            "result": f"{count - bright} of {2 * count} frames and pieces of sound differ",
        }


def test_frames_are_shown_with_the_metadata_that_the_code_gives_them_now(recording: SessionRecording) -> None:
    with player_of(recording, Placed) as studio:
        studio.run(2.0)
        shown = [frame.metadata for frame in studio.frames if frame.track == "main_video"]
        bright = recording.events[0].step
        assert shown == [{"b": "ZGFyaw=="}] * bright + [{"level": 200}] * (len(recording.outputs) - bright)


def test_an_output_with_more_frames_than_recorded_differs(recording: SessionRecording) -> None:
    with player_of(recording, Doubled) as studio:
        reported = studio.messages[-1].data
        assert reported["differing"] == [[recording.events[0].step, len(recording.outputs) - 1]]
        assert reported["result"].endswith("main_video has 2 frames, not 1")


def test_the_frames_before_an_exception_are_shown(recording: SessionRecording) -> None:
    with player_of(recording, Failing) as studio:
        made = recording.events[0].step
        assert studio.messages[-1].data == {
            "made": made, "differing": [], "result": "the replay ended with ValueError, see the log",
        }  # fmt: skip
        studio.run(2.0)
        assert levels(studio) == [100] * made
        assert studio.model.state == PlayerState(frame=made - 1, playing=False)
        studio.send_event("set_playing", playing=True)
        studio.run(2.0)
        assert levels(studio) == [100] * made


def test_a_replay_that_ends_before_its_first_frame_does_not_play(recording: SessionRecording) -> None:
    with player_of(recording, FailingAtOnce) as studio:
        assert studio.messages[-1].data["result"] == "the replay ended with ZeroDivisionError, see the log"
        for _ in range(2):
            studio.run(2.0)
            assert levels(studio) == [0]
            assert studio.model.state == PlayerState(frame=0, playing=False)
            studio.send_event("set_playing", playing=True)
