"""The authoring styles: what differs between generator, loop, step and block models before they are served.

The engine has a driver for each style (`engine.drivers.registry`). A further style is one more `Style` in `STYLES` and
its driver.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal

from reactor_runtime.authoring.code.source import location_of
from reactor_runtime.authoring.events.events import runs_async
from reactor_runtime.authoring.events.handlers import handlers_of
from reactor_runtime.authoring.styles import frames_method
from reactor_runtime.authoring.styles.app import ReactorApp
from reactor_runtime.authoring.styles.block import BlockOutput, VideoModel
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.styles.pipeline import ReactorPipeline
from reactor_runtime.authoring.styles.reactor_model import ReactorModel
from reactor_runtime.authoring.tracks.discovery import is_assigned_by_author
from reactor_runtime.authoring.tracks.tracks import Output
from reactor_runtime.errors import ClassError, LoadError


def _accept(_: object) -> None:
    """Check nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """Describe one way to write a model; the checks raise an error at the author's line.

    `check_class` checks the signatures that the runtime calls; `check_finished` that the class has its frames method or
    code that may assign one; `check_loaded` that the frames method exists after load(). `config_method` gets the
    config. `fits` decides about classes in place of `base`. `fps` and `buffer_size` apply if the author assigns none;
    with `fits_two_batches` the queue has room for two batches then, with `fits_a_batch` always for one. `has_steps`:
    the driver decides when the model makes a step; with `may_skip_steps` a step without a frame is usual. With
    `follows_clients` the sessions of all models of the style have the rules of `Contract.follows_clients`.
    """

    base: type[Model]
    frames_method: str
    check_class: Callable[[Any], None]
    fits: Callable[[type], bool] | None = None
    check_finished: Callable[[type[Model]], None] = _accept
    check_loaded: Callable[[Model], None] = _accept
    config_method: Literal["load", "__init__"] = "load"
    default_outputs: tuple[type[Output], ...] = ()
    fps: float | None = None
    buffer_size: int = 4
    fits_two_batches: bool = False
    fits_a_batch: bool = False
    has_steps: bool = False
    may_skip_steps: bool = False
    follows_clients: bool = False

    def accepts(self, model: type) -> bool:
        """Return whether a class is of this style."""
        return issubclass(model, self.base) if self.fits is None else self.fits(model)

    def assigned(self, model: type, name: str) -> Any:
        """Return what a class and its parents, without base classes, assign to a class attribute; None for nothing."""
        owners = [owner for owner in model.__mro__ if owner not in (*self.base.__mro__, ReactorModel)]
        return next((vars(owner)[name] for owner in owners if name in vars(owner)), None)

    def make(self, model: type[Model], config: dict[str, Any]) -> Model:
        """Call the class, with the config where `__init__` prepares the model."""
        make: Callable[..., Model] = model
        # Its `__init__` may take values out of it.
        return make(deepcopy(config)) if self.config_method == "__init__" else make()

    @staticmethod
    def without_steps(model: type) -> str:
        """Return the message for a class that is asked for a step, and whose style has none."""
        stepped = dict.fromkeys(style.base.__name__ for style in STYLES if style.has_steps)
        return f"{model.__name__} has no steps, only a {' or '.join(stepped)} has"


def style_of(model: type) -> Style | None:
    """Return the style of a class, None for a class of no style."""
    return next((style for style in STYLES if style.accepts(model)), None)


NO_INFERENCE_HINT = "define `def inference(self)` that yields frames, or assign self.inference in load()"


def _check_pipeline(model: type[ReactorPipeline]) -> None:
    _check_init_and_load(model)
    _check_frames_method(model, "inference")


def _has_batch(model: type) -> bool:
    """Return whether a pipeline makes the steps of all sessions in one generator, `batch(self, sessions)`."""
    method = inspect.getattr_static(model, "batch", None) if issubclass(model, ReactorPipeline) else None
    if not isinstance(method, FunctionType) or not inspect.isgeneratorfunction(method):
        return False
    return list(inspect.signature(method).parameters)[1:] == ["sessions"]


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


def _is_app_loop(model: type) -> bool:
    """Return whether a class is a loop by its `run` alone, not by ReactorModel, its base class."""
    return issubclass(model, ReactorApp) and not issubclass(model, ReactorModel) and _defines(model, "run")


def _is_loop(model: type) -> bool:
    """Return whether a ReactorModel is a loop: it has `run`, or no `generate` for steps."""
    return issubclass(model, ReactorModel) and (_defines(model, "run") or not _has_generate(model))


