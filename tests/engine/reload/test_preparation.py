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


USES = {
    "star": ("from helper import *", "self.size = SIZE", "SIZE = 1", "SIZE = 2"),
    "function by star": ("from helper import *", "self.size = make()", "def make(): return 1", "def make(): return 2"),
    "classmethod": (
        "from helper import Net",
        "self.net = Net.make()",
        "class Net:\n    @classmethod\n    def make(cls): return 1",
        "class Net:\n    @classmethod\n    def make(cls): return 2",
    ),
    "static method of a module": (
        "import helper",
        "self.net = helper.Net.make()",
        "class Net:\n    @staticmethod\n    def make(): return 1",
        "class Net:\n    @staticmethod\n    def make(): return 2",
    ),
    "what a classmethod uses": (
        "from helper import Net",
        "self.net = Net.make()",
        "SIZE = 1\nclass Net:\n    @classmethod\n    def make(cls): return cls.grown()\n    @classmethod\n"
        "    def grown(cls): return SIZE",
        "SIZE = 2\nclass Net:\n    @classmethod\n    def make(cls): return cls.grown()\n    @classmethod\n"
        "    def grown(cls): return SIZE",
    ),
    "decorated": (
        "from helper import make",
        "self.size = make()",
        "import functools\n@functools.cache\ndef make(): return 1",
        "import functools\n@functools.cache\ndef make(): return 2",
    ),
    "decorator": (
        "from helper import make",
        "self.size = make()",
        "def twice(f): return lambda: 2 * f()\n@twice\ndef make(): return 1",
        "def twice(f): return lambda: 3 * f()\n@twice\ndef make(): return 1",
    ),
    "augmented": ("from helper import SIZE", "self.size = SIZE", "SIZE = 1\nSIZE += 64", "SIZE = 1\nSIZE += 128"),
    "condition": (
        "from helper import SIZE",
        "self.size = SIZE",
        "FAST = True\nif FAST:\n    SIZE = 1\nelse:\n    SIZE = 2",
        "FAST = False\nif FAST:\n    SIZE = 1\nelse:\n    SIZE = 2",
    ),
    "method call": (
        "from helper import CFG",
        "self.size = CFG['size']",
        "CFG = {}\nCFG.update(size=1)",
        "CFG = {}\nCFG.update(size=2)",
    ),
    "item": (
        "from helper import CFG",
        "self.size = CFG['size']",
        "CFG = {}\nCFG['size'] = 1",
        "CFG = {}\nCFG['size'] = 2",
    ),
    "filled by a function": (
        "from helper import CFG",
        "self.size = CFG['size']",
        "CFG = {}\ndef fill(into): into['size'] = 1\nfill(CFG)",
        "CFG = {}\ndef fill(into): into['size'] = 2\nfill(CFG)",
    ),
    "filled in a loop": (
        "from helper import CFG",
        "self.size = CFG['a']",
        "CFG = {}\nfor key in 'a':\n    CFG[key] = 1",
        "CFG = {}\nfor key in 'ab':\n    CFG[key] = 1",
    ),
    "assigned in the class": (
        "import helper",
        "self.net = helper.Net()",
        "class Net: pass\nNet.size = 1",
        "class Net: pass\nNet.size = 2",
    ),
}


@pytest.mark.parametrize(("imports", "use", "before", "after"), USES.values(), ids=USES.keys())
def test_a_change_of_what_load_uses_by_name_is_found(imports: str, use: str, before: str, after: str) -> None:
    model = f"{imports}\n\nclass MyModel:\n    def load(self, config):\n        {use}\n"
    old = {"model": Source("/model.py", model.encode()), "helper": Source("/helper.py", before.encode())}
    new = {**old, "helper": Source("/helper.py", after.encode())}
    preparations = Preparations()
    assert preparations.change(old, old, "model", "MyModel") == ""
    assert "has changed" in preparations.change(old, new, "model", "MyModel")
