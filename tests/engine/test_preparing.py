"""The progress that a model reports before the first frame of a session."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.app import ReactorApp
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.styles.reactor_model import ReactorModel
from reactor_runtime.engine.host import Host
from reactor_runtime.engine.host_parts import HostParts, Outlet
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.interface import ReactorPipeline, VideoModel, get_ctx
from reactor_runtime.ipc.messages import Preparing, Shutdown, StartSession, StopSession
from tests.engine.blocks import until
from tests.engine.rig import Bright, Picture, batch, frame
from tests.fakes import CollectingSink, FakeClock, settle

SENT = [Preparing("s-1", "reading", 0.25), Preparing("s-1", "", 0.5), Preparing("s-1")]


def prepare(model: Model) -> None:
    model.progress(0.25, " reading\n")
    model.progress(0.2501, "reading")
    model.progress(0.5)


class Pipeline(ReactorPipeline):
    state: Bright
    output: Picture

    def inference(self) -> Iterator[Any]:
        prepare(self)
        while True:
            yield frame(1)
            self.progress(0.9, "too late")


class Loop(ReactorModel):
    output: Picture

    async def run(self) -> None:
        await self.connected.wait()
        prepare(self)
        while True:
            await self.emit(frame(1))
            self.progress(0.9, "too late")


class App(ReactorApp):
    output: Picture

    def generate(self, _: object) -> Any:
        if not self.steps:
            prepare(self)
        else:
            self.progress(0.9, "too late")
        self.steps += 1
        return Picture(video=frame(1))

    steps = 0


class Blocks(VideoModel):
    def __init__(self, config: dict[str, Any]) -> None: ...

    def start_session(self) -> None:
        prepare(self)
        while not get_ctx().should_stop():
            get_ctx().emit_block(batch(1, 1))
            self.progress(0.9, "too late")


@contextlib.asynccontextmanager
async def hosted(kind: type[Model], project: Path) -> AsyncIterator[tuple[Host, CollectingSink]]:
    """Serve a model without its process."""
    clock = FakeClock()
    contract = Contract.of(kind)
    sink = CollectingSink(clock)
    host = Host(
        ServedModel(Version(contract.style.make(kind, {}), contract, {})),
        [Outlet(sink=sink)],
        HostParts(clock=clock, project=project),
    )
    serving = asyncio.create_task(host.serve())
    yield host, sink
    host.receive_message(Shutdown())
    await serving


@pytest.mark.parametrize("kind", [Pipeline, Loop, App, Blocks])
async def test_progress_is_sent_until_the_first_frame_in_every_style(kind: type[Model], tmp_path: Path) -> None:
    async with hosted(kind, tmp_path) as (host, sink):
        host.receive_message(StartSession("s-1", "c-1", 0.0))
        await until(lambda: len(sink.shown) > 1)
        assert sink.of(Preparing) == SENT
        assert sink.everything.index(SENT[-1]) < sink.everything.index(sink.shown[0].bundle)
        host.receive_message(StopSession("s-1"))
        await settle()


async def test_a_model_that_reports_nothing_sends_nothing_and_without_a_session_nothing_is_sent(tmp_path: Path) -> None:
    class Silent(Pipeline):
        def inference(self) -> Iterator[Any]:
            while True:
                yield frame(1)

    async with hosted(Silent, tmp_path) as (host, sink):
        host.served.model.progress(0.5, "for nobody")
        host.receive_message(StartSession("s-1", "c-1", 0.0))
        await until(lambda: sink.shown)
        host.receive_message(StopSession("s-1"))
        await settle()
        host.served.model.progress(0.5, "for nobody")
        assert sink.of(Preparing) == []
