"""The module of a class of a notebook: the statements that it needs, in order."""

from __future__ import annotations

import pytest

from reactor_runtime.errors import ClassError
from reactor_runtime.notebook.source import module_of_cells

CELLS = [
    "",
    "from __future__ import annotations\nget_ipython().system('ls')\nimport numpy as np, os.path\nfrom m import *",
    "SIZE = 4\nunused = print('no')\nif SIZE:\n    SCALE = 2",
    "def gray(level):\n    return np.full(SIZE, level * SCALE)\n\nclass Base:\n    pass",
    "this is not Python",
    "get_ipython().run_cell_magic('writefile', 'm.py', 'class MyModel:\\n    other = True')",
    "class MyModel(Base):\n    old = True",
    "SIZE = 5",
    "@mark\nclass MyModel(Base):\n    def run(self):\n        unused = 3\n        return gray(unused)",
    "unused = show(MyModel)",
]
MODULE = """\
from __future__ import annotations
import sys

sys.path.insert(1, '/work')

# In [1]:
import numpy as np, os.path
# In [1]:
from m import *
# In [2]:
if SIZE:
    SCALE = 2
# In [3]:
def gray(level):
    return np.full(SIZE, level * SCALE)
# In [3]:
class Base:
    pass
# In [7]:
SIZE = 5
# In [8]:
@mark
class MyModel(Base):
    def run(self):
        unused = 3
        return gray(unused)
"""


def test_a_module_has_the_newest_definitions_of_what_the_class_needs_and_nothing_else() -> None:
    assert module_of_cells("MyModel", CELLS, folder="/work") == MODULE


def test_a_name_of_a_built_in_that_a_cell_defines_is_used() -> None:
    cells = ["def round(level):\n    return 0", "class MyModel:\n    level = round(len([1.5]))"]
    assert cells[0] in module_of_cells("MyModel", cells, folder="/work")


def test_a_name_that_a_statement_changes_has_its_value_before() -> None:
    values = ["SIZE = 3", "SIZE = 4", "SIZE += 1", "SIZE = SIZE * 2"]
    source = module_of_cells("MyModel", [*values, "class MyModel:\n    size = SIZE"], folder="/work")
    assert [line for line in source.splitlines() if line.startswith("SIZE")] == values[1:]


def test_a_class_that_no_cell_defines_is_an_error() -> None:
    with pytest.raises(ClassError, match="no cell of this notebook defines Missing") as raised:
        module_of_cells("Missing", CELLS, folder="/work")
    assert "define `class Missing` in a cell" in raised.value.hint
