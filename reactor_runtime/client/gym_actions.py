"""The action space of a model: from the schema of its events, and back to the inputs of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces


@dataclass(frozen=True, slots=True)
class _Action:
    """An event as part of an action: `field` is the state field that it sets, None for a command.

    `read` returns the value of an element of the space; of a command without parameters, whether it is sent.
    """

    event: str
    field: str | None
    parameter: str | None
    space: spaces.Space[Any]
    read: Callable[[Any], Any]


class Actions:
    """The events of an action, and their space.

    By default these are the events that set a field to a number with bounds, to a choice or to true or false, and those
    without parameters, as buttons. One event has its own space; several choices are a `MultiDiscrete`, several numbers
    a `Box`, and a mixture is a `Dict` by event.
    """

    def __init__(self, events: Mapping[str, Any], names: Sequence[str] | None = None) -> None:
        unknown = [name for name in names or () if name not in events]
        if unknown:
            raise ValueError(f"the model has no event {unknown[0]!r}; it has: {', '.join(events) or 'none'}")
        found = {name: _action(name, events[name]) for name in (events if names is None else names)}
        if names is not None and (wrong := [name for name, each in found.items() if each is None]):
            raise ValueError(f"no space expresses the values of {wrong[0]}: bounds or choices are missing")
        self._actions = [each for each in found.values() if each is not None]
        if not self._actions:
            raise ValueError("the model has no event that a space can express: give its fields bounds or choices")
        self.names = [each.event for each in self._actions]
        self.space, self._split = _joined(self._actions)

    def inputs(self, action: Any) -> dict[str, Any]:
        """Return the `state` and `commands` of a step for an action."""
        state: dict[str, Any] = {}
        commands: list[tuple[str, dict[str, Any]]] = []
        for each, value in zip(self._actions, self._split(action), strict=True):
            read = each.read(value)
            if each.field is not None:
                state[each.field] = read
            elif each.parameter is not None:
                commands.append((each.event, {each.parameter: read}))
            elif read:
                commands.append((each.event, {}))
        return {"state": state, "commands": commands}


def _action(name: str, event: Mapping[str, Any]) -> _Action | None:
    properties = event["parameters"].get("properties", {})
    if not properties:
        return _Action(name, None, None, spaces.Discrete(2), bool)
    if len(properties) > 1:
        return None
    ((parameter, schema),) = properties.items()
    found = _space(schema)
    return None if found is None else _Action(name, event.get("field"), parameter, *found)


def _space(schema: Mapping[str, Any]) -> tuple[spaces.Space[Any], Callable[[Any], Any]] | None:
    """Return the space of a JSON Schema, and the function from its elements to JSON values; None without one."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if "enum" in schema:
        choices = list(schema["enum"])
        return spaces.Discrete(len(choices)), lambda index: choices[int(index)]
    match schema.get("type"):
        case "boolean":
            return spaces.Discrete(2), bool
        case "integer" if low is not None and high is not None:
            return spaces.Discrete(int(high) - int(low) + 1), lambda index: int(low) + int(index)
        case "number" if low is not None and high is not None:
            box = spaces.Box(np.float32(low), np.float32(high), (1,), np.float32)
            # A float32 may be above the bound that it stands for.
            return box, lambda values: float(np.clip(float(np.asarray(values).reshape(-1)[0]), low, high))
    return None


def _joined(actions: Sequence[_Action]) -> tuple[spaces.Space[Any], Callable[[Any], Sequence[Any]]]:
    """Return the space of several actions, and the function that splits its elements."""
    parts = [each.space for each in actions]
    if len(parts) == 1:
        return parts[0], lambda action: [action]
    choices = [part.n for part in parts if isinstance(part, spaces.Discrete)]
    if len(choices) == len(parts):
        return spaces.MultiDiscrete(choices), list
    boxes = [part for part in parts if isinstance(part, spaces.Box)]
    if len(boxes) == len(parts):
        low, high = (np.concatenate([getattr(box, side) for box in boxes]) for side in ("low", "high"))
        return spaces.Box(low, high, dtype=np.float32), list
    return spaces.Dict({each.event: each.space for each in actions}), lambda action: [
        action[each.event] for each in actions
    ]
