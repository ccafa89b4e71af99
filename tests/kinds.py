"""Find the tests that start a process or a browser, from the code that they and their fixtures run.

The search follows the names in compiled functions, within `tests`. A test that starts a process in a way that this
search misses fails in a run without processes; see `tests/conftest.py`.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

STARTERS = {
    "playwright": "browser",
    "subprocess": "process",
    "asyncio.subprocess": "process",
    "multiprocessing": "process",
    "pty": "process",
    "reactor_runtime.distributed.runner": "process",
    "reactor_runtime.ipc.process": "process",
    "reactor_runtime.server.run": "process",
}
# The events that CPython reports when it starts a process.
FORBIDDEN = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"})


class Kinds:
    """The kinds of tests, with the functions seen so far."""

    def __init__(self) -> None:
        self._kinds: dict[CodeType, set[str]] = {}
        self._tests: dict[tuple[pytest.Item | pytest.Collector | None, object], set[str]] = {}

    def of_test(self, test: pytest.Function) -> set[str]:
        """Return what a test needs: nothing, "process", "browser" or both."""
        # Tests that differ in their parameters have the same fixtures.
        key = test.parent, test.function
        if key not in self._tests:
            self._tests[key] = self._of_function_and_fixtures(test)
        return self._tests[key]

    def _of_function_and_fixtures(self, test: pytest.Function) -> set[str]:
        fixtures = [each for found in test._fixtureinfo.name2fixturedefs.values() for each in found[-1:]]
        functions = [test.function, *(fixture.func for fixture in fixtures)]
        return set().union(*(self._of_value(function, ()) for function in functions))

    def _of_value(self, value: object, names: tuple[str, ...]) -> set[str]:
        if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "tests":
            members = [vars(value)[name] for name in names if name in vars(value)]
            return set().union(*(self._of_value(member, ()) for member in members))
        where = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
        kinds = _started_by(where)
        if kinds or where.partition(".")[0] not in ("tests", "conftest"):
            return kinds
        if isinstance(value, type):
            return set().union(*(self._of_value(member, ()) for member in vars(value).values() if _has_code(member)))
        function = inspect.unwrap(getattr(value, "__func__", value)) if callable(value) else None
        return self._of_function(function) if isinstance(function, FunctionType) else set()

    def _of_function(self, function: FunctionType) -> set[str]:
        if function.__code__ not in self._kinds:
            # Empty while the function is searched, for functions that call each other.
            found = self._kinds[function.__code__] = set[str]()
            for code in _codes(function.__code__):
                for name in code.co_names:
                    value = function.__globals__.get(name, sys.modules.get(name))
                    found |= self._of_value(value, code.co_names)
        return self._kinds[function.__code__]


@functools.cache
def _started_by(module: str) -> set[str]:
    return {kind for starter, kind in STARTERS.items() if f"{module}.".startswith(f"{starter}.")}


def _has_code(member: Any) -> bool:
    return callable(member) or isinstance(member, classmethod | staticmethod)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def refuse_processes(*, while_there_is: str) -> None:
    """Raise where this process starts another one, from now on, while it has the environment variable."""

    def refuse(event: str, _: tuple[Any, ...]) -> None:
        if event in FORBIDDEN and while_there_is in os.environ:
            raise RuntimeError(
                "this test starts a process that tests/kinds.py missed: mark it with pytest.mark.process"
            )

    sys.addaudithook(refuse)
