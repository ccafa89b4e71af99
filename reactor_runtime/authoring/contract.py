"""The contract of a model class: all that the engine and clients need of it, compiled once."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from inspect import Parameter
from types import FunctionType
from typing import Any

from reactor_runtime.authoring.code.annotations import Scope
from reactor_runtime.authoring.code.records import make_dataclass
from reactor_runtime.authoring.code.source import attached_location, declared_at, location_of
from reactor_runtime.authoring.events.events import UPLOAD_EVENT, EventSpec, Hook, HookSpec, innermost, parameters_of
from reactor_runtime.authoring.events.handlers import Handler, handlers_of
from reactor_runtime.authoring.events.messages import ModelMessage, message_schema, message_type
from reactor_runtime.authoring.events.moderate import METHOD, check_moderate, moderates
from reactor_runtime.authoring.events.state import StateSpec
from reactor_runtime.authoring.styles.block import mark_of_model
from reactor_runtime.authoring.styles.model import (
    Model,
    declared_seat_state,
    declared_state,
    number_of,
    outputs_of,
)
from reactor_runtime.authoring.styles.seat import seats_of
from reactor_runtime.authoring.styles.styles import NO_MODEL_HINT, Style, style_of
from reactor_runtime.authoring.tracks.discovery import find, is_ours
from reactor_runtime.authoring.tracks.inputs import Input, inputs_of, join_all
from reactor_runtime.authoring.tracks.tracks import Output, TrackSpec, is_made, tracks_of
from reactor_runtime.authoring.types_hash import types_hash
from reactor_runtime.authoring.values.arguments import EventArguments
from reactor_runtime.authoring.values.bindings import Source, check_together, shortcuts
from reactor_runtime.authoring.values.fields import FieldSpec
from reactor_runtime.authoring.values.jsonable import check_size
from reactor_runtime.authoring.values.limits import NO_LIMITS
from reactor_runtime.authoring.values.typespec import ValuePath, compile_type
from reactor_runtime.errors import ClassError, Location, ReactorError


@dataclass(frozen=True, slots=True)
class Contract:
    """Describe a model's tracks, events, messages and state.

    `inputs` maps attributes to Input classes; `fps` is None if the rate follows the compute time.
    `batches` is how many batches may be queued however small `buffer_size` is: 0, 1 or 2. `moderates` is true if the
    model has a method `moderate`, and values for it. With `shared` every client of a session may send events.
    `sessions_per_model` is how many sessions share a loaded model. A session has `seats` controllers, each with a
    `seat_state`.
    """

    model: type[Model]
    style: Style
    tracks: tuple[TrackSpec, ...]
    outputs: tuple[type[Output], ...]
    # Those of the class, without what a style or `load()` adds.
    declared_outputs: tuple[type[Output], ...]
    inputs: Mapping[str, type[Input]]
    state: StateSpec | None
    seat_state: StateSpec | None
    events: Mapping[str, EventSpec]
    messages: Mapping[str, type[ModelMessage]]
    on_connected: HookSpec | None
    on_disconnected: HookSpec | None
    on_session_started: HookSpec | None
    on_session_ended: HookSpec | None
    on_joined: HookSpec | None
    on_left: HookSpec | None
    on_file: EventSpec | None
    fps: float | None
    max_fps: float
    buffer_size: int
    batches: int
    moderates: bool
    shared: bool
    sessions_per_model: int
    seats: int

    @classmethod
    def of(cls, model: type) -> Contract:
        """Compile a model class; raise ClassError with the reason if it can't be served."""
        style = style_of(model) if isinstance(model, type) and not is_ours(model) else None
        if style is None or not issubclass(model, Model):
            name = getattr(model, "__qualname__", repr(model))
            raise ClassError(f"{name} is not a model", hint=NO_MODEL_HINT, where=location_of(model))
        if inspect.isabstract(model):
            missing = ", ".join(sorted(vars(model)["__abstractmethods__"]))
            raise ClassError(f"{model.__name__} is abstract: it does not define {missing}", where=location_of(model))
        style.check_class(model)
        try:
            contract = cls._compile(model, style)
            check_size(contract.to_json()["schema"], model.__name__)
            return contract
        except (TypeError, ValueError) as error:
            raise ClassError(str(error), where=attached_location(error) or location_of(model)) from error

    def with_current_rate(self) -> Contract:
        """Return the contract with the rate of the class as it is now: `load()` can assign it to the class."""
        return replace(self, fps=_rate_of(self.model, self.style))

    def with_made_outputs(self, model: Model) -> Contract:
        """Return the contract with the outputs of `Output.make()` that a loaded model keeps as attributes.

        It is the same object if nothing changes. Raises TypeError for tracks of one name that differ.
        """
        kept = (each for each in vars(model).values() if isinstance(each, type) and issubclass(each, Output))
        made = dict.fromkeys(each for each in kept if is_made(each) and each not in self.declared_outputs)
        outputs = (*self.declared_outputs, *made) or self.style.default_outputs
        if outputs == self.outputs:
            return self
        for record in made:
            make_dataclass(record)
        tracks = join_all(self.model.__name__, outputs, self.inputs.values())
        return replace(self, outputs=outputs, tracks=tracks)

    @classmethod
    def _compile(cls, model: type[Model], style: Style) -> Contract:
        declared = declared_state(model)
        state = None if declared is None else StateSpec.of(declared)
        of_seat = declared_seat_state(model)
        seat_state = None if of_seat is None else StateSpec.of(of_seat)
        declared_outputs, inputs = outputs_of(model), inputs_of(model)
        outputs = declared_outputs or style.default_outputs
        handlers = handlers_of(model).values()
        events = _events(state, seat_state, handlers)
        messages = _messages(model, events.values())
        for record in (*outputs, *inputs.values(), *messages.values()):
            make_dataclass(record)
        check_together(_sources(events.values()), model.__name__)
        _check_prominent(events.values(), model.__name__)
        has_moderated = any(event.arguments.moderated for event in events.values())
        if has_moderated:
            check_moderate(model)
        size = style.assigned(model, "buffer_size")
        return cls(
            model=model,
            style=style,
            tracks=join_all(model.__name__, outputs, inputs.values()),
            outputs=outputs,
            declared_outputs=declared_outputs,
            inputs=inputs,
            state=state,
            seat_state=seat_state,
            events=events,
            messages=messages,
            on_connected=_hook("connected", handlers),
            on_disconnected=_hook("disconnected", handlers),
            on_session_started=_hook("session_started", handlers),
            on_session_ended=_hook("session_ended", handlers),
            on_joined=_hook("joined", handlers),
            on_left=_hook("left", handlers),
            on_file=_written(handlers).get(UPLOAD_EVENT),
            fps=_rate_of(model, style),
            max_fps=float(number_of(model, "max_fps")),
            buffer_size=style.buffer_size if size is None else int(size),
            batches=2 if size is None and style.fits_two_batches else int(style.fits_a_batch),
            moderates=has_moderated and moderates(model),
            # An author may use the name for something else.
            shared=inspect.getattr_static(model, "shared", False) is True,
            sessions_per_model=int(number_of(model, "sessions_per_model")),
            seats=seats_of(model),
        )

    def with_seats(self, seats: int) -> Contract:
        """Return the contract with so many seats: `load()` can set them."""
        return self if seats == self.seats else replace(self, seats=seats)

    @property
    def has_seats(self) -> bool:
        """Return whether the model has `self.seats`; an author may use the name for something else."""
        return self.seats > 1 or self.seat_state is not None

    @property
    def output_tracks(self) -> tuple[TrackSpec, ...]:
        """Return the output tracks, and in a model with several seats also those of each seat."""
        outputs = [track for track in self.tracks if track.direction == "out"]
        seats = range(self.seats) if self.seats > 1 else ()
        return (*outputs, *(replace(track, seat=seat) for seat in seats for track in outputs))

    @property
    def follows_clients(self) -> bool:
        """Return whether the rules of 3.x hold for the sessions of the model.

        `@connected` and `@disconnected` then run for every client of a session, viewers included, a session outlives
        its last client, and the model is loaded again after an exception that leaves `run()`.
        """
        return self.style.follows_clients or bool(self.on_session_started or self.on_session_ended)

    @property
    def declared_name(self) -> str | None:
        """Return the name that `@model` gives."""
        mark = mark_of_model(self.model)
        return None if mark is None else mark.name

    @property
    def config_file(self) -> str:
        """Return the config file that `@model` names; "" if it names none."""
        mark = mark_of_model(self.model)
        return mark.config if mark is not None and isinstance(mark.config, str) else ""

    @property
    def warnings(self) -> list[ReactorError]:
        """Return what is probably not meant, with the author's lines; the model is served all the same."""
        return [*self._unused_moderation(), *self._ignored_limits(), *self._browser_shortcuts()]

    @property
    def unmoderated(self) -> list[str]:
        """Return the values that are declared `moderate=True` in a model without a method that decides about them."""
        fields = [f"{event.name}.{name}" for event in self.events.values() for name in event.arguments.moderated]
        return [] if self.moderates else fields

    @property
    def handled_events(self) -> Mapping[str, EventSpec]:
        """Return the events of clients, and the one that the engine makes of an upload without an event."""
        return self.events if self.on_file is None else {**self.events, UPLOAD_EVENT: self.on_file}

    @property
    def takes_files(self) -> bool:
        """Return whether an event of a client may refer to an uploaded file."""
        return any('"format": "upload"' in json.dumps(event.parameters_schema()) for event in self.events.values())

    @property
    def read_only(self) -> Mapping[str, FieldSpec]:
        """Return the public fields of the state, and of that of a seat, that the model alone sets, by name."""
        states = (state for state in (self.state, self.seat_state) if state is not None)
        return {field.name: field for state in states for field in state.fields if field.info.read_only}

    @property
    def uncallable(self) -> list[str]:
        """Return the public methods whose annotated parameters clients could send, but which are no events."""
        return _uncallable_methods(self.model)

    def _unused_moderation(self) -> list[ReactorError]:
        if self.moderates or not moderates(self.model):
            return []
        message = f"{self.model.__name__}.moderate is never called: no value is declared InputField(moderate=True)"
        return [ReactorError(message, hint="declare one, or rename the method", where=location_of(self.model, METHOD))]

    def _browser_shortcuts(self) -> list[ReactorError]:
        found = shortcuts(_sources(self.events.values()))
        if not found:
            return []
        message = f"{self.model.__name__} binds keys that browsers keep for themselves: {', '.join(found)}"
        return [ReactorError(message, hint="bind one of the keys elsewhere", where=location_of(self.model))]

    def _ignored_limits(self) -> list[ReactorError]:
        return [
            ReactorError(f"{owner}{field.name}: {ignored} and has no effect", hint="leave it out", where=where)
            for event in self.events.values()
            for field in event.arguments.fields
            if field.ignored
            for owner, where in [self._declaration_of(event, field)]
            for ignored in field.ignored
        ]

    def _declaration_of(self, event: EventSpec, field: FieldSpec) -> tuple[str, Location | None]:
        """Return the owner of a value that clients set, as errors name it, and where the value is declared."""
        if event.method is None:
            state = self.seat_state if event.of_seat else self.state
            assert state is not None, "only a state has events without a method"
            return f"{state.cls.__name__}.", location_of(state.cls, field.name)
        method = innermost(inspect.getattr_static(self.model, event.method))
        return f"{method.__qualname__}: ", location_of(method, field.name)

    def to_json(self) -> dict[str, Any]:
        """Return what the server needs: tracks and schema, as in `reactor.welcome`, and the rules of sessions."""
        events = {
            event.name: {
                "description": event.description,
                "field": event.field,
                "parameters": event.parameters_schema(),
                "replies": self._replies(event),
                **({"host": True} if event.of_host and self.seats > 1 else {}),
            }
            for event in self.events.values()
        }
        messages = {name: message_schema(message) for name, message in self.messages.items()}
        tracks = [track.to_json() for track in self.tracks]
        read_only = {name: field.to_json() for name, field in self.read_only.items()}
        schema = {"events": events, "messages": messages, **({"state": read_only} if read_only else {})}
        made = {track.name for output in self.outputs if is_made(output) for track in tracks_of(output)}
        # A client is generated from the class, before `load()` has made a track.
        types = types_hash([track for track in tracks if track["name"] not in made], schema)
        rules = {"follows_clients": self.follows_clients, "shared": self.shared}
        return {
            "name": self.declared_name,
            "tracks": tracks,
            "schema": {**schema, "types": types},
            **{rule: True for rule, holds in rules.items() if holds},
            **({"seats": self.seats} if self.seats > 1 else {}),
        }

    def _replies(self, event: EventSpec) -> list[str | None] | None:
        """Return the types of the messages a reply may hold, including those derived from an annotated one."""
        if event.replies is None:
            return None
        declared = tuple(each for each in event.replies if each is not None)
        types = [name for name, message in self.messages.items() if issubclass(message, declared)]
        return [*types, None] if None in event.replies else [*types]


