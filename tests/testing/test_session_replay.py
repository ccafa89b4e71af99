from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import json
import random
import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.distributed import WorkerCrashed
from reactor_runtime.engine.dispatch import CheckedEvent, check_event
from reactor_runtime.engine.inputs.uploads import MOST_FILES
from reactor_runtime.errors import UsageError
from reactor_runtime.interface import (
    Audio,
    BufferClosed,
    ClientInfo,
    CommandError,
    Idle,
    Input,
    InputField,
    InputFrame,
    InputState,
    ModelMessage,
    Output,
    ReactorModel,
    ReactorPipeline,
    ReadMode,
    TrackPayload,
    UploadedFile,
    Video,
    VideoModel,
    command,
    connected,
    event,
    get_ctx,
    session_started,
)
from reactor_runtime.ipc.messages import ClientEvent, ClientJoined, ClientLeft, StepRequest
from reactor_runtime.recording.file import read_recording
from reactor_runtime.testing import Studio, replay
from reactor_runtime.testing.studio import CLIENT
from tests.testing.recorded import recorded

H, W = 16, 24


class Senses(Input):
    camera: Video
    microphone: Audio


class Shown(Output):
    main_video: Video
    main_audio: Audio


class Controls(InputState):
    gain: float = InputField(default=1.0, ge=0.0, le=8.0)
    image: UploadedFile | None = None


class Nudged(ModelMessage):
    total: int


class Mixer(ReactorPipeline):
    """Depends on all that a session can hold: events, camera, sound, uploads and random numbers."""

    state: Controls
    input: Senses
    fps = 30

    def load(self, config: dict[str, Any]) -> None:
        self.offset = config.get("offset", 0)
        self.nudges = 0

    @event(name="nudge")
    def nudge(self, by: int) -> Nudged:
        self.nudges += by * random.randrange(5)
        return Nudged(total=self.nudges)

    @event(name="turn", dedupe=True)
    async def turn(self, angle: int) -> None:
        await asyncio.sleep(0.01)
        self.nudges += angle

    def inference(self) -> Iterator[Any]:
        canvas = np.zeros((H, W, 3), np.uint8)
        while True:
            if random.random() < 0.1:
                yield Idle
                continue
            if frames := self.input.camera.try_read(2, ReadMode.FIFO):
                canvas = frames[0] // 2 + frames[1] // 2
            canvas = canvas + np.random.randint(0, 9, canvas.shape, np.uint8)
            level = 0 if self.state.image is None else len(self.state.image.read())
            canvas[0, 0] = (self.nudges + self.offset + level) % 256
            sound = self.input.microphone.try_read()
            samples = np.zeros((1, 1600), np.int16) if sound is None else sound[0]
            yield Shown(
                main_video=(canvas * self.state.gain).clip(0, 255).astype(np.uint8),
                main_audio=(samples * self.state.gain).astype(np.int16),
            )


def play_at_random(studio: Studio[Any], seed: int) -> None:
    """Send events, frames, sound and files at random times."""
    chance = random.Random(seed)
    pixels = np.random.default_rng(seed)
    for _ in range(60):
        studio.run(chance.random() * 0.1)
        match chance.randrange(6):
            case 0:
                studio.send_event("set_gain", gain=chance.random() * 8)
            case 1:
                studio.send_event("nudge", by=chance.randrange(9))
            case 2:
                studio.send_event("turn", angle=chance.randrange(9))
            case 3:
                studio.push_media("camera", pixels.integers(0, 256, (3, H, W, 3), np.uint8))
            case 4:
                studio.push_media("microphone", pixels.integers(-999, 999, (1, 1600), np.int16))
            case _:
                studio.send_event("set_image", image=pixels.bytes(chance.randrange(99)))


@pytest.mark.parametrize("seed", range(4))
def test_a_pipeline_replays_bit_for_bit(tmp_path: Path, seed: int) -> None:
    with recorded(Mixer, tmp_path, {"offset": 5}) as studio:
        play_at_random(studio, seed)
        shown = len(studio.frames)
    result = replay(recording_in(tmp_path), Mixer, config_from="recording")
    assert result.differences == []
    assert result.frames >= shown > 50


