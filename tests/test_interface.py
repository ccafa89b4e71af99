"""The public API: the same names behind both imports, and nothing heavy until one is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import reactor_runtime
from reactor_runtime import interface

NAMES = [
    "Audio",
    "BufferClosed",
    "Button",
    "ClientInfo",
    "CommandError",
    "Idle",
    "Input",
    "InputField",
    "InputState",
    "Key",
    "Keys",
    "Look",
    "MessageField",
    "ModelMessage",
    "Output",
    "PipelineExecutor",
    "Pointer",
    "ReactorModel",
    "ReactorPipeline",
    "ReadMode",
    "StepResult",
    "Stick",
    "Tap",
    "UploadedFile",
    "Video",
    "VideoModel",
    "Wheel",
    "__version__",
    "asgi",
    "command",
    "connected",
    "disconnected",
    "event",
    "get_ctx",
    "model",
    "serve",
]


@pytest.mark.parametrize("module", [reactor_runtime, interface], ids=["package", "interface"])
def test_public_names_are_listed_sorted(module: object) -> None:
    assert vars(module)["__all__"] == NAMES == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_both_imports_give_the_same_object(name: str) -> None:
    assert getattr(reactor_runtime, name) is getattr(interface, name)


def test_public_names_show_in_dir() -> None:
    assert set(NAMES) <= set(dir(reactor_runtime))


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Vidoe'"):
        _ = reactor_runtime.Vidoe  # type: ignore[attr-defined]  # the typo is the test


def test_version_is_a_string() -> None:
    assert reactor_runtime.__version__


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = (
        "import sys, reactor_runtime; "
        "print([name for name in ('numpy', 'pydantic', 'pydantic_core') if name in sys.modules])"
    )
    root = Path(__file__).parent.parent
    result = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_model_does_not_load_the_engine() -> None:
    program = "import sys, reactor_runtime.interface; print('reactor_runtime.engine' in sys.modules)"
    root = Path(__file__).parent.parent
    result = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