def _rate_of(model: type[Model], style: Style) -> float | None:
    """Return the rate that the class fixes, as it is now."""
    fps = style.assigned(model, "fps")
    fps = style.fps if fps is None else fps
    return None if fps is None else float(fps)


def _events(state: StateSpec | None, seat_state: StateSpec | None, handlers: Iterable[Handler]) -> dict[str, EventSpec]:
    """Return the generated events, then the declared ones; a declared `set_<field>` replaces the generated one."""
    written = {name: event for name, event in _written(handlers).items() if name != UPLOAD_EVENT}
    setters: dict[str, EventSpec] = {}
    for owner in (state, seat_state):
        for field in owner.fields if owner else ():
            name = f"set_{field.name}"
            if owner is seat_state and state is not None and field.name in {each.name for each in state.fields}:
                assert owner is not None, "its fields are read"
                with declared_at(owner.cls, field.name):
                    raise TypeError(f"{owner.cls.__name__}.{field.name} is a field of {state.cls.__name__} too")
            if field.info.read_only:
                if event := written.get(name):
                    raise TypeError(f"{event.method} is the event {name}, but {field.name} is read_only; drop one")
                continue
            setter = _replacing(written[name], field) if name in written else _setter(field)
            of_seat = owner is seat_state
            setters[name] = replace(setter, of_seat=of_seat, of_host=not (of_seat or field.info.shared))
    return {**setters, **{name: event for name, event in written.items() if name not in setters}}


