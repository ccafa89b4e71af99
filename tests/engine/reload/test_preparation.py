"""What counts as a change of the code that `load()` runs."""

from __future__ import annotations

import pytest

from reactor_runtime.engine.reload.modules import Source
from reactor_runtime.engine.reload.preparation import Preparations

BUILD = "def build():\n    return 1\n"
CHANGED = "build(), which MyModel.load() uses, has changed"


def change_of_build(imports: str, use: str, package: str = "") -> str:
    """Return the reported change of `build` in `nets/unet.py`, if `load()` contains `use`."""
    model = f"{imports}\n\nclass MyModel:\n    def load(self, config):\n        self.net = {use}\n"
    old = {
        "model": Source("/model.py", model.encode()),
        "nets": Source("/nets/__init__.py", package.encode()),
        "nets.unet": Source("/nets/unet.py", BUILD.encode()),
    }
    new = {**old, "nets.unet": Source("/nets/unet.py", BUILD.replace("1", "2").encode())}
    preparations = Preparations()
    assert preparations.change(old, old, "model", "MyModel") == ""
    return preparations.change(old, new, "model", "MyModel")


@pytest.mark.parametrize(
    ("imports", "use"),
    [
        ("import nets.unet", "nets.unet.build()"),
        ("import nets.unet as unet", "unet.build()"),
        ("from nets import unet", "unet.build()"),
        ("from nets.unet import build as made", "made()"),
    ],
)
def test_a_function_is_found_by_each_kind_of_import(imports: str, use: str) -> None:
    assert change_of_build(imports, use) == CHANGED


def test_a_name_of_something_else_is_not_the_function() -> None:
    assert change_of_build("import nets.unet", "other.unet.build() or nets.other.build() or build()") == ""


@pytest.mark.parametrize(
    ("imports", "use"), [("import nets", "nets.build()"), ("from nets import build", "build()")], ids=["name", "from"]
)
def test_a_function_is_found_through_a_package_that_imports_it(imports: str, use: str) -> None:
    assert change_of_build(imports, use, "from .unet import build") == CHANGED


def test_modules_that_import_a_name_from_each_other_are_compared() -> None:
    assert change_of_build("from nets import build", "build()", "from model import build") == ""
