"""The contract of a model class: everything the engine and its clients must know about it, compiled once."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from reactor_runtime.authoring.bindings import check_together
from reactor_runtime.authoring.block import BlockOutput, VideoModel, mark_of_model
from reactor_runtime.authoring.discovery import assigned, find, is_ours
from reactor_runtime.authoring.events import EventSpec, Hook, HookSpec, runs_async
from reactor_runtime.authoring.fields import FieldSpec
from reactor_runtime.authoring.handlers import Handler, handlers_of
from reactor_runtime.authoring.inputs import Input, inputs_of, join_all
from reactor_runtime.authoring.messages import ModelMessage, message_schema, message_type
from reactor_runtime.authoring.model import Model, outputs_of
from reactor_runtime.authoring.payload import Payload
from reactor_runtime.authoring.pipeline import ReactorPipeline, state_of
from reactor_runtime.authoring.reactor_model import ReactorModel
from reactor_runtime.authoring.records import settle
from reactor_runtime.authoring.source import declared_at, locate, place_of
from reactor_runtime.authoring.state import StateSpec
from reactor_runtime.authoring.tracks import Output, TrackSpec
from reactor_runtime.errors import ClassError, Location


@dataclass(frozen=True, slots=True)
class Contract:
    """Say what a model sends, takes and keeps.

    `inputs` are by the attribute that holds them; `fps` is None for a model whose rate follows its compute time.
    `buffer_grows` is true for a pipeline without a `buffer_size` of its own: two batches may be queued.
    """

    model: type[Model]
    tracks: tuple[TrackSpec, ...]
    outputs: tuple[type[Output], ...]
    inputs: Mapping[str, type[Input]]
    state: StateSpec | None
    events: Mapping[str, EventSpec]
    messages: Mapping[str, type[ModelMessage]]
    on_connected: HookSpec | None
    on_disconnected: HookSpec | None
    fps: float | None
    max_fps: float
    buffer_size: int
    buffer_grows: bool

    @classmethod
    def of(cls, model: type) -> Contract:
        """Compile a model class; ClassError says what makes it one that can't be served."""
        if not isinstance(model, type) or not issubclass(model, Model) or is_ours(model):
            name = getattr(model, "__qualname__", repr(model))
            raise ClassError(f"{name} is not a model", hint="derive it from ReactorPipeline", where=_location(model))
        if inspect.isabstract(model):
            missing = ", ".join(sorted(vars(model)["__abstractmethods__"]))
            raise ClassError(f"{model.__name__} is abstract: it does not define {missing}", where=_location(model))
        _check_calls(model)
        _check_work(model)
        try:
            return cls._compile(model)
        except (TypeError, ValueError) as error:
            raise ClassError(str(error), where=place_of(error) or _location(model)) from error

    @classmethod
    def _compile(cls, model: type[Model]) -> Contract:
        state = StateSpec.of(state_of(model)) if issubclass(model, ReactorPipeline) else None
        outputs, inputs = outputs_of(model), inputs_of(model)
        if issubclass(model, VideoModel):
            outputs = outputs or (BlockOutput,)
        handlers = handlers_of(model).values()
        events = _events(state, handlers)
        messages = _messages(model, events.values())
        for record in (*outputs, *inputs.values(), *messages.values()):
            settle(record)
        check_together(
            [s for event in events.values() for s in (*event.sources, *event.payload.sources)], model.__name__
        )
        fps = getattr(model, "fps", None)
        return cls(
            model=model,
            tracks=join_all(model.__name__, outputs, inputs.values()),
            outputs=outputs,
            inputs=inputs,
            state=state,
            events=events,
            messages=messages,
            on_connected=_hook("connected", handlers),
            on_disconnected=_hook("disconnected", handlers),
            fps=None if fps is None else float(fps),
            max_fps=float(model.max_fps),
            buffer_size=int(model.buffer_size),
            buffer_grows=issubclass(model, ReactorPipeline) and not assigned(model, "buffer_size"),
        )

    @property
    def declared_name(self) -> str | None:
        """The name that `@model` gives."""
        mark = mark_of_model(self.model)
        return None if mark is None else mark.name

    def to_json(self) -> dict[str, Any]:
        """Return what clients are told in `reactor.welcome`: tracks and schema, and the name that `@model` gives."""
        events = {
            event.name: {
                "description": event.description,
                "field": event.field,
                "parameters": event.parameters_schema(),
                "replies": self._replies(event),
            }
            for event in self.events.values()
        }
        messages = {name: message_schema(message) for name, message in self.messages.items()}
        tracks = [track.to_json() for track in self.tracks]
        return {"name": self.declared_name, "tracks": tracks, "schema": {"events": events, "messages": messages}}

    def _replies(self, event: EventSpec) -> list[str | None] | None:
        """List the types of the messages that a reply may hold, those derived from an annotated one as well."""
        if event.replies is None:
            return None
        declared = tuple(each for each in event.replies if each is not None)
        types = [name for name, message in self.messages.items() if issubclass(message, declared)]
        return [*types, None] if None in event.replies else [*types]


def check_finished(model: type[Model]) -> None:
    """See that a pipeline has an `inference`, or code of the author's that may assign one; ClassError otherwise."""
    if not issubclass(model, ReactorPipeline) or model.inference is not ReactorPipeline.inference:
        return
    if model.load is Model.load and model.__init__ is object.__init__:
        hint = "define `def inference(self)` that yields frames, or assign self.inference in load()"
        raise ClassError(f"{model.__name__} has no inference()", hint=hint, where=_location(model))


