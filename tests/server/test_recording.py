"""`reactor run --record`: a session with a server and a client, replayed, and one that is killed."""

from __future__ import annotations

import os
import random
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from reactor_runtime.client import SessionEnded
from reactor_runtime.recording.file import SessionRecording, read_recording
from tests.cli.command import python, reactor
from tests.server.client import controlling
from tests.server.running import RunningServer, serving, write_project
from tests.server.session_client import several, until_over, visiting
from tests.server.test_reload import MODEL as RELOADED
from tests.server.test_reload import Project, shown, status

MODEL = """
import random


class Eyes(Input):
    camera: Video
    microphone: Audio


class MyState(InputState):
    gain: float = 1.0
    image: UploadedFile | None = None


class MyModel(ReactorPipeline):
    state: MyState
    input: Eyes
    output: MyOutput
    fps = 60

    @event(name="nudge")
    def nudge(self, by: int):
        self.offset = getattr(self, "offset", 0) + by * random.randrange(9)

    def inference(self):
        shown, loud = gray(0), 0
        while True:
            if items := self.input.camera.try_read():
                shown = items[0]
            if items := self.input.microphone.try_read(mode=ReadMode.FIFO):
                loud = int(np.abs(items[0]).max())
            image = 0 if self.state.image is None else len(self.state.image.read())
            noise = np.random.randint(0, 9, shown.shape)
            yield (shown * self.state.gain + noise + loud + image + getattr(self, "offset", 0)).astype(np.uint8)
"""
REPLAY = """
import sys
from reactor_runtime.testing import replay

result = replay(sys.argv[1])
assert result.differences == [], result.differences
print(result.frames)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = write_project(tmp_path_factory.mktemp("recorded"), MODEL)
    with serving(project, "--record", str(project / "sessions")) as server:
        yield server


def newest(server: RunningServer) -> SessionRecording:
    return read_recording(max((server.output.parent / "sessions").iterdir()))


async def test_a_session_with_events_camera_and_sound_replays_bit_for_bit(server: RunningServer) -> None:
    chance = random.Random(1)
    async with visiting(server.url) as session:
        frames = session.frames()
        for _ in range(80):
            await anext(frames)
            match chance.randrange(6):
                case 0:
                    session.notify("set_gain", gain=chance.random() * 2)
                case 1:
                    await session.send("nudge", by=chance.randrange(50))
                case 2:
                    session.publish("microphone", np.full((1, 1600), chance.randrange(99), np.int16))
                case 3:
                    await session.send(
                        "set_image", image=await session.upload(bytes(chance.randrange(9)), name="a.bin")
                    )
                case _:
                    session.publish("camera", np.full((16, 24, 3), chance.randrange(256), np.uint8))
        await frames.aclose()
    server.wait_for("recorded the session file=")
    recording = newest(server)
    assert recording.end is not None
    assert {event.name for event in recording.events} == {"set_gain", "nudge", "set_image"}
    assert {read.track for read in recording.reads} == {"camera", "microphone"}
    outcome = python("-c", REPLAY, str(recording.path), cwd=server.output.parent)
    assert outcome.code == 0, outcome.err
    assert int(outcome.out) >= 80


async def test_a_killed_engine_loses_at_most_the_last_second(server: RunningServer) -> None:
    async with visiting(server.url) as session:
        (*_, last) = await several(session.frames(), 120)
        os.kill(server.engine, signal.SIGKILL)
        with pytest.raises(SessionEnded):
            await until_over(session)
    recording = newest(server)
    assert recording.end is None
    assert len(recording.outputs) >= last.seq - 60


async def test_a_session_in_which_the_code_is_edited_is_recorded_to_its_end(tmp_path: Path) -> None:
    project = Project(write_project(tmp_path, RELOADED))
    with serving(project.folder, "--reload", "--record", str(tmp_path / "sessions")) as server:
        async with controlling(server.url) as client:
            await client.send("set_plus", {"plus": 2})
            await shown(client, 12)
            project.write("part.py", "LEVEL = 20\n")
            await shown(client, 22)
            project.write("part.py", "LEVEL = = 30\n")
            await status(client, "failed")
            await client.send("set_plus", {"plus": 5})
            await shown(client, 25)
            project.model(("yield gray(", "1 // (80 - self.state.plus); yield gray("))
            await status(client, "failed")
            project.write("part.py", "LEVEL = 30\n")
            await shown(client, 35)
            await client.send("set_plus", {"plus": 80})
            await status(client, "failed")
            project.model()
            # A save before that would be applied with this one.
            await status(client, "applied")
            await shown(client, 110)
            project.write("config.yml", "level: 40\n")
            await shown(client, 150)
            project.write("part.py", "LEVEL = 60\n")
            await shown(client, 180)
            for _ in range(30):
                await client.frame()
        server.wait_for("recorded the session file=")
    (file,) = (tmp_path / "sessions").iterdir()
    recording = read_recording(file)
    assert [change.changed for change in recording.code_changes] == [
        ("part.py",), ("part.py", "pipeline.py"), ("pipeline.py",), ("config.yml",), ("part.py",),
    ]  # fmt: skip
    assert recording.errors[0].error == "the model failed: ZeroDivisionError: integer division or modulo by zero"
    last = recording.code_changes[-1].step
    assert recording.steps > last + 25
    outcome = reactor("replay", str(file), "--config-from", "recording", cwd=project.folder)
    changes, result = outcome.out.splitlines()
    assert changes.startswith(f"the code changed 5 times, at last after step {last} of the recording; ")
    # The frames that the client saw after the last edit are the same.
    assert re.search(rf", (\d+) of \d+ frames and pieces of sound differ, \1 of them up to step {last}$", result)


def test_a_directory_that_can_not_be_written_is_a_usage_error(tmp_path: Path) -> None:
    project = write_project(tmp_path, MODEL)
    outcome = reactor("run", "--record", str(project / "pipeline.py"), cwd=project)
    assert (outcome.code, outcome.err.splitlines()[0]) == (2, f"error: --record {project / 'pipeline.py'}: File exists")
    outcome = reactor("run", "--record-video", cwd=project)
    assert (outcome.code, outcome.err.splitlines()[0]) == (2, "error: --record-video without --record")
