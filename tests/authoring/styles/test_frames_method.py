"""A class without the method that makes its frames is refused before anything is loaded."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime import InputState, Output, ReactorModel, ReactorPipeline, Video, VideoModel, connected, event
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.errors import ClassError

FRAME = np.zeros((4, 6, 3), np.uint8)


class Picture(Output):
    main_video: Video


class Pipeline(ReactorPipeline):
    state: InputState
    output: Picture


class Loop(ReactorModel):
    output: Picture


def check(model: type[Model]) -> None:
    Contract.of(model).style.check_finished(model)


def steps() -> Iterator[Any]:
    yield FRAME


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return function(*arguments)

    return call


class Misspelt(Pipeline):
    def load(self, config: dict[str, Any]) -> None: ...

    def inferense(self) -> Iterator[Any]:  # here
        yield FRAME


class OfAnotherStyle(Pipeline):
    def load(self, config: dict[str, Any]) -> None: ...

    def generate(self) -> Iterator[Any]:  # here
        yield FRAME


class Empty(Pipeline):  # here
    def load(self, config: dict[str, Any]) -> None: ...


class EmptyLoop(Loop):  # here
    def load(self, config: dict[str, Any]) -> None: ...


class MisspeltLoop(Loop):
    @connected
    def greet(self) -> None: ...

    async def runs(self) -> None:  # here
        await self.emit(FRAME)


class MisspeltBlocks(VideoModel):
    def start_sesion(self) -> None: ...  # here


@pytest.mark.parametrize(
    ("model", "message", "hint"),
    [
        (Misspelt, "Misspelt has no inference()", "did you mean inference() by inferense()?"),
        (OfAnotherStyle, "OfAnotherStyle has no inference()", "did you mean inference() by generate()?"),
        (Empty, "Empty has no inference()", "define `def inference(self)` that yields frames"),
        (EmptyLoop, "EmptyLoop has no run()", "define `async def run(self)` that emits frames"),
        (MisspeltLoop, "MisspeltLoop has no run()", "did you mean run() by runs()?"),
        (MisspeltBlocks, "MisspeltBlocks has no start_session()", "did you mean start_session() by start_sesion()?"),
    ],
)
def test_a_class_without_its_frames_method_is_refused(model: type[Model], message: str, hint: str) -> None:
    with pytest.raises(ClassError) as caught:
        check(model)
    assert caught.value.message == message
    assert caught.value.hint.startswith(hint)
    assert caught.value.where is not None
    assert caught.value.where.text.endswith("# here")


class Returns(Pipeline):
    def inference(self) -> Any:
        return Picture(main_video=FRAME)  # here


class ReturnsLocal(Pipeline):
    def inference(self) -> Any:
        frame = np.stack([FRAME, FRAME]).astype(np.uint8)
        return frame  # noqa: RET504  # here


class ReturnsInLoop(Pipeline):
    def inference(self) -> Any:
        while True:
            return {"main_video": FRAME}  # here


class ReturnsAsync(Pipeline):
    async def inference(self) -> Any:  # type: ignore[override]
        return FRAME  # here


class ReturnsNothing(Pipeline):
    def inference(self) -> Any:  # here
        steps()


@pytest.mark.parametrize("model", [Returns, ReturnsLocal, ReturnsInLoop, ReturnsAsync, ReturnsNothing])
def test_an_inference_that_never_yields_is_refused_at_its_return(model: type[Model]) -> None:
    with pytest.raises(ClassError) as caught:
        check(model)
    assert caught.value.message == f"{model.__name__}.inference() never yields"
    assert caught.value.where is not None
    assert caught.value.where.text.endswith("# here")


class Yields(Pipeline):
    async def inference(self) -> AsyncIterator[Any]:
        yield FRAME


class Decorated(Pipeline):
    @logged
    def inference(self) -> Iterator[Any]:
        yield FRAME


class ReturnsGenerator(Pipeline):
    def inference(self) -> Iterator[Any]:
        made = steps()
        return made  # noqa: RET504  (as authors write it)


class ReturnsOneOfTwo(Pipeline):
    def inference(self) -> Any:
        made: Any = np.zeros(3)
        made = self.wrap(made)
        return made  # noqa: RET504  (as authors write it)

    def wrap(self, frames: Any) -> Iterator[Any]:
        yield from frames


class ReturnsOwnGenerator(Pipeline):
    def inference(self) -> Iterator[Any]:
        return self.frames()

    def frames(self) -> Iterator[Any]:
        yield FRAME


class ReturnsExpression(Pipeline):
    def inference(self) -> Iterator[Any]:
        def nested() -> int:
            return 1

        return (FRAME for _ in range(nested()))


class Assigned(Pipeline):
    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002  (the signature authors write)
        self.inference = steps  # type: ignore[method-assign]


class AssignedByName(Pipeline):
    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002  (the signature authors write)
        setattr(self, "inference", steps)  # noqa: B010


class InBody(Pipeline):
    inference = staticmethod(steps)


class Inherits(Yields):
    """Define nothing."""


class HandlersAlone(Loop):
    @event(name="show")
    async def show(self) -> None:
        await self.emit(FRAME)


class WithOwnMethods(HandlersAlone):
    @event(name="show_two")
    def show_two(self) -> None:
        self.runs()

    def runs(self) -> None: ...


RIGHT = [
    Yields,
    Decorated,
    ReturnsGenerator,
    ReturnsOneOfTwo,
    ReturnsOwnGenerator,
    ReturnsExpression,
    Assigned,
    AssignedByName,
    InBody,
]


@pytest.mark.parametrize("model", [*RIGHT, Inherits, HandlersAlone, WithOwnMethods])
def test_a_class_that_may_be_right_passes(model: type[Model]) -> None:
    check(model)


def test_a_class_without_source_passes() -> None:
    namespace: dict[str, Any] = {"Pipeline": Pipeline}
    exec("class NoSource(Pipeline):\n def load(self, config): self.inference = 1", namespace)
    check(namespace["NoSource"])