def _written(handlers: Iterable[Handler]) -> dict[str, EventSpec]:
    return {handler.name: handler for handler in handlers if isinstance(handler, EventSpec)}


def _replacing(written: EventSpec, field: FieldSpec) -> EventSpec:
    """Return a declared `set_<field>` with the control of its field; raise TypeError if it omits a binding of it."""
    if field.sources and not (written.arguments.sources or written.sources):
        raise TypeError(
            f"{written.method} replaces {written.name} and the binding of its field: add bind= to its parameter"
        )
    description = written.description or field.description
    return replace(written, field=field.name, description=description, arguments=written.arguments.completed_by(field))


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
        arguments=EventArguments(name, [field], all_required=True),
    )


def _sources(events: Iterable[EventSpec]) -> list[Source]:
    return [source for event in events for source in (*event.sources, *event.arguments.sources)]


def _check_prominent(events: Iterable[EventSpec], where: str) -> None:
    found = [(event, name) for event in events for name in event.arguments.prominent]
    for event, name in found:
        # The page draws no other parameter as a control that sends its value by itself.
        if len(event.arguments.names) > 1 or not (event.field or event.name == f"set_{name}"):
            raise TypeError(
                f"{where}: prominent=True has no effect on {event.name}.{name}; give it to a state field, or to "
                f"the only parameter of an event named set_{name}"
            )
    names = [f"{event.name}.{name}" for event, name in found]
    if len(names) > 1:
        raise TypeError(f"{where}: {' and '.join(names)} are prominent; a model has one main text")


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


def _uncallable_methods(cls: type) -> list[str]:
    """Return the public methods of the author that have the form of an event, with annotated parameters, and are none.

    Those that override a method of ours are not counted.
    """
    ours = {name for owner in cls.__mro__ if is_ours(owner) for name in vars(owner)}
    others = {*ours, *handlers_of(cls)}
    authors = [owner for owner in reversed(cls.__mro__) if not is_ours(owner)]
    members = {name: value for owner in authors for name, value in vars(owner).items()}
    public = {name: value for name, value in members.items() if not name.startswith("_") and name not in others}
    return [name for name, value in public.items() if isinstance(value, FunctionType) and _could_be_event(value, cls)]


def _could_be_event(method: FunctionType, cls: type) -> bool:
    """Return whether clients could send all parameters of a method, of which it has some."""
    parameters = parameters_of(method)
    if inspect.isgeneratorfunction(method) or any(p.annotation is Parameter.empty for p in parameters):
        return False
    scope = Scope.of_class(cls, {}).of_handler(method, cls)
    try:
        for parameter in parameters:
            compile_type(scope.resolve(parameter.annotation, ""), NO_LIMITS, ValuePath("", scope))
    except TypeError:
        return False
    return bool(parameters)
