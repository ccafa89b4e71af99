"""The programs of the reference pages on pipelines and on blocks, served."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference import BLOCKS, GENERATOR, RAW, WALK_THROUGH
from tests.server.running import RunningServer, serving
from tests.server.session_client import level, several, visiting


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
    async with visiting(walked.url) as session:
        first = await session.frame()
        assert first.array.shape == (200, 320, 3)
        assert abs(level(first) - 100) < 3
        reply = await session.send("set_brightness", brightness=2)
        assert reply.n == 1
        assert abs(level(await session.frame(after=reply)) - 200) < 3


async def test_its_events_and_tracks_are_described(walked: RunningServer) -> None:
    async with visiting(walked.url) as session:
        described = session.schema["events"]["set_brightness"]
    assert described == {
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
        "replies": [None],
    }


async def test_the_generator_page_idles_sends_messages_sound_and_batches_and_is_restarted(tmp_path: Path) -> None:
    with serving(write(tmp_path, GENERATOR)) as server:
        async with visiting(server.url) as session:
            await session.send("set_prompt", prompt="a cat")
            frames = await several(session.frames(), 8)
            assert all(abs(level(frame) - 50) < 3 for frame in frames)
            sound = await anext(session.sound())
            assert (sound.array.shape[0], sound.sample_rate, sound.track) == (2, 48000, "main_audio")
            assert sound.array.shape[1] in (800, 801)
            assert [message.data["step"] for message in await several(session.messages(), 4)] == [0, 1, 2, 3]


async def test_a_raw_frame_is_enough_for_one_track(tmp_path: Path) -> None:
    with serving(write(tmp_path, RAW)) as server:
        async with visiting(server.url) as session:
            assert abs(level(await session.frame()) - 200) < 3


async def test_the_page_on_blocks_waits_for_input_converts_and_tells_its_progress(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with serving(write(tmp_path, BLOCKS)) as server:
        async with visiting(server.url) as session:
            assert level(await session.frame()) < 3
            shown = await session.frame(after=await session.send("set_prompt", prompt="a cat"))
            assert shown.array.shape == (240, 320, 3)
            assert all(abs(level(frame) - 159) < 3 for frame in await several(session.frames(), 12))
            progress = [message.data["frames_generated"] for message in await several(session.messages(), 3)]
            assert progress == [4, 8, 12]