def test_a_replay_differs_where_the_code_does(tmp_path: Path) -> None:
    class Changed(Mixer):
        def inference(self) -> Iterator[Any]:
            for number, output in enumerate(super().inference()):
                if number >= 20 and output is not Idle:
                    output.main_video[0, 0, 0] ^= 1
                yield output

    with recorded(Mixer, tmp_path) as studio:
        play_at_random(studio, 1)
    result = replay(recording_in(tmp_path), Changed)
    assert result.differences[0].step >= 21
    assert result.differences[0].track == "main_video"


class Plain(Output):
    main_video: Video


class Knob(InputState):
    level: int = InputField(default=1, ge=0, le=255)


class Eyes(Input):
    camera: Video


def gray(level: float) -> Any:
    return np.full((H, W, 3), int(level) % 256, np.uint8)


class Looping(ReactorModel):
    output: Plain
    input: Eyes

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        self.level = 0

    @event(name="set_level")
    def set_level(self, level: int) -> None:
        self.level = level

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            try:
                [frame] = await self.input.camera.read(timeout=0.2)
            except TimeoutError:
                frame = gray(random.randrange(256))
            await self.emit(Plain(main_video=frame + np.uint8(self.level)))


class Blocks(VideoModel):
    input: Eyes
    output: Plain

    def __init__(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        self.level = 0

    @command("set_level")
    def set_level(self, level: int) -> None:
        self.level = level

    def start_session(self) -> None:
        context = get_ctx()
        while not context.should_stop():
            frame = context.get_track("camera").latest()
            base = gray(random.randrange(256)) if frame is None else frame
            context.emit_block(np.stack([base + np.uint8(self.level)] * 3))


@pytest.mark.parametrize("model", [Looping, Blocks])
@pytest.mark.parametrize("seed", range(3))
def test_the_other_styles_replay_alike(tmp_path: Path, model: type[Model], seed: int) -> None:
    chance = random.Random(seed)
    with recorded(model, tmp_path) as studio:
        for _ in range(30):
            studio.run(chance.random() * 0.3)
            if chance.random() < 0.5:
                studio.send_event("set_level", level=chance.randrange(256))
            else:
                studio.push_media("camera", gray(chance.randrange(256)))
    result = replay(recording_in(tmp_path), model)
    assert result.differences == []
    assert result.frames > 20


class Knobbed(ReactorPipeline):
    state: Knob
    input: Eyes
    output: Plain
    fps = 30

    @event(name="fail")
    def fail(self) -> None:
        raise RuntimeError("the handler failed")

    async def inference(self) -> AsyncIterator[Any]:
        while True:
            [frame] = await self.input.camera.read(mode=ReadMode.FIFO)
            if frame.max() == 255:
                raise ZeroDivisionError("a white frame")
            yield frame + np.uint8(self.state.level)


def test_the_exception_that_ended_a_session_is_raised(tmp_path: Path) -> None:
    with recorded(Knobbed, tmp_path) as studio:
        studio.push_media("camera", gray(1))
        studio.run(0.1)
        studio.push_media("camera", gray(255))
        with pytest.raises(ZeroDivisionError):
            studio.run(0.1)
    with pytest.raises(ZeroDivisionError, match="a white frame"):
        replay(recording_in(tmp_path), Knobbed)


def test_the_exception_that_ended_a_session_is_raised_after_one_of_a_handler(tmp_path: Path) -> None:
    with recorded(Knobbed, tmp_path) as studio:
        studio.push_media("camera", gray(1))
        with pytest.raises(RuntimeError, match="the handler failed"):
            studio.send_event("fail")
        studio.push_media("camera", gray(255))
        with pytest.raises(ZeroDivisionError):
            studio.run(0.1)
    with pytest.raises(ZeroDivisionError, match="a white frame"):
        replay(recording_in(tmp_path), Knobbed)


@pytest.mark.parametrize("fails", [False, True], ids=["alone", "after a handler"])
def test_a_session_that_ended_between_steps_with_its_runner_is_replayed_to_there(tmp_path: Path, fails: bool) -> None:
    with recorded(Knobbed, tmp_path) as studio:
        studio.push_media("camera", gray(1))
        studio.run(0.1)
        if fails:
            send_without_waiting(studio, "fail")
        # As a runner does one of whose processes has died; the model waits for a frame.
        studio._host.runners.on_runner_lost(WorkerCrashed("rank 0 was killed"))
        studio.disconnect()
    recording = read_recording(recording_in(tmp_path))
    assert recording.end is not None
    assert "rank 0 was killed" in recording.end.error
    result = replay(recording_in(tmp_path), Knobbed)
    assert (result.steps, result.differences) == (1, [])


def test_a_corrected_model_replays_the_session_that_failed(tmp_path: Path) -> None:
    class Corrected(Knobbed):
        async def inference(self) -> AsyncIterator[Any]:
            while True:
                [frame] = await self.input.camera.read(mode=ReadMode.FIFO)
                yield frame + np.uint8(self.state.level)

    with recorded(Knobbed, tmp_path) as studio:
        studio.push_media("camera", np.stack([gray(1), gray(255)]))
        with pytest.raises(ZeroDivisionError):
            studio.run(0.2)
    result = replay(recording_in(tmp_path), Corrected)
    assert (result.steps, result.differences) == (1, [])


def test_a_model_that_waits_in_the_step_that_had_failed_stops_with_an_error(tmp_path: Path) -> None:
    class Waiting(Knobbed):
        async def inference(self) -> AsyncIterator[Any]:
            while True:
                [frame] = await self.input.camera.read(mode=ReadMode.FIFO)
                if frame.max() < 255:
                    yield frame + np.uint8(self.state.level)

    with recorded(Knobbed, tmp_path) as studio:
        studio.push_media("camera", np.stack([gray(1), gray(255)]))
        with pytest.raises(ZeroDivisionError):
            studio.run(0.2)
    with pytest.raises(RuntimeError, match="after step 1 of 1: the model waits for an event or an input"):
        replay(recording_in(tmp_path), Waiting)


def test_a_session_continues_after_a_handler_that_failed(tmp_path: Path) -> None:
    with recorded(Knobbed, tmp_path) as studio:
        send_without_waiting(studio, "fail")
        studio.push_media("camera", gray(1))
        with pytest.raises(RuntimeError, match="the handler failed"):
            studio.run(0.1)
        studio.push_media("camera", gray(2))
        studio.run(0.1)
    result = replay(recording_in(tmp_path), Knobbed)
    assert (result.frames, result.differences) == (2, [])


def test_a_model_that_reads_more_than_was_recorded_stops_with_an_error(tmp_path: Path) -> None:
    class Greedy(Knobbed):
        async def inference(self) -> AsyncIterator[Any]:
            while True:
                await self.input.camera.read()
                [frame] = await self.input.camera.read()
                yield frame

    with recorded(Knobbed, tmp_path) as studio:
        studio.push_media("camera", np.stack([gray(1), gray(2), gray(3)]))
        studio.run(0.2)
    with pytest.raises(RuntimeError, match="after step 1 of 3: the model waits for an event or an input"):
        replay(recording_in(tmp_path), Greedy)


def test_more_reads_in_one_step_do_not_shift_later_ones(tmp_path: Path) -> None:
    class Polling(Knobbed):
        polls = 1

        def inference(self) -> Iterator[Any]:  # type: ignore[override]
            shown = gray(0)
            while True:
                for _ in range(self.polls):
                    if items := self.input.camera.try_read():
                        shown = items[0]
                yield shown

    class PollingMore(Polling):
        polls = 3

    with recorded(Polling, tmp_path) as studio:
        for level in range(10):
            studio.push_media("camera", gray(level))
            studio.run(0.05)
    assert replay(recording_in(tmp_path), PollingMore).differences == []


def test_superseded_events_are_not_handled_in_the_replay(tmp_path: Path) -> None:
    class Slow(Knobbed):
        def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
            self.total = 0

        @event(name="add", dedupe=True)
        async def add(self, by: int) -> None:
            await asyncio.sleep(0.04)
            self.total += by

        def inference(self) -> Iterator[Any]:  # type: ignore[override]
            while True:
                yield gray(self.total)

    with recorded(Slow, tmp_path) as studio:
        studio.run(0.1)
        for by in (1, 2, 4):
            send_without_waiting(studio, "add", by=by)
        studio.run(0.5)
        shown = {int(frame.array[0, 0, 0]) for frame in studio.frames}
    recording = read_recording(recording_in(tmp_path))
    assert [each.skipped for each in recording.events] == [True, True, False]
    assert shown == {0, 4}
    assert replay(recording.path, Slow).differences == []


def test_events_of_one_name_at_one_step_are_all_handled(tmp_path: Path) -> None:
    with recorded(Mixer, tmp_path) as studio:
        studio.run(0.2)
        for angle in range(1, 9):
            studio.send_event("turn", angle=angle)
        studio.run(0.2)
    recording = read_recording(recording_in(tmp_path))
    assert len({event.step for event in recording.events}) == 1
    assert replay(recording.path, Mixer).differences == []


class Judged(InputState):
    level: int = InputField(default=1, moderate=True)


class Judging(ReactorPipeline):
    """Refuse negative levels while it is recorded; a replay asks nobody."""

    state: Judged
    output: Plain
    asked: ClassVar[list[object]] = []

    async def moderate(self, value: object, *, event: str, field: str, client: ClientInfo) -> bool:  # noqa: ARG002
        self.asked.append(value)
        return value != -1

    def inference(self) -> Iterator[Any]:
        while True:
            yield gray(self.state.level)


def test_a_replay_applies_what_was_applied_and_does_not_moderate(tmp_path: Path) -> None:
    with recorded(Judging, tmp_path) as studio:
        studio.run(0.2)
        studio.send_event("set_level", level=3)
        with pytest.raises(CommandError, match="refused"):
            studio.send_event("set_level", level=-1)
        studio.run(0.2)
    recording = read_recording(recording_in(tmp_path))
    assert [event.data_json for event in recording.events] == ['{"level": 3}']
    Judging.asked.clear()
    assert replay(recording.path, Judging).differences == []
    assert not Judging.asked


class Telling(Judging):
    async def moderate(self, value: object, *, event: str, field: str, client: ClientInfo) -> bool:  # noqa: ARG002
        await client.send(Nudged(total=1))
        await self.send(Nudged(total=2))
        return True


def test_messages_of_a_moderation_are_not_in_the_recording(tmp_path: Path) -> None:
    with recorded(Telling, tmp_path) as studio:
        studio.run(0.2)
        studio.send_event("set_level", level=3)
        studio.run(0.2)
        assert len(studio.messages) == 2
    recording = read_recording(recording_in(tmp_path))
    assert not recording.messages
    assert replay(recording.path, Telling).differences == []


def test_missing_outputs_are_a_difference(tmp_path: Path) -> None:
    class Idling(Mixer):
        def inference(self) -> Iterator[Any]:
            for number, output in enumerate(super().inference()):
                yield Idle if number % 2 else output

    with recorded(Mixer, tmp_path) as studio:
        studio.run(1.0)
    texts = [str(each) for each in replay(recording_in(tmp_path), Idling).differences]
    assert re.search(r"\d+ of \d+ outputs are missing$", texts[-1])


def test_messages_are_compared(tmp_path: Path) -> None:
    class Talking(Mixer):
        @event(name="nudge")
        def nudge(self, by: int) -> Nudged:
            return Nudged(total=-by)

    with recorded(Mixer, tmp_path) as studio:
        studio.run(0.1)
        studio.send_event("nudge", by=3)
        studio.run(0.1)
    texts = [str(each) for each in replay(recording_in(tmp_path), Talking).differences]
    assert any("message nudged {'total': -3} was nudged" in text for text in texts)


def test_messages_that_the_recording_lacks_are_a_difference(tmp_path: Path) -> None:
    class Silent(ReactorModel):
        output: Plain
        total = 0

        async def run(self) -> None:
            await self.connected.wait()
            while True:
                if self.total:
                    await self.send(Nudged(total=self.total))
                await self.emit(Plain(main_video=gray(0)))

    class Talking(Silent):
        total = 7

    with recorded(Silent, tmp_path) as studio:
        studio.run(0.2)
    result = replay(recording_in(tmp_path), Talking)
    assert result.different == 0
    assert str(result.differences[0]).endswith("message nudged {'total': 7} is new")


def test_another_contract_is_refused_with_the_differences(tmp_path: Path) -> None:
    class Wider(Knob):
        level: int = InputField(default=1, ge=0, le=100)
        name: str = ""

    class Other(Knobbed):
        state: Wider

    with recorded(Knobbed, tmp_path):
        pass
    with pytest.raises(UsageError) as refused:
        replay(recording_in(tmp_path), Other)
    assert "event set_level: properties.level.maximum was 255, is 100" in refused.value.message
    assert "event set_name is new" in refused.value.message


def test_the_warm_up_comes_before_the_replay(tmp_path: Path) -> None:
    class Warm(Knobbed):
        warmup = 2
        steps = 0

        def inference(self) -> Iterator[Any]:  # type: ignore[override]
            shown = gray(0)
            while True:
                if items := self.input.camera.try_read():
                    shown = items[0]
                self.steps += 1
                yield shown + np.uint8(self.steps)

    with recorded(Warm, tmp_path, warm_up=True) as studio:
        studio.push_media("camera", gray(100))
        studio.run(0.1)
        assert [int(frame.array[0, 0, 0]) for frame in studio.frames[:2]] == [103, 104]
    assert replay(recording_in(tmp_path), Warm).differences == []


def test_a_recorded_config_reaches_the_model_only_when_asked_for(tmp_path: Path) -> None:
    with recorded(Mixer, tmp_path, {"offset": 5}) as studio:
        studio.run(0.2)
    file = recording_in(tmp_path)
    with pytest.raises(UsageError, match="was recorded with another config: offset was 5, is missing"):
        replay(file, Mixer)
    assert replay(file, Mixer, config={"offset": 5}).differences == []
    assert replay(file, Mixer, config_from="recording").differences == []
    assert replay(file, Mixer, config={"offset": 6}, config_from="recording").different > 0
    assert replay(file, Mixer, config_from="project").different > 0


PROJECT = """
from pathlib import Path
from tests.testing.test_session_replay import Knobbed

class {name}(Knobbed):
    def load(self, config):
        self.level = config.get("level", 0)

    def inference(self):
        while True:
            yield __import__("numpy").full((16, 24, 3), self.level, "uint8")
"""


def test_the_class_and_the_config_are_those_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("pipeline_of_a_replay.py").write_text(PROJECT.format(name="MyModel"))
    Path("reactor.yaml").write_text("model: pipeline_of_a_replay:MyModel\nconfig: config.yml\n")
    Path("config.yml").write_text("level: 7\n")
    # The module that the file names: importing it leaves a mark.
    Path("module_of_another.py").write_text(f"{PROJECT.format(name='Other')}\nPath('imported').touch()\n")
    with recorded(importlib.import_module("module_of_another").Other, tmp_path / "sessions", {"level": 7}) as studio:
        studio.run(0.2)
    Path("imported").unlink()
    del sys.modules["module_of_another"]
    result = replay(recording_in(tmp_path / "sessions"))
    assert (result.differences, result.frames > 3) == ([], True)
    assert not Path("imported").exists()
    Path("config.yml").write_text("level: 8\n")
    with pytest.raises(UsageError, match="level was 7, is 8"):
        replay(recording_in(tmp_path / "sessions"))


def test_without_a_project_the_class_has_to_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with recorded(Mixer, tmp_path) as studio:
        studio.run(0.2)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"there is no reactor\.yaml"):
        replay(recording_in(tmp_path))


