"""The public API: the same names behind both imports, and nothing heavy until one is used."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import reactor_runtime
from reactor_runtime import interface

NAMES = interface.__all__
# The names of the 3.x API.
NAMES_OF_3X = {
    *("Audio", "ClientInfo", "Command", "CommandError", "EVENT_REGISTRY", "FieldInfo", "INPUT_REGISTRY", "Idle"),
    *("Input", "InputBuffer", "InputField", "InputState", "MESSAGE_REGISTRY", "MediaInput", "MessageField", "Metadata"),
    *("ModelMessage", "OUTPUT_REGISTRY", "Output", "OutputBuffer", "OutputStream", "ReactorModel", "ReactorPipeline"),
    *("Track", "UploadedFile", "Video", "all_input_tracks", "all_output_tracks", "connected", "disconnected"),
    *("event", "file_uploaded", "get_logger", "get_weights_path"),
}
# The names of the 3.x API that have import paths of their own.
PATHS_OF_3X = {
    "reactor_runtime.distributed": {"DistributedRunner", "DistributedWorker", "WorkerCrashed", "WorkerTimeout"},
    "reactor_runtime.interface.model.contract": {"ModelContract"},
    "reactor_runtime.interface.pipeline.idle": {"Idle", "_IdleType"},
    "reactor_runtime.log": {"get_logger"},
    "reactor_runtime.model_api": {"VideoModel", "command", "get_ctx", "model", "ReactorPipeline", "InputField"},
    "reactor_runtime.manifest": {"load_config", "import_model_class"},
    "reactor_runtime.paths": {"get_weights_path"},
    "reactor_runtime.schema": {"render"},
}


def test_public_names_are_sorted() -> None:
    assert sorted(set(NAMES)) == NAMES


def test_the_package_has_the_same_list() -> None:
    assert reactor_runtime.__all__ == NAMES


def test_the_names_of_the_3x_api_are_public() -> None:
    assert set(NAMES) >= NAMES_OF_3X


@pytest.mark.parametrize("module", PATHS_OF_3X)
def test_the_import_paths_of_the_3x_api_have_their_names(module: str) -> None:
    found = importlib.import_module(module)
    assert all(hasattr(found, name) for name in PATHS_OF_3X[module])


def test_the_import_path_of_1x_has_all_public_names_and_no_others() -> None:
    names: dict[str, object] = {}
    exec("from reactor_runtime.model_api import *", names)
    assert set(NAMES) == names.keys() - {"__builtins__"}
    with pytest.raises(ImportError, match="cannot import name 'Vidoe'"):
        exec("from reactor_runtime.model_api import Vidoe")


def test_a_star_import_of_the_package_gives_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from reactor_runtime import *", names)
    assert set(NAMES) == names.keys() - {"__builtins__"}


def test_both_imports_give_the_same_objects() -> None:
    for name in NAMES:
        assert getattr(reactor_runtime, name) is getattr(interface, name), name


def test_the_decorator_model_survives_an_import_of_the_package_of_that_name() -> None:
    program = (
        "import reactor_runtime.interface.model\n"
        "import reactor_runtime.interface.pipeline.idle as idle\n"
        "from reactor_runtime.interface import Idle, model\n"
        "print(model.__name__, model.__module__, idle.Idle is Idle, isinstance(Idle, idle._IdleType))"
    )
    root = Path(__file__).parent.parent
    result = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["model", "reactor_runtime.authoring.styles.block", "True", "True"]


def test_public_names_show_in_dir() -> None:
    assert set(NAMES) <= set(dir(reactor_runtime))


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Vidoe'"):
        _ = reactor_runtime.Vidoe  # type: ignore[attr-defined]  # the typo is the test


def test_what_the_interface_imports_for_itself_is_not_public() -> None:
    assert hasattr(interface, "reactor_runtime")
    assert not hasattr(reactor_runtime, "reactor_runtime")


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


def test_importing_a_subpackage_loads_nothing_heavy() -> None:
    program = (
        "import sys; from reactor_runtime import errors; "
        "print([name for name in ('numpy', 'reactor_runtime.interface') if name in sys.modules])"
    )
    root = Path(__file__).parent.parent
    result = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_model_does_not_load_the_engine() -> None:
    program = "import sys, reactor_runtime.interface; print('reactor_runtime.engine' in sys.modules)"
    root = Path(__file__).parent.parent
    result = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
