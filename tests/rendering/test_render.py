from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.clips.clip import ClipTrack
from reactor_runtime.clips.opening import open_clip
from reactor_runtime.errors import LoadError, ModelFailed
from reactor_runtime.media import wav
from reactor_runtime.rendering.render import Rendered, render
from reactor_runtime.rendering.renderer import Played, Renderer
from reactor_runtime.rendering.script import Script, read_script
from reactor_runtime.testing import PipelineExecutor, Studio
from tests.clips.reading import codecs_of, duration_s, frames_of, sound_of
from tests.clips.test_reading import video
from tests.rendering.models import (
    FPS,
    RATE,
    Batches,
    Blocks,
    Commanded,
    Counting,
    DroppingLoop,
    Dull,
    Failing,
    Follower,
    Immediate,
    Loop,
    Sleeping,
    SleepingLoop,
    Sung,
    Unpaced,
    UnpacedLoop,
    Waiting,
)


def renderer_of(model: type, *, fps: float | None = None) -> Renderer:
    return Renderer.load(Contract.of(model), {}, Path.cwd(), fps=fps)


def script_of(model: type, text: str, folder: Path) -> Script:
    (folder / "inputs.yaml").write_text(text)
    return read_script(folder / "inputs.yaml", Contract.of(model))


def shown_by(
    model: type, seconds: float, script: Script | None = None, *, fps: float | None = None
) -> list[tuple[float, list[int]]]:
    """Return the times of the frames that a model shows, and the first values of each."""
    with renderer_of(model, fps=fps) as renderer:
        played = list(renderer.play(script or Script(), seconds))
    frames = [frame for each in played for frame in each.frames if frame.track == "main_video"]
    return [(frame.due_s, frame.array.reshape(-1)[:3].tolist()) for frame in frames]


def values(model: type, seconds: float, script: Script | None = None) -> list[list[int]]:
    return [shown for _, shown in shown_by(model, seconds, script)]


def write(model: type, path: Path, seconds: float, script: Script | None = None, **options: Any) -> Rendered:
    contract = Contract.of(model)
    tracks = [ClipTrack(track.name, track.sample_rate) for track in contract.tracks if track.direction == "out"]
    clip = open_clip(path, tracks)
    with renderer_of(model) as renderer:
        return render(renderer, script or Script(), seconds, clip, **options)


def test_a_clip_has_every_frame_of_its_time_and_no_more() -> None:
    found = shown_by(Counting, 2.0)
    assert [at_s for at_s, _ in found] == pytest.approx([idx / FPS for idx in range(20)])
    assert [shown[0] for _, shown in found] == list(range(20))