def recording_in(directory: Path) -> Path:
    (file,) = directory.glob("*.mcap")
    return file


def send_without_waiting(studio: Studio[Any], name: str, **data: Any) -> None:
    sent = ClientEvent(studio._session, "c-1", None, name, json.dumps(data))
    checked = check_event(studio._contract.events, sent)
    assert isinstance(checked, CheckedEvent)
    studio._host.receive_message(checked)


class Aligned(ReactorPipeline):
    """Its output depends on what clients send with their frames and their sound."""

    state: Controls
    input: Senses
    fps = 30

    async def inference(self) -> AsyncIterator[Any]:
        while True:
            levels = []
            for buffer in (self.input.camera, self.input.microphone):
                [item] = await buffer.read(mode=ReadMode.FIFO)
                levels.append((item.pts or 1) + (item.capture_time_us or 3) + len(item.metadata or b""))
            picture = np.full((H, W, 3), levels[0] % 251, np.uint8)
            yield Shown(main_video=picture, main_audio=np.full((1, 1600), levels[1] % 9973, np.int16))


def test_a_replay_gives_the_model_what_clients_sent_with_their_frames(tmp_path: Path) -> None:
    picture, piece = np.zeros((H, W, 3), np.uint8), np.zeros((1, 1600), np.int16)
    with recorded(Aligned, tmp_path) as studio:
        for number in range(1, 20):
            metadata = bytes(range(number)) if number % 3 else None
            for track, array in (("camera", picture), ("microphone", piece)):
                studio.push_media(track, InputFrame(array, 100 * number, metadata, 2**53 + number))
            studio.run(0.05)
        studio.push_media("camera", picture)
        studio.push_media("microphone", piece)
        studio.run(0.05)
        assert len({int(shown.array.flat[0]) for shown in studio.frames if shown.track == "main_video"}) == 20
    result = replay(recording_in(tmp_path), Aligned)
    assert result.frames == 40
    assert result.differences == []


