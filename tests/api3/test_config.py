"""`load(config_path)` in a server: the file itself, its merged copy, two sessions, a crash, and a save."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.processes import engines_of
from tests.server.client import controlling
from tests.server.running import RunningServer, listening, serving

MODEL = """\
import asyncio
from pathlib import Path

import numpy as np
import yaml

from reactor_runtime.interface import InputState, Output, ReactorPipeline, Video


class MyOutput(Output):
    main_video: Video


class MyModel(ReactorPipeline):
    state: InputState
    fps = 30

    async def load(self, config_path: Path | None) -> None:
        await asyncio.sleep(0)
        text = config_path.read_text()
        # Only the project itself knows the form of its file.
        self.level = int(text[2:]) if text.startswith("# ") else yaml.safe_load(text)["level"]
        print(f"LOADED {config_path} {self.level} beside={(config_path.parent / 'weights.txt').exists()}", flush=True)

    def inference(self):
        while True:
            yield MyOutput(main_video=np.full((32, 48, 3), self.level, np.uint8))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "my.yaml").write_text("level: 40\nother: 1\n")
    (tmp_path / "conf" / "weights.txt").touch()
    (tmp_path / "pipeline.py").write_text(MODEL)
    (tmp_path / "reactor.yaml").write_text("runtime: {import: pipeline:MyModel, config: conf/my.yaml}\n")
    return tmp_path


def loaded(server: RunningServer) -> list[tuple[str, str]]:
    """Return the file and the level of each load."""
    return re.findall(r"LOADED (\S+) (\d+) beside=True", server.log)


def files(project: Path) -> list[str]:
    return sorted(path.name for path in (project / "conf").iterdir())


async def test_a_file_is_passed_as_it_is_and_watched(project: Path) -> None:
    config = project / "conf" / "my.yaml"
    config.write_text("# 40")
    with serving(project, "--reload") as server:
        assert loaded(server) == [(str(config), "40")]
        async with controlling(server.url) as client:
            await client.frame()
            config.write_text("# 200")
            assert (await client.data("reactor.reload", status="applied"))["status"] == "applied"
            while (await client.frame()).level < 190:
                pass
        server.until(lambda: loaded(server)[-1] == (str(config), "200"), "load of the changed file")


async def test_values_that_are_set_are_in_one_file_beside_it_that_survives_a_crash(project: Path) -> None:
    with listening(project, "--set", "level=90", "--sessions", "2") as server:
        server.until(lambda: len(loaded(server)) == 2, "two loaded models")
        merged = {file for file, _ in loaded(server)}
        assert {level for _, level in loaded(server)} == {"90"}
        [name] = merged
        assert Path(name).parent == project / "conf"
        assert f"file={name}" in server.log
        os.kill(engines_of(server.process.pid)[0], signal.SIGKILL)
        server.until(lambda: len(loaded(server)) == 3, "a third load")
        assert loaded(server)[2] == (name, "90")
        server.wait_for_health("ready")
        async with controlling(server.url) as client:
            assert abs((await client.frame()).level - 90) < 3
        server.stop()
    assert files(project) == ["my.yaml", "weights.txt"]