def _has_generate(model: type[ReactorModel]) -> bool:
    """Return whether a class defines a `generate` for steps, not one that handlers call."""
    method = inspect.getattr_static(model, "generate")
    is_plain = isinstance(method, FunctionType) and not runs_async(method) and not _is_generator(method)
    return is_plain and _defines(model, "generate")


def _defines(model: type, method: str) -> bool:
    """Return whether an author's class has a method; the handler of an event may have its name too."""
    return is_assigned_by_author(model, method) and method not in handlers_of(model)


def _is_generator(method: FunctionType) -> bool:
    return inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method)


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


def _check_app(model: type[ReactorApp]) -> None:
    _check_init_and_load(model)
    for name, argument in (("process_input", ""), ("generate", "input"), ("process_output", "outcome")):
        method = inspect.getattr_static(model, name, None)
        if isinstance(method, FunctionType):
            _check_part_of_step(method, f"{model.__name__}.{name}", argument, is_async=name != "generate")


def _check_part_of_step(method: FunctionType, name: str, argument: str, *, is_async: bool) -> None:
    """Check that a part of a step is sync or async as it is called, and takes its one argument, "" for none."""
    written = f"{'async ' if is_async else ''}def {method.__name__}(self{', ' if argument else ''}{argument})"
    wrong = ""
    if _is_generator(method):
        wrong = "yields: it returns the result of one step"
    elif runs_async(method) != is_async:
        wrong = "is not async" if is_async else "is async, but takes the time of the step: make it a plain def"
    if wrong:
        raise ClassError(f"{name} {wrong}", hint=f"write `{written}`", where=location_of(method))
    try:
        inspect.signature(method).bind(None, *([argument] if argument else []))
    except TypeError as error:
        takes = "one argument" if argument else "no argument"
        message = f"{name} is called with {takes}: {error}"
        raise ClassError(message, hint=f"write `{written}`", where=location_of(method)) from error


NO_GENERATE_HINT = "define `def generate(self, input)` that computes a step, or assign self.generate in load()"


def _check_generate(model: type[Model]) -> None:
    if not frames_method.defines(model, "generate"):
        frames_method.raise_missing(model, "generate", NO_GENERATE_HINT)


def _check_generate_after_load(model: Model) -> None:
    if "generate" not in vars(model) and getattr(type(model), "generate", None) is ReactorApp.generate:
        message = f"{type(model).__name__} has no generate() after load()"
        raise LoadError(message, hint=NO_GENERATE_HINT, where=location_of(type(model)))


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
    if inspect.isgeneratorfunction(model.load) or inspect.isasyncgenfunction(model.load):
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


# The queue of a chunk that comes as a whole, and of some frames more, where chunks are small.
APP_BUFFER = 10

STYLES = (
    Style(
        base=ReactorPipeline,
        fits=_has_batch,
        frames_method="batch",
        check_class=_check_init_and_load,
        fits_two_batches=True,
        has_steps=True,
    ),
    Style(
        base=ReactorPipeline,
        frames_method="inference",
        check_class=_check_pipeline,
        check_finished=_check_inference,
        check_loaded=_check_inference_after_load,
        fits_two_batches=True,
        has_steps=True,
    ),
    Style(
        base=ReactorModel,
        fits=_is_app_loop,
        frames_method="run",
        check_class=_check_loop,
        check_finished=_check_run,
        fps=30,
        buffer_size=APP_BUFFER,
        fits_a_batch=True,
        follows_clients=True,
    ),
    Style(
        base=ReactorModel,
        fits=_is_loop,
        frames_method="run",
        check_class=_check_loop,
        check_finished=_check_run,
        fps=30,
    ),
    Style(
        base=ReactorApp,
        frames_method="generate",
        check_class=_check_app,
        check_finished=_check_generate,
        check_loaded=_check_generate_after_load,
        buffer_size=APP_BUFFER,
        fits_a_batch=True,
        has_steps=True,
        may_skip_steps=True,
        follows_clients=True,
    ),
    Style(
        base=VideoModel,
        frames_method="start_session",
        check_class=_check_blocks,
        config_method="__init__",
        buffer_size=50,
        default_outputs=(BlockOutput,),
    ),
)

NO_MODEL_HINT = f"derive it from one of {', '.join(dict.fromkeys(style.base.__name__ for style in STYLES))}"