class Placed(ReactorPipeline):
    """Frames with metadata: bytes, a batch, and none."""

    state: Controls
    fps = 30
    angle = 1

    def inference(self) -> Iterator[Any]:
        sound, picture = np.zeros((1, 4800), np.int16), np.zeros((3, H, W, 3), np.uint8)
        for number in itertools.count():
            angles = [{"angle": self.angle * (3 * number + index)} for index in range(2)]
            yield Shown(main_video=TrackPayload(picture, metadata=[*angles, None]), main_audio=sound)
            yield Shown(main_video=TrackPayload(picture[0], metadata=b"raw"), main_audio=sound)
            yield Shown(main_video=picture[0], main_audio=sound)


def test_frames_of_a_studio_and_a_recording_have_their_metadata_and_a_replay_compares_it(tmp_path: Path) -> None:
    with recorded(Placed, tmp_path) as studio:
        studio.run(1)
        shown = [frame.metadata for frame in studio.frames if frame.track == "main_video"]
        assert all(frame.metadata is None for frame in studio.frames if frame.track == "main_audio")
    assert shown[:8] == [{"angle": 0}, {"angle": 1}, None, {"b": "cmF3"}, None, {"angle": 3}, {"angle": 4}, None]
    outputs = read_recording(recording_in(tmp_path)).outputs
    assert [output.metadata for output in outputs[:3]] == [
        {"main_video": [{"angle": 0}, {"angle": 1}, None]},
        {"main_video": [{"b": "cmF3"}]},
        {},
    ]
    same = replay(recording_in(tmp_path), Placed)
    assert same.frames >= len(shown)
    assert same.differences == []
    turned = replay(recording_in(tmp_path), type("Turned", (Placed,), {"angle": 2}))
    assert str(turned.differences[0]) == (
        'step 1: the metadata of frame 1 of main_video is {"angle": 2}, not {"angle": 1}'
    )
    batches = sum(len(output.metadata.get("main_video", ())) == 3 for output in outputs)
    assert (turned.different, turned.others) == (0, 2 * batches - 1)