def test_the_images_are_those_of_the_testing_driver_bit_for_bit(tmp_path: Path) -> None:
    text = "- {at: 0.55, event: set_level, data: {level: 3}}\n- {at: 1.25, event: set_level, data: {level: 4}}\n"
    write(Counting, tmp_path / "frames", 2.0, script_of(Counting, text, tmp_path))
    with Studio(Counting) as studio:
        studio.connect()
        studio.run(0.55)
        studio.send_event("set_level", level=3)
        studio.run(1.25 - 0.55)
        studio.send_event("set_level", level=4)
        studio.run(0.749)
        expected = [frame.array for frame in studio.frames if frame.track == "main_video" and frame.due_s < 1.9999]
    files = sorted((tmp_path / "frames").glob("*.png"))
    assert len(files) == len(expected) == 20
    for file, array in zip(files, expected, strict=True):
        with Image.open(file) as image:
            assert (np.array(image) == array).all()
    sound = wav.decode((tmp_path / "frames" / "main_audio.wav").read_bytes())
    assert (sound == np.repeat(100 * np.arange(20), RATE // FPS)).all()


def test_events_at_a_step_agree_with_the_executor(tmp_path: Path) -> None:
    text = "- {at_step: 0, event: set_level, data: {level: 1}}\n- {at_step: 7, event: set_level, data: {level: 2}}\n"
    found = values(Counting, 1.0, script_of(Counting, text, tmp_path))
    with PipelineExecutor(Counting) as executor:
        executor.connect()
        executor.send_event("set_level", level=1)
        steps = [next(executor).output for _ in range(7)]
        executor.send_event("set_level", level=2)
        steps += [next(executor).output for _ in range(3)]
    assert found == [step.main_video.reshape(-1)[:3].tolist() for step in steps]


@pytest.mark.parametrize(
    ("model", "at", "first"),
    [
        (Counting, "0s", 0),
        (Counting, "500ms", 5),
        (Counting, "0.51", 6),
        (Batches, "0s", 0),
        (Batches, "0.1s", 12),
        (Batches, "1.2s", 12),
        (Batches, "1.21s", 24),
        (Sung, "0s", 0),
        (Sung, "0.7s", 7),
        (Immediate, "0s", 0),
        (Immediate, "0.3s", 3),
        (Immediate, "2s", 20),
        (Commanded, "0.1s", 5),
        (Commanded, "0.5s", 5),
        (Commanded, "0.6s", 10),
    ],
)
def test_an_event_is_shown_from_the_first_step_at_its_time(model: type, at: str, first: int, tmp_path: Path) -> None:
    script = script_of(model, f"- {{at: {at}, event: set_level, data: {{level: 3}}}}\n", tmp_path)
    assert [shown[1] for shown in values(model, 3.0, script)] == [0] * first + [3] * (30 - first)


@pytest.mark.parametrize("model", [Sleeping, SleepingLoop, DroppingLoop, Commanded])
def test_a_model_that_waits_by_itself_keeps_its_pace(model: type) -> None:
    found = shown_by(model, 3.0)
    assert [at_s for at_s, _ in found] == pytest.approx(
        [found[0][0] + idx / FPS for idx in range(len(found))], abs=1e-3
    )
    assert len(found) >= 29


def test_events_at_one_time_are_handled_in_their_order(tmp_path: Path) -> None:
    text = "".join(
        f"- {{at: {at}, event: set_level, data: {{level: {level}}}}}\n" for at, level in enumerate([1, 2, 2, 3])
    )
    script = script_of(Counting, text + "- {at: 2, event: set_level, data: {level: 9}}\n", tmp_path)
    assert [shown[1] for shown in values(Counting, 4.0, script)] == [1] * 10 + [2] * 10 + [9] * 10 + [3] * 10


def test_a_movie_has_frames_sound_and_length(tmp_path: Path) -> None:
    done = write(Counting, tmp_path / "clip.mp4", 2.0)
    assert (done.paths, done.frames, done.end_s) == ([tmp_path / "clip.mp4"], 20, 2.0)
    assert codecs_of(tmp_path / "clip.mp4") == ["h264", "aac"]
    assert [frame.at_s for frame in frames_of(tmp_path / "clip.mp4")] == pytest.approx([n / FPS for n in range(20)])
    assert duration_s(tmp_path / "clip.mp4") == pytest.approx(2.0, abs=0.001)


def test_sound_of_a_lossless_movie_is_that_of_the_model(tmp_path: Path) -> None:
    write(Counting, tmp_path / "clip.mkv", 1.0)
    assert (sound_of(tmp_path / "clip.mkv") == np.repeat(100 * np.arange(10), RATE // FPS)).all()


def test_an_uploaded_file_reaches_the_model(tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(b"x" * 77)
    script = script_of(Counting, "- {at_step: 2, event: set_image, data: {image: {upload: cat.png}}}\n", tmp_path)
    assert [shown[2] for shown in values(Counting, 0.5, script)] == [0, 0, 77, 77, 77]


def test_a_camera_sends_its_frames_when_they_are_due(tmp_path: Path) -> None:
    video(tmp_path / "walk.mkv", frames=40, fps=5.0)
    found = values(Follower, 2.0, script_of(Follower, "- camera: walk.mkv\n", tmp_path))
    assert [shown[0] for shown in found] == [idx // 2 for idx in range(20)]


def test_a_later_file_replaces_the_camera(tmp_path: Path) -> None:
    for name, red in (("a.png", 10), ("b.png", 20)):
        Image.new("RGB", (8, 8), (red, 0, 0)).save(tmp_path / name)
    found = values(Follower, 3.0, script_of(Follower, "- camera: a.png\n- {at: 1s, camera: b.png}\n", tmp_path))
    reds = [shown[0] for shown in found]
    assert reds[5] == 10
    assert set(reds[15:]) == {20}


def test_a_microphone_sends_its_file_once_and_then_silence(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(wav.encode(np.full((1, RATE // 2), 5000, np.int16), RATE))
    script = script_of(Follower, "- microphone: a.wav\n", tmp_path)
    write(Follower, tmp_path / "clip.mkv", 2.0, script)
    found = sound_of(tmp_path / "clip.mkv")[0]
    assert found[: RATE // FPS].max() == 0
    assert found.max() == 5000
    assert found[3 * RATE // 2 :].max() == 0


def test_a_model_without_a_rate_is_shown_30_times_a_second() -> None:
    assert len(shown_by(Unpaced, 1.0)) == 30


@pytest.mark.parametrize("model", [Unpaced, Counting], ids=["without a rate", "with a rate"])
def test_fps_replaces_the_rate_of_a_model(model: type) -> None:
    assert len(shown_by(model, 2.0, fps=5.0)) == 10


@pytest.mark.parametrize("in_load", [True, False])
def test_a_rate_that_the_model_sets_is_kept(in_load: bool) -> None:
    class Chooses(UnpacedLoop):
        def load(self, _: dict[str, Any]) -> None:
            if in_load:
                self.output_buffer.set_fps(20)

        async def run(self) -> None:
            if not in_load:
                self.output_buffer.set_fps(20)
            await super().run()

    assert len(shown_by(Chooses, 1.0)) == 20


def test_a_loop_is_rendered_and_a_handler_that_waits_does_not_stop_it(tmp_path: Path) -> None:
    script = script_of(Loop, "- {at: 0.5s, event: set_level, data: {level: 3}}\n", tmp_path)
    found = values(Loop, 2.0, script)
    assert [shown[0] for shown in found] == list(range(found[0][0], found[0][0] + 20))
    assert [shown[1] for shown in found][4] == 0
    assert [shown[1] for shown in found][-1] == 3


def test_blocks_are_rendered_until_the_session_ends(tmp_path: Path) -> None:
    done = write(Blocks, tmp_path / "clip.mp4", 10.0)
    assert done.frames == 15
    assert done.end_s == pytest.approx(1.5, abs=0.01)
    assert duration_s(tmp_path / "clip.mp4") == pytest.approx(1.5, abs=0.01)
    assert values(Blocks, 10.0) == [[number, idx, 0] for number in range(3) for idx in range(5)]


def test_a_slow_block_takes_none_of_the_clips_time(monkeypatch: pytest.MonkeyPatch) -> None:
    # Longer than a test waits for a thread.
    monkeypatch.setattr("reactor_runtime.testing.studio.Studio._thread_patience_s", 0.01)
    monkeypatch.setattr(Blocks, "sleeps_s", 0.05)
    assert [at_s for at_s, _ in shown_by(Blocks, 10.0)] == pytest.approx([idx / FPS for idx in range(15)])


def test_a_refused_event_is_a_warning_with_its_line(tmp_path: Path) -> None:
    script = script_of(Counting, "- {at: 0.5s, event: refuse}\n", tmp_path)
    played: list[Played] = []
    done = write(Counting, tmp_path / "clip.mp4", 1.0, script, on_played=played.append)
    assert done.frames == 10
    warnings = [warning for each in played for warning in each.warnings]
    (warning,) = [warning for warning in warnings if "black" not in warning.message]
    assert warning.message == "the model refused refuse: not now"
    assert warning.where is not None
    assert warning.where.line == 1


def test_a_slow_step_is_no_mistake_and_a_black_one_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reactor_runtime.engine.first_step.SLOW_S", 0.0)
    with renderer_of(Counting) as renderer:
        warnings = [warning for played in renderer.play(Script(), 0.5) for warning in played.warnings]
    assert [warning.message.partition(" in ")[0] for warning in warnings] == ["main_video is black"]


@pytest.mark.parametrize(
    ("model", "text", "message", "frames"),
    [
        (Failing, "", "out of ideas", 5),
        (Counting, "- {at: 0.5s, event: fail}\n", "it broke", 5),
    ],
)
def test_a_failure_is_at_the_authors_line_and_leaves_a_file(
    model: type, text: str, message: str, frames: int, tmp_path: Path
) -> None:
    with pytest.raises(ModelFailed, match=message) as raised:
        write(model, tmp_path / "clip.mkv", 10.0, script_of(model, text, tmp_path))
    assert raised.value.where is not None
    assert raised.value.where.file.endswith("models.py")
    assert 1 <= len(frames_of(tmp_path / "clip.mkv")) <= frames + 1


def test_a_failing_load_is_at_the_authors_line() -> None:
    class Broken(Unpaced):
        def load(self, _: dict[str, Any]) -> None:
            raise FileNotFoundError("weights.pt")

    with pytest.raises(LoadError, match=r"load\(\) failed: FileNotFoundError: weights\.pt") as raised:
        renderer_of(Broken)
    assert raised.value.where is not None


def test_a_model_that_shows_nothing_is_an_error_and_an_event_helps(tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match=r"the model showed nothing in 1 s of its time .*--script"):
        write(Waiting, tmp_path / "clip.mp4", 1.0)
    script = script_of(Waiting, "- {event: set_level, data: {level: 7}}\n", tmp_path)
    assert write(Waiting, tmp_path / "clip.mp4", 1.0, script).frames > 25


def test_an_app_that_has_made_steps_without_a_frame_is_not_said_to_skip_them(tmp_path: Path) -> None:
    with pytest.raises(ModelFailed) as raised:
        write(Dull, tmp_path / "clip.mp4", 1.0)
    assert raised.value.message == "the model showed nothing in 1 s of its time"


def test_a_stop_ends_the_clip_after_the_step(tmp_path: Path) -> None:
    played: list[Played] = []
    done = write(
        Counting,
        tmp_path / "clip.mkv",
        60.0,
        on_played=played.append,
        is_stopped=lambda: len(played) >= 20,
    )
    assert done.end_s == pytest.approx(0.8, abs=0.05)
    assert len(frames_of(tmp_path / "clip.mkv")) == done.frames == 8
    assert duration_s(tmp_path / "clip.mkv") == pytest.approx(done.end_s, abs=0.2)


def test_pieces_are_handed_out_while_the_model_runs() -> None:
    with renderer_of(Counting) as renderer:
        sizes = [len(played.frames) for played in renderer.play(Script(), 5.0)]
    assert sum(sizes) == 100
    assert max(sizes) <= 4


def test_the_first_seat_is_shown() -> None:
    class Seated(Counting):
        seats: Any = 2

        def inference(self) -> Iterator[Any]:
            for output in super().inference():
                yield [output, replace(output, main_video=255 - output.main_video)]

    assert values(Seated, 1.0) == values(Counting, 1.0)
