"""Settings of all tests: Hypothesis profiles, markers, the order of a parallel run, and what children inherit."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

# Fixtures remove the modules that a test has imported: a second copy of this one would not know the first's classes.
import yaml  # noqa: F401  # it stays imported
from hypothesis import HealthCheck, settings

from tests.kinds import Kinds, refuse_processes

PAGES = Path(__file__).parent / "page"
# How long an example takes says something about the machine, and nothing about the code. The first profile has the
# same examples in each run, the second one, for `--hypothesis-profile thorough`, looks for new ones.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", _UNTIMED, max_examples=40, derandomize=True)
settings.register_profile("thorough", _UNTIMED, max_examples=1000)
settings.load_profile("quick")

# The tests start Python a thousand times: compiled modules are kept, whatever the shell asks for.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Without the packages named there this process and its children start faster: those of Ray in a third of the CPU time.
ABSENT = str(Path(__file__).parent / "absent")
sys.path.insert(0, ABSENT)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (ABSENT, os.environ.get("PYTHONPATH"))))

# Collection makes a million objects, and frees few: see pytest_collection_finish.
gc.disable()

# `reactor run` would listen elsewhere.
for _name in ("HOST", "PORT", "SPACE_ID"):
    os.environ.pop(_name, None)

# nohup and background jobs of a shell ignore these signals, and children inherit that. A handler they do not inherit.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the tests of pages, which all need a browser, in a run without: a seventh of what collection takes."""
    return True if collection_path == PAGES and "not browser" in config.option.markexpr else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test that starts a process or a browser.

    In a parallel run, sort the files so that all workers end at about the same time.
    """
    kinds = Kinds()
    long_tests = Counter[str]()
    for item in items:
        if isinstance(item, pytest.Function):
            for kind in kinds.of_test(item):
                item.add_marker(kind)
                long_tests[item.nodeid.partition("::")[0]] += 1
    if "PYTEST_XDIST_WORKER" in os.environ:
        from tests.scheduling import start_order

        items.sort(key=lambda item: start_order(item.nodeid.partition("::")[0], long_tests))


def pytest_collection_finish() -> None:
    """Exclude what is there before the first test, a million objects, from each search of the garbage collector."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Distribute the tests as `tests/scheduling.py` does, unless --dist asks for another way."""
    if config.getoption("dist") != "load":
        return None
    from tests.scheduling import Scheduling

    return Scheduling(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Let no test start a process in a run that leaves these tests out."""
    if "not process" in config.option.markexpr:
        refuse_processes(while_there_is="PYTEST_CURRENT_TEST")
