"""The host: sessions one after the other, whatever the author's code raises."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.engine.host import Host
from reactor_runtime.engine.host_parts import HostParts, Outlet
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.engine.session_host import LONGEST_END_S
from reactor_runtime.interface import ReactorPipeline
from reactor_runtime.ipc.messages import Ended, Grace, Shutdown, StartSession, StopSession
from tests.engine.rig import Bright, Picture, frame
from tests.fakes import CollectingSink, FakeClock, settle


class Panic(BaseException):
    """Stands for the exception of a native library."""


class Raising(ReactorPipeline):
    state: Bright
    output: Picture
    kind: type[BaseException] | BaseException | None = None

    def inference(self) -> Iterator[Any]:
        yield frame(1)
        if self.kind is not None:
            raise self.kind
        while True:
            yield frame(2)


@pytest.mark.parametrize("kind", [Panic, asyncio.CancelledError, KeyboardInterrupt, GeneratorExit, SystemExit])
async def test_whatever_is_raised_ends_the_session_and_the_next_is_served(
    kind: type[BaseException], tmp_path: Path
) -> None:
    clock, model = FakeClock(), Raising()
    sink = CollectingSink(clock)
    host = Host(
        ServedModel(Version(model, Contract.of(Raising), {})),
        [Outlet(sink=sink)],
        HostParts(clock=clock, project=tmp_path),
    )
    serving = asyncio.create_task(host.serve())
    model.kind = kind
    host.receive_message(StartSession("s-1", "c-1", 0.0))
    await settle()
    await clock.advance(1.0)
    await settle()
    (ended,) = sink.of(Ended)
    assert ended.error is not None
    assert kind.__name__ in ended.error["message"]
    model.kind = None
    host.receive_message(StartSession("s-2", "c-2", 0.0))
    await settle()
    host.receive_message(StopSession("s-2"))
    await settle()
    assert sink.of(Ended)[-1] == Ended("s-2", None)
    host.receive_message(Shutdown())
    await serving


async def test_the_reason_that_the_model_gives_is_sent_with_the_end(tmp_path: Path) -> None:
    clock, model = FakeClock(), Raising()
    model.kind = None
    sink = CollectingSink(clock)
    host = Host(
        ServedModel(Version(model, Contract.of(Raising), {})),
        [Outlet(sink=sink)],
        HostParts(clock=clock, project=tmp_path),
    )
    serving = asyncio.create_task(host.serve())
    for name, reason in (("s-1", "match over"), ("s-2", "")):
        host.receive_message(StartSession(name, "c-1", 0.0))
        await settle()
        model.end(reason)
        model.end("later")
        await settle()
        await clock.advance(LONGEST_END_S)
        await settle()
    assert sink.of(Ended) == [Ended("s-1", None, "match over"), Ended("s-2", None, "later")]
    host.receive_message(Shutdown())
    await serving


class FewRanks:
    """The ranks of a runner that `load()` has started."""

    module = "workers"

    def __init__(self) -> None:
        self.has_ended = False

    def shutdown(self) -> None:
        self.has_ended = True


async def test_a_runner_makes_the_end_of_the_process_longer_whenever_it_starts(tmp_path: Path) -> None:
    clock, ranks = FakeClock(), FewRanks()
    sink = CollectingSink(clock)
    host = Host(
        ServedModel(Version(Raising(), Contract.of(Raising), {})),
        [Outlet(sink=sink)],
        HostParts(clock=clock, project=tmp_path),
    )
    serving = asyncio.create_task(host.serve())
    await settle()
    host.runners.on_runner_start(ranks)
    assert sink.of(Grace) == [Grace(30.0)]
    assert host.runners.modules == {"workers"}
    host.receive_message(Shutdown())
    await serving
    assert ranks.has_ended