def _events(state: StateSpec | None, handlers: Iterable[Handler]) -> dict[str, EventSpec]:
    """Join generated events, first, and written ones; a written `set_<field>` takes the generated one's place."""
    events = {f"set_{field.name}": _setter(field) for field in (state.fields if state else ())}
    for handler in handlers:
        if isinstance(handler, EventSpec):
            generated = events.get(handler.name)
            _refuse_lost(generated, handler)
            events[handler.name] = replace(handler, field=generated.field if generated else None)
    return events


def _refuse_lost(generated: EventSpec | None, written: EventSpec) -> None:
    """See that a written `set_<field>` takes over what the field is bound to."""
    if generated and generated.payload.sources and not (written.payload.sources or written.sources):
        raise TypeError(
            f"{written.method} takes the place of {written.name}, so what the field {generated.field} is bound to "
            "belongs to its parameter: give bind there"
        )


def _setter(field: FieldSpec) -> EventSpec:
    name = f"set_{field.name}"
    return EventSpec(
        name=name,
        description=field.description,
        dedupe=False,
        method=None,
        field=field.name,
        is_async=False,
        client_parameter=None,
        replies=(None,),
        payload=Payload(name, [field], all_required=True),
    )


def _hook(hook: Hook, handlers: Iterable[Handler]) -> HookSpec | None:
    return next((spec for spec in handlers if isinstance(spec, HookSpec) and spec.hook == hook), None)


def _messages(model: type, events: Iterable[EventSpec]) -> dict[str, type[ModelMessage]]:
    found: dict[str, type[ModelMessage]] = {}
    replies = (each for event in events for each in event.replies or () if each not in (None, ModelMessage))
    for message in (*find(model, ModelMessage), *replies):
        name = message_type(message)
        other = found.setdefault(name, message)
        if other is not message:
            with declared_at(message):
                raise TypeError(
                    f"{model.__name__}: messages {other.__qualname__} and {message.__qualname__} are both called "
                    f"{name!r}; give one of them a class attribute name"
                )
    return found


def _check_calls(model: type[Model]) -> None:
    """See that the runtime can make the model and call its load(); ClassError points at the method."""
    name = model.__name__
    if issubclass(model, VideoModel):
        _check_block_calls(model)
        return
    try:
        inspect.signature(model).bind()
    except TypeError as error:
        hint = "it is made without arguments: take what you need from the config in load()"
        raise ClassError(
            f"{name}.__init__: {error}", hint=hint, where=_location(model.__init__) or _location(model)
        ) from error
    if inspect.iscoroutinefunction(model.load):
        hint = "leave out `async`; asyncio.run(…) works inside it"
        raise ClassError(
            f"{name}.load is async; load() is called before there is a loop", hint=hint, where=_location(model.load)
        )
    if inspect.isgeneratorfunction(model.load):
        hint = "frames are made in inference() or run(); load() returns when the model is ready"
        raise ClassError(f"{name}.load yields, so nothing in it would run", hint=hint, where=_location(model.load))
    try:
        inspect.signature(model.load).bind(None, {})
    except TypeError as error:
        hint = "write `def load(self, config)`"
        raise ClassError(
            f"{name}.load must take the config: {error}", hint=hint, where=_location(model.load)
        ) from error


def _check_block_calls(model: type[VideoModel]) -> None:
    """See that the runtime can make a block model and start its sessions."""
    name = model.__name__
    try:
        inspect.signature(model).bind({})
    except TypeError as error:
        hint = "write `def __init__(self, config)`"
        raise ClassError(
            f"{name}.__init__ must take the config: {error}", hint=hint, where=_location(model.__init__)
        ) from error
    if model.load is not Model.load:
        hint = "prepare the model in `__init__(self, config)`"
        raise ClassError(f"{name}.load is never called in a VideoModel", hint=hint, where=_location(model.load))
    if model.start_session is VideoModel.start_session:
        hint = "define `def start_session(self)` that emits blocks until get_ctx().should_stop()"
        raise ClassError(f"{name} has no start_session()", hint=hint, where=_location(model))
    try:
        inspect.signature(model.start_session).bind(None)
    except TypeError as error:
        hint = "write `def start_session(self)`; the session is get_ctx()"
        raise ClassError(
            f"{name}.start_session is called without arguments: {error}",
            hint=hint,
            where=_location(model.start_session),
        ) from error


def _check_work(model: type[Model]) -> None:
    """See that what makes the frames can be called as it is; what `load()` may put in its place comes later."""
    name = "inference" if issubclass(model, ReactorPipeline) else "run"
    work = inspect.getattr_static(model, name, None)
    if not isinstance(work, FunctionType):
        return
    if issubclass(model, ReactorModel) and not runs_async(work):
        hint = "write `async def run(self)`, and await something in it"
        raise ClassError(f"{model.__name__}.run is not async", hint=hint, where=_location(work))
    try:
        inspect.signature(work).bind(None)
    except TypeError as error:
        hint = "it is called without arguments: take values from self.state or from what load() kept"
        raise ClassError(f"{model.__name__}.{name}: {error}", hint=hint, where=_location(work)) from error


def _location(declared: object) -> Location | None:
    return locate(declared) if isinstance(declared, type | FunctionType) else None
