"""What every authoring style has to have elsewhere; a new style that lacks it fails here."""

from __future__ import annotations

from pathlib import Path

import pytest

from reactor_runtime import interface, manifest
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.styles.styles import STYLES
from reactor_runtime.engine.drivers.registry import DRIVERS
from reactor_runtime.errors import UsageError

ARCHITECTURE = Path(__file__).parents[3] / "docs" / "architecture.md"
each_base = pytest.mark.parametrize("base", {style.base.__name__: style.base for style in STYLES}.values())


@each_base
def test_the_engine_has_a_driver_for_it(base: type[Model]) -> None:
    assert base in DRIVERS


@each_base
def test_its_base_class_is_public(base: type[Model]) -> None:
    assert getattr(interface, base.__name__) is base


@each_base
def test_the_error_for_a_missing_manifest_names_its_models(base: type[Model], tmp_path: Path) -> None:
    (tmp_path / "pipeline.py").write_text(f"class MyModel({base.__name__}):\n    pass\n")
    with pytest.raises(UsageError) as caught:
        manifest.load(tmp_path)
    assert caught.value.hint == "write it with the line `model: pipeline:MyModel`"


@each_base
def test_the_architecture_names_it(base: type[Model]) -> None:
    assert f"`{base.__name__}`" in ARCHITECTURE.read_text(encoding="utf-8").partition("## Authoring styles")[2]