class Counting(ReactorPipeline):
    """Read the camera if something has come since the last step."""

    state: Controls
    input: Senses
    fps = 10

    def inference(self) -> Iterator[Any]:
        seen = 0
        while True:
            total = self.input.camera.total_received
            if total > seen:
                self.input.camera.try_read(total - seen, ReadMode.FIFO)
            seen = total
            yield Shown(main_video=np.full((H, W, 3), total, np.uint8), main_audio=np.zeros((1, 4800), np.int16))


def test_a_model_that_reads_what_has_come_in_all_replays(tmp_path: Path) -> None:
    with recorded(Counting, tmp_path) as studio:
        for count in (3, 1, 2):
            studio.push_media("camera", np.zeros((count, H, W, 3), np.uint8))
            studio.run(0.5)
        assert studio.frames[-2].array.max() == 6
    result = replay(recording_in(tmp_path), Counting)
    assert result.differences == []
    assert result.frames > 10


class Listening(ReactorModel):
    """Look for a client before and after a read, in which the last one leaves."""

    state: Controls
    input: Senses
    output: Shown
    fps = 10

    @session_started
    def begin(self) -> None: ...

    async def run(self) -> None:
        while True:
            before = self.connected.is_set()
            with contextlib.suppress(TimeoutError, BufferClosed):
                await self.input.camera.read(timeout=0.35)
            level = 10 * before + self.connected.is_set()
            await self.emit(Shown(np.full((H, W, 3), level, np.uint8), np.zeros((1, 4800), np.int16)))


