"""What one paced frame costs the server and the engine, in calls and messages, which a busy machine does not change."""

from __future__ import annotations

import json

import pytest

from tests.counting.frame_cost import KNOWN, LISTED, Calls, Count, FrameCost, count_frames, over_budget
from tests.counting.system_calls import SUPPORTED

BUDGETS = {
    "server": FrameCost(python_calls=350, builtin_calls=250, system_calls=20, turns=4.2, messages=1.1),
    "engine": FrameCost(python_calls=310, builtin_calls=195, system_calls=10.5, turns=4.5, messages=1.1),
}


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Count]:
    return count_frames(tmp_path_factory.mktemp("frame-cost"), BUDGETS)


@pytest.mark.skipif(not SUPPORTED, reason="system calls are counted on Linux on x86-64")
@pytest.mark.parametrize("process", BUDGETS)
def test_a_paced_frame_stays_within_its_budget(process: str, counts: dict[str, Count]) -> None:
    count = counts[process]
    over = over_budget(count.cost, BUDGETS[process])
    assert not over, f"{process}: " + "; ".join([*over, *_added(process, count.functions), f"{dict(count.system)}"])


def test_functions_added_to_the_path_are_named() -> None:
    functions = {**json.loads(KNOWN.read_text())["engine"], "new.py f": 2.0, "rare.py g": 0.1}
    assert _added("engine", functions) == ["new.py f: 2.0 calls instead of 0"]


def _added(process: str, functions: Calls) -> list[str]:
    """Return the functions that a frame calls, or calls more often, compared with `frame_cost.json`."""
    known = json.loads(KNOWN.read_text())[process]
    return [
        f"{name}: {times:.1f} calls instead of {known.get(name, 0)}"
        for name, times in sorted(functions.items(), key=lambda item: -item[1])
        if times > known.get(name, 0) + 0.5 or (times > LISTED and name not in known)
    ]
