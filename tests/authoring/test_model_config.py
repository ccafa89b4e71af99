from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional

import pytest
import yaml

from reactor_runtime.authoring.model_config import ModelConfig, model_config
from reactor_runtime.authoring.styles.model import Model, takes_path
from reactor_runtime.config import GivenConfig, is_of_file, merged_path, write
from reactor_runtime.errors import ConfigError


class OfMapping(Model):
    def load(self, config: dict[str, Any]) -> None: ...


class OfPath(Model):
    def load(self, config_path: Path | None) -> None: ...


def _named(self: object, config_path: object) -> None: ...


def _annotated(self: object, config: Path) -> None: ...


def _optional(self: object, file: Optional[Path] = None) -> None: ...  # noqa: UP045  (as authors write it)


def _as_text(self: object, file: Path | None) -> None: ...


async def _is_async(self: object, config_path: Path) -> None: ...


def _mapping(self: object, config: dict[str, Any]) -> None: ...


def _bare(self: object, config: Any) -> None: ...


def _path_like(self: object, config: PathLike[str]) -> None: ...  # type: ignore[name-defined]  # noqa: F821


def _any(self: object, *config_path: object) -> None: ...


@pytest.mark.parametrize("load", [_named, _annotated, _optional, _as_text, _is_async])
def test_a_parameter_that_is_called_or_annotated_so_takes_the_path(load: Any) -> None:
    assert takes_path(type("M", (Model,), {"load": load}))


@pytest.mark.parametrize("load", [_mapping, _bare, _path_like])
def test_any_other_parameter_takes_the_mapping(load: Any) -> None:
    assert not takes_path(type("M", (Model,), {"load": load}))


def test_a_model_without_a_load_takes_the_mapping() -> None:
    assert not takes_path(Model)


def test_a_file_is_passed_and_not_parsed(tmp_path: Path) -> None:
    file = tmp_path / "conf.json5"
    file.write_bytes(b"{not: [yaml \xff")
    config = model_config(OfPath, GivenConfig(None, file), tmp_path)
    assert config.argument == file
    assert is_of_file(config.values)
    before = config.values
    file.write_text("changed")
    # So a reload notices a change that it can't read.
    assert model_config(OfPath, GivenConfig(None, file), tmp_path).values != before


def test_a_file_that_was_not_read_is_read_for_a_mapping(tmp_path: Path) -> None:
    file = tmp_path / "config.yml"
    file.write_text("a: 1\n")
    assert model_config(OfMapping, GivenConfig(None, file), tmp_path) == ModelConfig({"a": 1}, {"a": 1})
    file.write_text("- 1\n")
    with pytest.raises(ConfigError, match=r"config\.yml is a list, not a mapping"):
        model_config(OfMapping, GivenConfig(None, file), tmp_path)


def test_values_that_are_those_of_the_file_need_no_other_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yml"
    assert model_config(OfPath, GivenConfig({"a": 1}, file), tmp_path) == ModelConfig({"a": 1}, file)


def test_values_that_are_not_those_of_the_file_are_for_another_one(tmp_path: Path) -> None:
    given = GivenConfig({"a": 1}, tmp_path / "config.yml", tmp_path / "other.yml")
    assert model_config(OfPath, given, tmp_path) == ModelConfig({"a": 1}, tmp_path / "other.yml", is_merged=True)


def test_without_a_config_file_there_is_no_path_and_nothing_to_set(tmp_path: Path) -> None:
    assert model_config(OfPath, GivenConfig({}), tmp_path).argument is None
    with pytest.raises(ConfigError) as caught:
        model_config(OfPath, GivenConfig({"steps": 4}), tmp_path)
    assert caught.value.message == (
        "steps can't be set: OfPath.load() takes the path of a config file, and the project has none"
    )
    assert caught.value.hint == "add a config file, and name it in reactor.yaml"
    assert caught.value.where is not None


VALUES = {"lr": 1e-5, "on": "no", "size": [640, 480], "deep": {"text": "12:30", "none": None, "big": float("inf")}}


def test_a_written_config_is_read_alike_by_other_readers_of_yaml(tmp_path: Path) -> None:
    write(tmp_path / "config.yml", VALUES)
    assert yaml.safe_load((tmp_path / "config.yml").read_text()) == VALUES
    assert list(yaml.safe_load((tmp_path / "config.yml").read_text())) == list(VALUES)
    assert [path.name for path in tmp_path.iterdir()] == ["config.yml"]


def test_a_config_that_is_json_stays_json(tmp_path: Path) -> None:
    write(tmp_path / "config.json", {"a": 1e-5})
    assert json.loads((tmp_path / "config.json").read_text()) == {"a": 1e-5}


def test_the_name_of_a_merged_config_is_unique_and_beside_the_file(tmp_path: Path) -> None:
    names = {merged_path(tmp_path / "config.yml") for _ in range(9)}
    assert len(names) == 9
    assert {(name.parent, name.suffix, name.name[:11]) for name in names} == {(tmp_path, ".yml", "config.set-")}


def test_a_directory_that_takes_no_file_is_an_error_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        write(tmp_path / "gone" / "config.yml", {})
    assert "No such file or directory" in caught.value.message
    assert "leave out --set" in caught.value.hint