def test_a_session_with_more_files_than_events_can_name_at_a_time_is_replayed(tmp_path: Path) -> None:
    with recorded(Mixer, tmp_path) as studio:
        for size in range(MOST_FILES + 2):
            studio.send_event("set_image", image=bytes(size))
            studio.run(0.05)
    assert replay(recording_in(tmp_path), Mixer).differences == []


class Greeting(Mixer):
    """Show how many clients were connected, and the size of an image."""

    greeted = 0

    @session_started
    def begin(self) -> None:
        self.greeted = 0

    @connected
    def greet(self) -> None:
        self.greeted += 1

    def inference(self) -> Iterator[Any]:
        while True:
            size = 0 if self.state.image is None else len(self.state.image.read())
            level = 10 * self.greeted + size
            yield Shown(np.full((H, W, 3), level, np.uint8), np.zeros((1, 1600), np.int16))


def test_a_reset_session_is_replayed_with_the_clients_and_files_of_before(tmp_path: Path) -> None:
    image = UploadedFile("cat.png", "image/png", b"abc")
    with recorded(Greeting, tmp_path, stepped=True) as studio:
        host, session = studio._host, studio._session
        host.receive_message(ClientJoined(session, "viewer", "viewer", 0.0))
        studio.send_event("set_image", image=image)
        (file,) = studio._slot.uploads
        again = json.dumps({"state": {"image": {"upload": file}}})
        host.receive_message(StepRequest(session, CLIENT, 1, 2, again, True, 7))
        studio.run(0.2)
        assert [int(frame.array[0, 0, 0]) for frame in studio.frames if frame.track == "main_video"] == [23, 23]
    (before, after) = sorted(map(read_recording, tmp_path.glob("*.mcap")), key=lambda each: each.header.started_at)
    assert (before.steps, after.steps) == (0, 2)
    result = replay(after.path, Greeting)
    assert (result.frames, result.differences) == (4, [])


def test_a_client_that_left_in_a_read_leaves_in_it_again(tmp_path: Path) -> None:
    with recorded(Listening, tmp_path) as studio:
        studio.run(2.24)
        studio._host.receive_message(ClientLeft(studio._session, CLIENT))
        studio.run(1)
    entries = read_recording(recording_in(tmp_path)).events
    assert [entry.waiting for entry in entries if entry.name == "reactor.left"] == [True]
    result = replay(recording_in(tmp_path), Listening)
    assert result.differences == []
    assert result.frames > 3
