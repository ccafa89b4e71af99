"""The programs of the reference pages on pipelines and on blocks, served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference import BLOCKS, GENERATOR, RAW, WALK_THROUGH
from tests.server.client import client, controlling
from tests.server.running import RunningServer, serving


def write(directory: Path, program: str) -> Path:
    (directory / "reactor.yaml").write_text("model: pipeline:MyModel\nname: my-model\nconfig: config.yml\n")
    (directory / "config.yml").write_text("width: 320\nheight: 240\n")
    (directory / "pipeline.py").write_text(program)
    return directory


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write(tmp_path_factory.mktemp("model"), WALK_THROUGH), "--set", "height=200") as server:
        yield server


async def test_the_model_that_is_walked_through_shows_its_brightness(walked: RunningServer) -> None:
    async with controlling(walked.url) as controller:
        first = await controller.frame()
        assert first.size == (320, 200)
        assert abs(first.level - 100) < 3
        assert (await controller.ask("set_brightness", {"brightness": 2}))["data"] == {"n": 1}
        assert abs((await controller.frame(applied=1)).level - 200) < 3


async def test_its_events_and_tracks_are_described(walked: RunningServer) -> None:
    async with client(walked.url) as controller:
        welcome = await controller.data("reactor.welcome")
    assert welcome["schema"]["events"]["set_brightness"] == {
        "description": "Brightness multiplier",
        "field": "brightness",
        "parameters": {
            "type": "object",
            "properties": {
                "brightness": {
                    "type": "number",
                    "minimum": 0.0,
                    "maximum": 2.0,
                    "default": 1.0,
                    "description": "Brightness multiplier",
                }
            },
            "required": ["brightness"],
            "additionalProperties": False,
        },
    }


async def test_the_generator_page_idles_sends_messages_sound_and_batches_and_is_restarted(tmp_path: Path) -> None:
    with serving(write(tmp_path, GENERATOR)) as server:
        async with controlling(server.url) as controller:
            await controller.send("set_prompt", {"prompt": "a cat"})
            frames = [await controller.frame() for _ in range(8)]
            assert all(abs(frame.level - 50) < 3 for frame in frames)
            sound = await controller.sound()
            assert (sound.channels, sound.sample_rate, sound.header.track) == (2, 48000, "main_audio")
            assert sound.samples in (800, 801)
            steps = [message["data"]["step"] for message in controller.texts if message["type"] == "progress"]
            assert steps == list(range(len(steps)))
            assert len(steps) > 3


async def test_a_raw_frame_is_enough_for_one_track(tmp_path: Path) -> None:
    with serving(write(tmp_path, RAW)) as server:
        async with controlling(server.url) as controller:
            assert abs((await controller.frame()).level - 200) < 3


async def test_the_page_on_blocks_waits_for_input_converts_and_tells_its_progress(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with serving(write(tmp_path, BLOCKS)) as server:
        async with controlling(server.url) as controller:
            assert (await controller.frame()).level < 3
            await controller.send("set_prompt", {"prompt": "a cat"})
            frames = [await controller.frame(applied=1) for _ in range(12)]
            assert all(abs(frame.level - 159) < 3 for frame in frames)
            assert frames[0].size == (320, 240)
            progress = [text["data"] for text in controller.texts if text["type"] == "progress"]
            counts = [each["frames_generated"] for each in progress]
            assert counts == list(range(4, 4 * len(counts) + 1, 4))
