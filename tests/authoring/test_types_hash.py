"""Which changes of a model make a generated client out of date."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from reactor_runtime.authoring.types_hash import types_hash
from tests.wire.shapes import CONTRACT, event, message

Change = Callable[[dict[str, Any]], object]


def hash_after(change: Change) -> str:
    contract = copy.deepcopy(CONTRACT)
    change(contract)
    return types_hash(contract["tracks"], contract["schema"])


def events(contract: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = contract["schema"]["events"]
    return found


def speed(contract: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = events(contract)["set_speed"]["parameters"]["properties"]["speed"]
    return found


SAME: dict[str, Change] = {
    "description": lambda c: events(c)["set_speed"].update(description="Faster"),
    "of a parameter": lambda c: speed(c).update(description="Faster"),
    "default": lambda c: speed(c).update(default=2.0),
    "limit": lambda c: speed(c).update(minimum=1),
    "control": lambda c: speed(c).update({"x-reactor-ui": {"widget": "slider"}, "examples": [1.0]}),
    "binding": lambda c: speed(c).update({"x-reactor-bind": [{"kind": "wheel"}]}),
    "title": lambda c: events(c)["move"]["parameters"].update(title="Moved"),
    "order of the events": lambda c: (
        events(c).update(reset_last=events(c).pop("2d")) or events(c).update({"2d": events(c).pop("reset_last")})
    ),
}
OTHER: dict[str, Change] = {
    "new event": lambda c: events(c).update(fresh=event()),
    "lost event": lambda c: events(c).pop("move"),
    "type": lambda c: speed(c).update(type="integer"),
    "choices": lambda c: events(c)["set_level"]["parameters"]["properties"]["level"].update(enum=[1, 2, 3]),
    "optional parameter": lambda c: events(c)["set_speed"]["parameters"].update(required=[]),
    "parameter named like a keyword": lambda c: events(c)["go_now"]["parameters"]["properties"].update(
        description={"type": "string"}
    ),
    "deep type": lambda c: (
        events(c)["move"]["parameters"]["properties"]["pose"]["anyOf"][0]["properties"]["path"]["items"]["properties"]
    ).update(z={"type": "number"}),
    "reply": lambda c: events(c)["go_now"].update(replies=["progress"]),
    "message": lambda c: c["schema"]["messages"].update(done=message()),
    "data of a message": lambda c: c["schema"]["messages"].update(progress=message(step={"type": "string"})),
    "track": lambda c: c["tracks"].pop(),
    "sample rate": lambda c: c["tracks"][1].update(sample_rate=16000),
}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME)
def test_a_change_without_types_keeps_the_hash(change: Change) -> None:
    assert hash_after(change) == types_hash(CONTRACT["tracks"], CONTRACT["schema"])


@pytest.mark.parametrize("change", OTHER.values(), ids=OTHER)
def test_a_change_of_types_changes_the_hash(change: Change) -> None:
    assert hash_after(change) != types_hash(CONTRACT["tracks"], CONTRACT["schema"])
