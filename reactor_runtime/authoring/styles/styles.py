"""The authoring styles: what differs between generator, loop and block models before they are served.

The engine has a driver for each style (`engine.drivers.registry`). A further style is one more `Style` in `STYLES` and
its driver.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal

from reactor_runtime.authoring.code.source import location_of
from reactor_runtime.authoring.events.events import runs_async
from reactor_runtime.authoring.events.handlers import handlers_of
from reactor_runtime.authoring.styles import frames_method
from reactor_runtime.authoring.styles.block import BlockOutput, VideoModel
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.styles.pipeline import ReactorPipeline
from reactor_runtime.authoring.styles.reactor_model import ReactorModel
from reactor_runtime.authoring.tracks.tracks import Output
from reactor_runtime.errors import ClassError, LoadError


def _accept(_: object) -> None:
    """Check nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Describe one way to write a model; the checks raise an error at the author's line.

    `check_class` checks the signatures that the runtime calls; `check_finished` that the class has its frames method or
    code that may assign one; `check_loaded` that the frames method exists after load(). `config_method` gets the
    config. `fits_two_batches`: if the author assigns no `buffer_size`, the queue has room for two batches.
    """

    base: type[Model]
    frames_method: str
    check_class: Callable[[Any], None]
    check_finished: Callable[[type[Model]], None] = _accept
    check_loaded: Callable[[Model], None] = _accept
    config_method: Literal["load", "__init__"] = "load"
    default_outputs: tuple[type[Output], ...] = ()
    fits_two_batches: bool = False

    def make(self, model: type[Model], config: dict[str, Any]) -> Model:
        """Call the class, with the config where `__init__` prepares the model."""
        make: Callable[..., Model] = model
        return make(config) if self.config_method == "__init__" else make()


def style_of(model: type) -> Style | None:
    """Return the style of a class, None for a class of no style."""
    return next((style for style in STYLES if issubclass(model, style.base)), None)


NO_INFERENCE_HINT = "define `def inference(self)` that yields frames, or assign self.inference in load()"


def _check_pipeline(model: type[ReactorPipeline]) -> None:
    _check_init_and_load(model)
    _check_frames_method(model, "inference")


def _check_inference(model: type[Model]) -> None:
    """Check that a pipeline has an `inference` that yields, or author's code that may assign one."""
    if not frames_method.defines(model, "inference"):
        frames_method.raise_missing(model, "inference", NO_INFERENCE_HINT)
    frames_method.check_yields(model, "inference")


def _check_inference_after_load(model: Model) -> None:
    if "inference" not in vars(model) and not _has_inference(type(model)):
        message = f"{type(model).__name__} has no inference() after load()"
        raise LoadError(message, hint=NO_INFERENCE_HINT, where=location_of(type(model)))


def _has_inference(model: type[Model]) -> bool:
    return issubclass(model, ReactorPipeline) and model.inference is not ReactorPipeline.inference


def _check_loop(model: type[ReactorModel]) -> None:
    _check_init_and_load(model)
    run = inspect.getattr_static(model, "run", None)
    if isinstance(run, FunctionType) and not runs_async(run):
        hint = "write `async def run(self)`, and await something in it"
        raise ClassError(f"{model.__name__}.run is not async", hint=hint, where=location_of(run))
    _check_frames_method(model, "run")


def _check_run(model: type[Model]) -> None:
    """Check that a loop model has a `run`, or handlers, which can make its frames too."""
    if frames_method.defines(model, "run"):
        return
    if not handlers_of(model) or frames_method.find_misspelt(model, "run"):
        frames_method.raise_missing(model, "run", "define `async def run(self)` that emits frames, or handlers that do")


def _check_blocks(model: type[VideoModel]) -> None:
    name = model.__name__
    try:
        inspect.signature(model).bind({})
    except TypeError as error:
        message, hint = f"{name}.__init__ must take the config: {error}", "write `def __init__(self, config)`"
        raise ClassError(message, hint=hint, where=location_of(model.__init__)) from error
    if model.load is not Model.load:
        hint = "prepare the model in `__init__(self, config)`"
        raise ClassError(f"{name}.load is never called in a VideoModel", hint=hint, where=location_of(model.load))
    if model.start_session is VideoModel.start_session:
        hint = "define `def start_session(self)` that emits blocks until get_ctx().should_stop()"
        frames_method.raise_missing(model, "start_session", hint)
    try:
        inspect.signature(model.start_session).bind(None)
    except TypeError as error:
        message = f"{name}.start_session is called without arguments: {error}"
        hint = "write `def start_session(self)`; the session is get_ctx()"
        raise ClassError(message, hint=hint, where=location_of(model.start_session)) from error


def _check_init_and_load(model: type[Model]) -> None:
    """Check that the class can be called without arguments, and load() with the config."""
    name = model.__name__
    try:
        inspect.signature(model).bind()
    except TypeError as error:
        hint = "the class is called without arguments: read values from the config in load()"
        where = location_of(model.__init__) or location_of(model)
        raise ClassError(f"{name}.__init__: {error}", hint=hint, where=where) from error
    if inspect.iscoroutinefunction(model.load):
        message, hint = f"{name}.load is async; load() is called before the event loop starts", "leave out `async`; "
        raise ClassError(message, hint=hint + "asyncio.run(…) works inside it", where=location_of(model.load))
    if inspect.isgeneratorfunction(model.load):
        hint = "frames are made in inference() or run(); load() returns when the model is ready"
        raise ClassError(f"{name}.load yields, so nothing in it would run", hint=hint, where=location_of(model.load))
    try:
        inspect.signature(model.load).bind(None, {})
    except TypeError as error:
        message, hint = f"{name}.load must take the config: {error}", "write `def load(self, config)`"
        raise ClassError(message, hint=hint, where=location_of(model.load)) from error


def _check_frames_method(model: type[Model], name: str) -> None:
    """Check that the method that makes the frames can be called; load() may assign another later."""
    method = inspect.getattr_static(model, name, None)
    if not isinstance(method, FunctionType):
        return
    try:
        inspect.signature(method).bind(None)
    except TypeError as error:
        hint = "it is called without arguments: take values from self.state or from what load() kept"
        raise ClassError(f"{model.__name__}.{name}: {error}", hint=hint, where=location_of(method)) from error


STYLES = (
    Style(
        base=ReactorPipeline,
        frames_method="inference",
        check_class=_check_pipeline,
        check_finished=_check_inference,
        check_loaded=_check_inference_after_load,
        fits_two_batches=True,
    ),
    Style(base=ReactorModel, frames_method="run", check_class=_check_loop, check_finished=_check_run),
    Style(
        base=VideoModel,
        frames_method="start_session",
        check_class=_check_blocks,
        config_method="__init__",
        default_outputs=(BlockOutput,),
    ),
)

NO_MODEL_HINT = f"derive it from one of {', '.join(style.base.__name__ for style in STYLES)}"
