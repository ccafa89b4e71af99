"""`ModelContract`: the contract of a class as the tests of programs for 3.x read it; views, nothing is kept twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, get_args

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.events.events import EventSpec, Hook, HookSpec
from reactor_runtime.authoring.events.handlers import handlers_of
from reactor_runtime.authoring.events.messages import ModelMessage
from reactor_runtime.authoring.tracks.tracks import TrackSpec
from reactor_runtime.authoring.values.fields import FieldSpec
from reactor_runtime.schema import RenderedSchema

__all__ = ["Command", "ModelContract"]


class Command:
    """Hold the fields of a command: `__command_fields__[name].info` is its `InputField`."""

    def __init__(self, fields: Mapping[str, FieldSpec]) -> None:
        self.__command_fields__ = fields


class CommandView:
    """Show one event: its description, its fields, and the message that it is answered with, or None."""

    def __init__(self, event: EventSpec) -> None:
        replies = [each for each in event.replies or () if each is not None]
        self.name = event.name
        self.description = event.description
        self.response: type[ModelMessage] | None = replies[0] if len(replies) == 1 else None
        self.command = Command({field.name: field for field in event.arguments.fields})


class ModelContract:
    """Show what a model class declares; make it with `ModelContract.of(MyModel)`, without an instance.

    `commands` and `messages` are by name on the wire, `tracks` by name; `lifecycle.connected` and so on are the methods
    of the class that run at these times, or None.
    """

    def __init__(self, contract: Contract) -> None:
        self._contract = contract
        self.commands: Mapping[str, CommandView] = {name: CommandView(event) for name, event in contract.events.items()}
        self.tracks: Mapping[str, TrackSpec] = {track.name: track for track in contract.tracks}
        self.messages: Mapping[str, type[ModelMessage]] = dict(contract.messages)
        self.lifecycle = SimpleNamespace(**_hooks(contract))

    @classmethod
    def of(cls, model: type) -> ModelContract:
        """Compile a model class; raise an error with the fix, as `reactor check` does, if it can't be served."""
        return cls(Contract.of(model))

    def render_schema(self) -> RenderedSchema:
        """Return the schema of the model; `to_openapi()` of it is an OpenAPI 3.1 document."""
        return RenderedSchema(self._contract)


def _hooks(contract: Contract) -> dict[str, Callable[..., Any] | None]:
    model, on_file = contract.model, contract.on_file
    specs = [spec for spec in handlers_of(model).values() if isinstance(spec, HookSpec)]
    methods = {spec.hook: getattr(model, spec.method) for spec in specs}
    file_uploaded = None if on_file is None or on_file.method is None else getattr(model, on_file.method)
    return {**{hook: methods.get(hook) for hook in get_args(Hook)}, "file_uploaded": file_uploaded}
