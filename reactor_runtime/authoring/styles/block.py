"""The block style: `VideoModel`, whose `start_session()` emits blocks of frames from its own thread."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from reactor_runtime import config as config_file
from reactor_runtime.authoring.events.events import HookSpec, declare
from reactor_runtime.authoring.events.handlers import handlers_of
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.tracks.tracks import Output, Video
from reactor_runtime.authoring.values.bindings import Source

_MODEL = "__reactor_model__"

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)


class BlockOutput(Output):
    """Declare the output of a block model that declares none."""

    main_video: Video


class VideoModel(Model):
    """Write a model as a function that serves one client: emit blocks of frames until the session stops.

    `__init__` runs once, before any client, with the config; the instance serves all sessions, one after the other.
    `start_session()` and commands get the session with `get_ctx()`. Commands run one at a time, in another thread
    than `start_session()`: protect values that both use. An annotated `state` is made anew for each session, is None
    outside of sessions, and is set by events in the thread of commands. Declare `fps` for a fixed rate; without it,
    blocks play as fast as they come, up to `max_fps`. `buffer_size` is the maximum number of frames in two queued
    blocks.
    """

    buffer_size = 50

    def __init__(self, config: dict[str, Any] | None = None) -> None:
        """Prepare the model: read weights, allocate memory; override it."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _check_session(cls)
        _check_handlers(cls)

    def start_session(self) -> None:
        """Serve one client: make blocks and `get_ctx().emit_block()` them until `get_ctx().should_stop()`.

        Runs in its own thread. Returning ends the session when all blocks have been shown; raising ends it at once.
        """
        raise NotImplementedError(f"{type(self).__name__} needs start_session(), which emits blocks of frames")


@dataclass(frozen=True, slots=True)
class ModelMark:
    """Hold the arguments of `@model`."""

    name: str
    config: str | Mapping[str, Any] | None
    meta: Mapping[str, Any]


def model(name: str, config: str | Mapping[str, Any] | None = None, **meta: Any) -> Callable[[C], C]:
    """Set the name of a block model and its default config: a mapping, or a file relative to reactor.yaml.

    The config that reactor.yaml names is merged over it. Optional; `meta` is stored and not used.
    """
    if not isinstance(name, str) or not name:
        raise TypeError('model takes a name: write @model(name="my-model") above the class')
    if config is not None and not isinstance(config, str | Mapping):
        raise TypeError(f"@model(name={name!r}): config is the path of a file or a mapping, not {config!r}")

    def mark(cls: C) -> C:
        if not isinstance(cls, type) or not issubclass(cls, VideoModel):
            what = getattr(cls, "__name__", repr(cls))
            raise TypeError(f"@model(name={name!r}) goes above a class derived from VideoModel, not {what}")
        setattr(cls, _MODEL, ModelMark(name, config, meta))
        return cls

    return mark


def command(
    name: str = "", description: str = "", *, bind: Source | Sequence[Source] | None = None
) -> Callable[[F], F]:
    """Allow clients to call a method under `name`, with its parameters, as `event` does.

    The method is a plain `def` and runs in the thread of commands, one at a time, beside `start_session()`. A returned
    `ModelMessage` is the reply, as is a dict, whose type is the name of the command if it has no `type`. A raised
    `CommandError` is the error. `bind` is that of `event`.
    """
    if not isinstance(name, str) or not name:
        raise TypeError('command takes a name: write @command("set_prompt") above the method')
    return declare("command", name, description, bind=bind, takes_dict=True)


def mark_of_model(cls: type) -> ModelMark | None:
    """Return the `@model` mark of a class or of its nearest parent that has one."""
    mark = getattr(cls, _MODEL, None)
    return mark if isinstance(mark, ModelMark) else None


def starting_config(cls: type, project: Path) -> dict[str, Any]:
    """Read the config that `@model` names; raise ConfigError if it can't be read."""
    mark = mark_of_model(cls)
    if mark is None or mark.config is None:
        return {}
    if isinstance(mark.config, str):
        return config_file.load(project / mark.config)
    return config_file.override(dict(mark.config), ())


def _check_session(cls: type) -> None:
    if "start_session" not in vars(cls):
        return
    function = vars(cls)["start_session"]
    where = f"{cls.__name__}.start_session"
    if not callable(function):
        raise TypeError(f"{where} must be a method, a plain def")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{where} is async, but runs in its own thread: make it a plain def")
    if inspect.isgeneratorfunction(function):
        raise TypeError(f"{where} can't yield: emit frames with get_ctx().emit_block(frames)")


def _check_handlers(cls: type) -> None:
    for handler in handlers_of(cls).values():
        if isinstance(handler, HookSpec):
            raise TypeError(
                f"{cls.__name__}.{handler.method}: a VideoModel has no @{handler.hook}; start_session() begins when a "
                "client connects, and its `finally` runs when the client has left"
            )
        if handler.is_async:
            raise TypeError(
                f"{cls.__name__}.{handler.method}: the command {handler.name!r} is async, but runs in a thread: "
                "make it a plain def"
            )
