"""Faults of the author's code in a session, and their effect on the session."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pytest

from reactor_runtime.interface import connected, disconnected
from tests.engine.rig import Bright, Plain, Rig, frame, iter_frames, log, rig_of


def started(model: type[Plain]) -> Rig:
    rig = rig_of(model)
    rig.start()
    return rig


async def test_the_hooks_come_in_pairs_around_the_generator() -> None:
    class Hooked(Plain):
        @connected
        def hello(self) -> None:
            self.log.append(("connected", self.connected.is_set()))

        def inference(self) -> Iterator[Any]:
            try:
                yield from iter_frames(1)
            finally:
                self.log.append("closed")

        @disconnected
        async def bye(self) -> None:
            self.log.append(("disconnected", self.connected.is_set(), self.state.brightness))

    rig = rig_of(Hooked)
    async with rig.running():
        await rig.play(0.2)
    assert log(rig) == [("connected", True), "closed", ("disconnected", False, 1.0)]


async def test_a_failing_connected_ends_the_session_after_disconnected() -> None:
    class Failing(Plain):
        @connected
        async def hello(self) -> None:
            raise ValueError("no")

        @disconnected
        def bye(self) -> None:
            self.log.append("bye")

        def inference(self) -> Iterator[Any]:
            return iter_frames(1)

    rig = started(Failing)
    assert str(await rig.failure()) == "no"
    assert (log(rig), rig.sink.shown) == (["bye"], [])


@pytest.mark.parametrize("kind", ["raises", "exits"])
async def test_a_failing_disconnected_is_logged_and_the_session_ends_well(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Plain):
        @disconnected
        def bye(self) -> None:
            if kind == "exits":
                sys.exit(1)
            raise ValueError("no")

        def inference(self) -> Iterator[Any]:
            return iter_frames(1)

    rig = rig_of(Failing)
    async with rig.running():
        await rig.play(0.1)
    assert "@disconnected failed" in caplog.text
    async with rig.running():
        await rig.play(0.1)


class Raising(Plain):
    def inference(self) -> Iterator[Any]:
        yield frame(1)
        raise KeyError("weights")


class RaisingAsync(Plain):
    async def inference(self) -> AsyncIterator[Any]:
        yield frame(1)
        raise KeyError("weights")


class Exiting(Plain):
    async def inference(self) -> AsyncIterator[Any]:
        yield frame(1)
        sys.exit(3)


class NoGenerator(Plain):
    def inference(self) -> Any:
        return [frame(1)]


class NoGeneratorAsync(Plain):
    async def inference(self) -> Any:  # type: ignore[override]  # what authors forget is the yield
        return frame(1)


@pytest.mark.parametrize(
    ("model", "kind", "words"),
    [
        (Raising, KeyError, "weights"),
        (RaisingAsync, KeyError, "weights"),
        (Exiting, RuntimeError, "sys.exit(3)"),
        (NoGenerator, TypeError, "inference() returned list, not a generator"),
        (NoGeneratorAsync, TypeError, "inference() returned coroutine, not a generator"),
    ],
)
async def test_an_exception_of_inference_ends_the_session(
    model: type[Plain], kind: type[Exception], words: str
) -> None:
    rig = started(model)
    await rig.play(0.5)
    error = await rig.failure()
    assert isinstance(error, kind)
    assert words in str(error)
    assert not rig.runtime.connected.is_set()


async def test_the_next_session_after_a_failure_is_served() -> None:
    rig = started(Raising)
    await rig.play(0.5)
    await rig.failure()
    rig.start()
    await rig.play(0.5)
    assert isinstance(await rig.failure(), KeyError)
    assert rig.sink.reds.count(1) == 2


class Floats(Plain):
    def inference(self) -> Iterator[Any]:
        yield frame(1).astype(np.float32)  # the line of the mistake


async def test_a_bad_frame_is_raised_at_the_yield_it_came_from() -> None:
    rig = started(Floats)
    await rig.play(0.1)
    error = await rig.failure()
    assert isinstance(error, TypeError)
    assert traceback.extract_tb(error.__traceback__)[-1].line is not None
    assert any("the line of the mistake" in (entry.line or "") for entry in traceback.extract_tb(error.__traceback__))


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
async def test_the_author_may_catch_it_there_and_go_on(asynchronous: bool) -> None:
    class Catching(Plain):
        def inference(self) -> Iterator[Any]:
            try:
                yield frame(1).astype(np.float32)
            except TypeError:
                yield frame(2)
            yield from iter_frames(3)

    class CatchingAsync(Plain):
        async def inference(self) -> AsyncIterator[Any]:
            try:
                yield frame(1).astype(np.float32)
            except TypeError:
                yield frame(2)
            while True:
                yield frame(3)

    rig = rig_of(CatchingAsync if asynchronous else Catching)
    async with rig.running():
        await rig.play(0.2)
        assert rig.sink.reds[:2] == [2, 3]


async def test_a_model_that_catches_for_ever_still_ends_with_its_session() -> None:
    class Stubborn(Plain):
        def inference(self) -> Iterator[Any]:
            while True:
                try:
                    yield None if self.state.prompt else "not a frame"
                except TypeError:
                    self.log.append("again")
                    if len(self.log) > 10_000:
                        raise

    rig = rig_of(Stubborn)
    async with rig.running():
        assert log(rig)
    assert len(log(rig)) < 10_000


async def test_a_state_that_cannot_be_sent_ends_the_session_with_the_field_s_name() -> None:
    class Odd(Plain):
        def inference(self) -> Iterator[Any]:
            self.state.prompt = object()  # type: ignore[assignment]
            yield frame(1)

    rig = started(Odd)
    await rig.play(0.1)
    error = await rig.failure()
    assert isinstance(error, TypeError)
    assert f"{Bright.__name__}.prompt" in str(error)


async def test_a_failure_while_the_generator_is_closed_is_the_session_s(caplog: pytest.LogCaptureFixture) -> None:
    class Clumsy(Plain):
        def inference(self) -> Iterator[Any]:
            try:
                yield from iter_frames(1)
            finally:
                raise ValueError("in finally")

    rig = started(Clumsy)
    await rig.play(0.1)
    rig.session.stop()
    assert str(await rig.failure()) == "in finally"
    assert not [record for record in caplog.records if record.levelno > logging.WARNING]
