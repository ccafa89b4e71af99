"""`load()` with the path of the config file, sync and async, in a studio and across reloads."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from reactor_runtime import InputState, Output, PipelineExecutor, ReactorPipeline, Video
from reactor_runtime.config import GivenConfig
from reactor_runtime.engine.recorder import Recorder, RecordOptions
from reactor_runtime.errors import ConfigError, UsageError
from reactor_runtime.testing import Studio, replay


class Picture(Output):
    video: Video


class OfPath(ReactorPipeline):
    state: InputState
    output: Picture

    def load(self, config_path: Path | None) -> None:
        self.path = config_path
        self.values = None if config_path is None else yaml.safe_load(config_path.read_text())

    def inference(self) -> Any:
        while True:
            yield Picture(video=np.zeros((4, 4, 3), np.uint8))


class Slow(OfPath):
    async def load(self, config_path: Path | None) -> None:  # type: ignore[override]  # either works
        await asyncio.sleep(0)
        super().load(config_path)


@pytest.mark.parametrize("model", [OfPath, Slow])
def test_load_gets_a_file_with_the_values_of_the_executor(model: type[OfPath]) -> None:
    with PipelineExecutor(model, config={"steps": 4}) as executor:
        path = executor.model.path
        assert executor.model.values == {"steps": 4}
        assert path is not None
        assert path.is_file()
    assert not path.parent.exists()


@pytest.mark.parametrize("model", [OfPath, Slow])
def test_load_gets_none_without_a_config(model: type[OfPath]) -> None:
    with Studio(model) as studio:
        assert studio.model.path is None


def test_load_gets_the_file_that_the_caller_names(tmp_path: Path) -> None:
    file = tmp_path / "config.yml"
    file.write_text("steps: 5\n")
    with Studio(OfPath, config=file) as studio:
        assert (studio.model.path, studio.model.values) == (file, {"steps": 5})
    assert file.is_file()


def test_a_mapping_is_read_from_the_file_that_the_caller_names(tmp_path: Path) -> None:
    (tmp_path / "config.yml").write_text("steps: 5\n")

    class OfMapping(OfPath):
        def load(self, config: dict[str, Any]) -> None:  # type: ignore[override]  # this is what differs
            self.values = config

    with Studio(OfMapping, config=tmp_path / "config.yml") as studio:
        assert studio.model.values == {"steps": 5}


def test_a_merged_config_is_removed_also_if_load_fails(tmp_path: Path) -> None:
    class Failing(OfPath):
        def load(self, config_path: Path | None) -> None:
            assert config_path is not None
            assert config_path.is_file()
            raise RuntimeError("no weights")

    given = GivenConfig({"a": 1}, tmp_path / "config.yml", tmp_path / "merged.yml")
    with pytest.raises(RuntimeError, match="no weights"):
        Studio(Failing, config=given)
    assert not any(tmp_path.iterdir())


async def test_an_async_load_in_a_running_loop(tmp_path: Path) -> None:
    (tmp_path / "config.yml").write_text("steps: 5\n")
    with Studio(Slow, config=tmp_path / "config.yml") as studio:
        assert studio.model.values == {"steps": 5}


def test_an_async_load_that_fails_raises_its_exception() -> None:
    class Failing(OfPath):
        async def load(self, config_path: Path | None) -> None:  # type: ignore[override]  # either works
            await asyncio.sleep(0)
            raise RuntimeError(f"no weights in {config_path}")

    with pytest.raises(RuntimeError, match="no weights in None"):
        Studio(Failing)


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        Studio(OfPath, config=tmp_path / "gone.yml")


class Strict(OfPath):
    def load(self, config_path: Path | None) -> None:
        super().load(config_path)
        assert self.values is not None
        assert self.values.keys() == {"steps"}


def test_a_replay_uses_the_file_of_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.yml"
    file.write_text("steps: 5\n")
    (tmp_path / "reactor.yaml").write_text("runtime: {import: pipeline:Strict, config: config.yml}\n")
    recorder = Recorder(RecordOptions(tmp_path), {}, tmp_path)
    with contextlib.closing(recorder), Studio(Strict, file, logs=recorder) as studio:
        studio.connect()
        studio.run(0.5)
    [recording] = tmp_path.glob("*.mcap")
    monkeypatch.chdir(tmp_path)
    assert replay(recording, Strict).total == 0
    assert replay(recording, Strict, config={"steps": 7}, config_from="project").total == 0
    with pytest.raises(UsageError, match="has a hash of its config file, not the content"):
        replay(recording, Strict, config_from="recording")
    file.write_text("steps: 6\n")
    with pytest.raises(UsageError, match="was recorded with another config: sha256 was "):
        replay(recording, Strict)
    assert replay(recording, Strict, config_from="project").total == 0
