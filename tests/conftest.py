"""Settings of all tests: Hypothesis, the markers `process` and `browser`, and signals that children inherit."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.kinds import Kinds, refuse_processes

# How long an example takes says something about the machine, and nothing about the code.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# nohup and background jobs of a shell ignore these signals, and children inherit that. A handler they do not inherit.
for _number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test that starts a process or a browser."""
    kinds = Kinds()
    for item in items:
        if isinstance(item, pytest.Function):
            for kind in kinds.of_test(item):
                item.add_marker(kind)


def pytest_configure(config: pytest.Config) -> None:
    """Let no test start a process in a run that leaves these tests out."""
    if "not process" in config.option.markexpr:
        refuse_processes(while_there_is="PYTEST_CURRENT_TEST")
