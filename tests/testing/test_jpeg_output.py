"""Models that encode their frames themselves, in each style: what clients, recordings and tests get of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.app import ReactorApp
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.interface import (
    Audio,
    Output,
    ReactorModel,
    ReactorPipeline,
    TrackPayload,
    Video,
    VideoModel,
    get_ctx,
)
from reactor_runtime.media import jpeg
from reactor_runtime.testing import PipelineExecutor, Studio, replay
from reactor_runtime.testing.rehearsal import rehearse
from tests.testing.models import Level
from tests.testing.recorded import recorded
from tests.testing.test_session_replay import recording_in
from tests.timeouts import TIMEOUT_S


class Encoded(Output):
    video: Video


def image(red: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.full((16, 24, 3), (red, 0, 0), np.uint8)


def encoded(red: int) -> bytes:
    return jpeg.encode(image(red), quality=90)


class Pipeline(ReactorPipeline):
    state: Level
    output: Encoded
    fps = 10

    def inference(self) -> Iterator[Any]:
        while True:
            self.state._steps += 1
            yield Encoded(video=encoded(10 * self.state._steps % 256))


class Raw(Pipeline):
    def inference(self) -> Iterator[Any]:
        while True:
            yield bytearray(encoded(10))


class App(ReactorApp):
    output: Encoded
    fps = 10

    def generate(self, _: Any) -> Encoded:
        return Encoded(video=encoded(10))


class Loop(ReactorModel):
    output: Encoded
    fps = 10

    async def run(self) -> None:
        while True:
            await self.emit(Encoded(video=TrackPayload(encoded(10), metadata={"quality": 90})))


class Block(VideoModel):
    output: Encoded
    fps = 10

    def start_session(self) -> None:
        while not get_ctx().should_stop():
            get_ctx().emit_block(encoded(10))


@pytest.mark.parametrize("model", [Pipeline, Raw, App, Loop, Block])
def test_each_style_shows_a_frame_that_is_a_jpeg(model: type[Model]) -> None:
    with Studio(model) as studio:
        studio.connect()
        studio.run(0.35)
        frames = studio.frames
    assert len(frames) >= 3
    assert np.array_equal(frames[0].array, jpeg.decode(encoded(10)))
    assert frames[0].metadata == ({"quality": 90} if model is Loop else None)


def test_a_step_result_has_the_bytes_and_its_frames_the_pixels() -> None:
    with PipelineExecutor(Pipeline) as executor:
        executor.connect()
        step = next(executor)
        (frame,) = executor.frames
    assert step.output.video == encoded(10)
    assert np.array_equal(frame.array, jpeg.decode(encoded(10)))


@pytest.mark.parametrize("with_video", [False, True])
def test_a_recording_has_the_pixels_and_is_replayed_bit_for_bit(tmp_path: Path, with_video: bool) -> None:
    with recorded(Pipeline, tmp_path, with_video=with_video) as studio:
        studio.run(0.5)

    class Other(Pipeline):
        def inference(self) -> Iterator[Any]:
            while True:
                self.state._steps += 1
                yield Encoded(video=encoded(10 * (self.state._steps + (self.state._steps == 3)) % 256))

    class Arrays(Pipeline):
        def inference(self) -> Iterator[Any]:
            for output in super().inference():
                yield Encoded(video=jpeg.decode(output.video))

    assert replay(recording_in(tmp_path), Pipeline).differences == []
    # A model that decodes the same files itself shows the same.
    assert replay(recording_in(tmp_path), Arrays).differences == []
    (difference,) = replay(recording_in(tmp_path), Other).differences
    assert "step 3" in str(difference)


def test_wrong_bytes_raise_at_the_authors_yield_which_may_catch_it() -> None:
    class Wrong(Pipeline):
        def inference(self) -> Iterator[Any]:
            try:
                yield Encoded(video=encoded(10)[:-2])
            except ValueError as error:
                self.error = str(error)
            yield Encoded(video=encoded(20))
            yield Encoded(video=b"nothing")

    with PipelineExecutor(Wrong) as executor:
        executor.connect()
        assert next(executor).output.video == encoded(20)
        assert executor.model.error.startswith("video: ")
        assert "bytes can't be shown: truncated JPEG; a frame is a whole baseline JPEG" in executor.model.error
        with pytest.raises(ValueError, match="video: 7 bytes can't be shown: not a JPEG"):
            next(executor)


def test_sound_is_no_jpeg() -> None:
    class Loud(Output):
        sound: Audio

    class Speaks(Pipeline):
        output: Loud  # type: ignore[assignment]

        def inference(self) -> Iterator[Any]:
            yield Loud(sound=encoded(10))

    with PipelineExecutor(Speaks) as executor:
        executor.connect()
        with pytest.raises(TypeError, match="sound: got bytes; sound is int16"):
            next(executor)


def test_the_check_names_the_form_and_takes_no_jpeg_for_black(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reactor_runtime.engine.first_step.SLOW_S", TIMEOUT_S)

    class Dark(Pipeline):
        def inference(self) -> Iterator[Any]:
            while True:
                yield Encoded(video=encoded(0))

    with caplog.at_level(logging.WARNING):
        made = rehearse(Contract.of(Dark), {}, tmp_path, on_step_limit=lambda error: pytest.fail(str(error)))
    step, warnings, *_ = made
    assert warnings == []
    assert step is not None
    (track,) = step["tracks"]
    assert (track["dtype"], track["width"], track["height"], track["frames"]) == ("JPEG", 24, 16, 1)
