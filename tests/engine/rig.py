"""The engine without its process: one model driven on a clock that is moved by hand, its output collected."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.events.messages import ClientInfo
from reactor_runtime.authoring.model_config import model_config
from reactor_runtime.authoring.styles.async_model import AsyncModel
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.styles.pipeline import ReactorPipeline
from reactor_runtime.config import GivenConfig
from reactor_runtime.engine.author import run_load
from reactor_runtime.engine.batch import Batch
from reactor_runtime.engine.dispatch import CheckedEvent, Dispatcher, check_event
from reactor_runtime.engine.drivers.driver import DriverParts
from reactor_runtime.engine.drivers.registry import make_driver
from reactor_runtime.engine.drivers.threads import UntrackedThreads
from reactor_runtime.engine.inputs.inputs import Inputs, MakeBuffer, make_input_buffer
from reactor_runtime.engine.output.emitter import Emitter
from reactor_runtime.engine.runtime import ModelRuntime
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.engine.session import ModelSession
from reactor_runtime.engine.session_state import SessionState
from reactor_runtime.errors import ReactorError
from reactor_runtime.interface import InputField, InputState, Output, Video
from reactor_runtime.ipc import messages as ipc
from tests.fakes import CollectingSink, FakeClock, settle
from tests.timeouts import TIMEOUT_S

ENCODE_S = 0.002


class Picture(Output):
    video: Video


class Bright(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0)
    prompt: str = InputField(default="")


def frame(red: int, height: int = 2, width: int = 2) -> NDArray[np.uint8]:
    return np.full((height, width, 3), red, np.uint8)


def batch(*reds: int) -> NDArray[np.uint8]:
    return np.stack([frame(red) for red in reds])


def served_model(model: type[Model]) -> ServedModel:
    """Make a model that is not loaded, as the parts of the engine get it."""
    contract = Contract.of(model)
    return ServedModel(Version(contract.style.make(model, {}), contract, {}))


class Rig:
    """Run sessions on a model; bundles are shown, and their credits come back, when they are due."""

    def __init__(
        self,
        model: type[Model],
        *,
        config: dict[str, Any] | None = None,
        make_buffer: MakeBuffer = make_input_buffer,
    ) -> None:
        self.clock = FakeClock()
        self.warnings: list[ReactorError] = []
        self.sink = CollectingSink(self.clock)
        self.contract = Contract.of(model)
        self.model: Any = self.contract.style.make(model, config or {})  # of whatever attributes the test gave it
        served = ServedModel(Version(self.model, self.contract, config or {}))
        self.batch = Batch.of(served, self.clock)
        self.emitter = Emitter(served, self.clock, self.sink, frames_in=lambda: self.inputs.frame_counts)
        state = SessionState(served, self.sink.send)
        self.runtime = ModelRuntime(self.emitter, self.sink, state)
        if isinstance(self.model, AsyncModel):
            self.model._reactor_runtime = self.runtime
        self.inputs = Inputs(
            self.model,
            self.contract,
            self.clock,
            on_available=lambda: self.session.notify_input(),
            on_bad=lambda *_: None,
            on_counts=self.sink.send,
            warn=self.warnings.append,
            make_buffer=make_buffer,
        )
        run_load(self.model, model_config(model, GivenConfig(config or {}), Path()))
        if self.contract.has_seats:
            self.model.seats = state.seats
        loaded = self.contract.with_made_outputs(self.model)
        if loaded is not self.contract:
            served.version = replace(served.version, contract=loaded)
            self.emitter.on_new_version()
        parts = DriverParts(served, self.emitter, self.inputs, self.clock, self.sink, state, UntrackedThreads())
        self.driver = make_driver(parts)
        self.session: ModelSession
        self.dispatcher: Dispatcher
        self.serving: asyncio.Task[None]
        self._sessions = 0
        self._played = 0

    def start(self, *, stepped: bool = False) -> None:
        """Begin a session; it goes on in a task while the test advances the clock."""
        self._sessions += 1
        client = ClientInfo("c-1", 0.0, _send=lambda message: self.runtime.send(message, "c-1"))
        self.session = ModelSession(
            f"s-{self._sessions}",
            client,
            self.clock,
            started_at_unix=1e9,
            batch=self.batch,
            seats=self.contract.seats,
            stepped=stepped,
        )
        self.runtime.begin_session(self.session)
        self.dispatcher = self.driver.dispatcher(self.session)
        self.serving = asyncio.create_task(
            self.driver.serve_session(self.session, self.dispatcher, self.runtime.connected)
        )

    async def stop(self) -> None:
        """End the session as the controller's leaving does; raises what ended it before."""
        self.driver.stop_session(self.session)
        await asyncio.wait_for(self.serving, TIMEOUT_S)

    async def failure(self) -> BaseException:
        """Wait for the session to end by itself and return why."""
        (error,) = await asyncio.wait_for(asyncio.gather(self.serving, return_exceptions=True), TIMEOUT_S)
        assert isinstance(error, BaseException)
        return error

    @contextlib.asynccontextmanager
    async def running(self, *, stepped: bool = False) -> AsyncIterator[None]:
        """Serve one session for the duration of the block."""
        self.start(stepped=stepped)
        await settle()
        yield
        await self.stop()

    def event(self, name: str, ticket: int | None = None, _seat: int = 0, _client: str = "c-1", **data: Any) -> None:
        """Do what an event of the client in a seat does, checks included."""
        event = ipc.ClientEvent(self.session.id, _client, ticket, name, json.dumps(data), self.clock.now(), _seat)
        checked = check_event(self.contract.events, event)
        if isinstance(checked, CheckedEvent):
            self.dispatcher.accept(checked)
        else:
            self.sink.send(checked)

    async def play(self, seconds: float, *, grain_s: float = 0.002) -> None:
        """Pass time, and show bundles when they are due and encoded."""
        end = self.clock.now() + seconds
        await settle()
        while self.clock.now() < end - 1e-9:
            await self.clock.advance(min(grain_s, end - self.clock.now()))
            self._show_what_is_due()
            await settle()

    async def credit(self, count: int = 1) -> None:
        """Return the oldest credits, whether they are due or not."""
        for _ in range(count):
            self._give_credit()
        await settle()

    def _show_what_is_due(self) -> None:
        while self._played < len(self.sink.shown) and self.sink.shown[self._played].bundle.due <= self.clock.now():
            self._give_credit()

    def _give_credit(self) -> None:
        shown = self.sink.shown[self._played]
        self._played += 1
        self.emitter.credit(ipc.Credit(shown.bundle.session, shown.bundle.number, shown.at + ENCODE_S))


class Plain(ReactorPipeline):
    """The least a model needs; each test writes its own inference."""

    state: Bright
    output: Picture
    fps = 10

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002  (the signature authors write)
        self.log: list[Any] = []
        self.rig: Rig  # to let time pass within a step


def rig_of(model: type[Plain]) -> Rig:
    rig = Rig(model)
    assert isinstance(rig.model, Plain)
    rig.model.rig = rig
    return rig


def log(rig: Rig) -> list[Any]:
    assert isinstance(rig.model, Plain)
    return rig.model.log


def iter_frames(red: int) -> Iterator[Any]:
    while True:
        yield frame(red)
