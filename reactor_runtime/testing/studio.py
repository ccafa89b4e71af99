"""A model on its own: the engine that serves it, on a clock that never makes anybody wait."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import itertools
import json
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.jsonable import to_json
from reactor_runtime.authoring.messages import CommandError
from reactor_runtime.authoring.model import Model
from reactor_runtime.authoring.upload import UploadedFile
from reactor_runtime.engine.author import config_of, construct
from reactor_runtime.engine.dispatch import CheckedEvent, check_event
from reactor_runtime.engine.host import Host
from reactor_runtime.engine.inputs.uploads import SessionUploads
from reactor_runtime.errors import ReactorError
from reactor_runtime.ipc.messages import ClientEvent, EventRefused, Shutdown, StartSession, StopSession
from reactor_runtime.testing.clock import FakeClock
from reactor_runtime.testing.loop import FakeLoop
from reactor_runtime.testing.recorder import Frame, Message, OutputRecorder
from reactor_runtime.testing.turns import FakeTurns
from reactor_runtime.testing.wait import PATIENCE_S, Wait, refuse_loop

M = TypeVar("M", bound=Model)

CLIENT = "c-1"
NO_FRAME = "the model made no frame in {:g} s of its time"
NO_FRAME_HINT = "a model that waits for an event first is fine; one that does not should yield, or emit, by then"
JOINED_AT_UNIX = 0.0


class Studio(Generic[M]):
    """Serve a model to one client, whose part you play; the same engine does it that `reactor run` starts.

    Making one loads the model. Time stands still except in `run()` and where a call has to wait for the model; a
    pipeline makes steps in `run()` alone. What the author's code raises is raised by the call that led to it. Runs an
    event loop of its own, so it can't be used inside one: RuntimeError.
    """

    def __init__(self, model: type[M], config: dict[str, Any] | None = None, *, project: Path | None = None) -> None:
        project = project or Path.cwd()
        refuse_loop(type(self).__name__)
        self.clock = FakeClock()
        self._contract = Contract.of(model)
        self._recorder = OutputRecorder(self.clock)
        config = config_of(model, copy.deepcopy(config or {}), project)
        turns = FakeTurns(self.clock)
        self.model = cast("M", construct(model, config))
        self._host = Host(
            self.model,
            self._contract,
            clock=self.clock,
            sink=self._recorder,
            project=project,
            failed=self._recorder.failures.append,
            turns=turns,
            seconds=time.perf_counter,
        )
        self._recorder.credit = self._host.receive
        self._host.hold_steps(True)
        self.model.load(config)
        self._session = ""
        self._numbers = itertools.count(1)
        self._loop = FakeLoop(self.clock, turns)
        self._wait = Wait(type(self).__name__, clock=self.clock, loop=self._loop, recorder=self._recorder)
        self._serving = self._loop.create_task(self._host.serve())
        self._loop.go_on(lambda: True, until=self.clock.now())  # run() of a ReactorModel begins before any client comes
        self._close = weakref.finalize(self, _close, self._loop, self._host, self._serving)
        try:
            self._wait.raise_failure()
        except BaseException:  # run() ended before any client came: nothing holds this studio to close it
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End session and model, and with them everything that was started; may be called twice."""
        if self._close.alive:
            refuse_loop(type(self).__name__)
            self._close()

    @property
    def frames(self) -> list[Frame]:
        """What the model handed over so far, oldest first, without what was flushed before it was due."""
        return list(self._recorder.frames)

    @property
    def messages(self) -> list[Message]:
        """What the model said so far, oldest first; replies are what `send_event` returns."""
        return list(self._recorder.messages)

    @property
    def suspicions(self) -> list[str]:
        """What the model's first step made that is probably not meant, as `reactor check --step` reports it."""
        return [str(each) for each in self._recorder.suspicions]

    def clear(self) -> None:
        """Forget the frames and messages so far, in a long run."""
        self._recorder.frames.clear()
        self._recorder.messages.clear()

    def connect(self) -> None:
        """Let a client come; returns when `@connected` has finished, and raises what it raised."""
        self._wait.need_open()
        if not self._recorder.ended:
            raise RuntimeError("a client is connected already; disconnect() it first")
        self._session = f"s-{next(self._numbers)}"
        self._recorder.ended = False
        self._host.receive(StartSession(self._session, CLIENT, JOINED_AT_UNIX))
        ready = self._loop.create_task(self._host.connected.wait())
        try:
            self._wait.until(lambda: ready.done() or self._recorder.ended, "@connected to finish")
        finally:
            ready.cancel()

    def disconnect(self) -> None:
        """Let the client go; returns when `@disconnected` has finished, and raises what it raised. May come twice."""
        if self._recorder.ended:
            return
        self._host.receive(StopSession(self._session))
        self._wait.until(lambda: self._recorder.ended, "the session to end")

    def send_event(self, event: str, /, **data: Any) -> Message | None:
        """Do what a client does that sends an event: handle it, after the step that may be going on.

        Bytes and an UploadedFile are uploaded first. Returns the reply, if the handler returned one. Raises ValueError
        for an event the model hasn't or a value it doesn't take, saying why, CommandError and anything else as the
        handler raised it.
        """
        self._need_session()
        ticket = next(self._numbers)
        data = {name: _sent(value, self._host.uploads) for name, value in data.items()}
        sent = ClientEvent(self._session, CLIENT, ticket, event, json.dumps(_to_json(event, data)))
        checked = check_event(self._contract.events, sent, self._host.uploads)
        if not isinstance(checked, CheckedEvent):
            raise ValueError(checked.message)
        answers = self._recorder.answers
        self._host.receive(checked)
        self._wait.until(lambda: ticket in answers or self._recorder.ended, f"the handler of {event} to finish")
        answer = answers.pop(ticket, None)
        if isinstance(answer, EventRefused):
            raise CommandError(answer.code, answer.message)
        return Message(*answer.reply) if answer is not None and answer.reply is not None else None

    def push_media(self, track: str, array: object) -> None:
        """Do what a client does that sends pictures or sound: they wait in the buffer of an input track.

        Takes a frame, a batch, whose frames come one after the other, or sound, as an output track does. Raises
        ValueError for an unknown track and for what no client could send, naming the fix.
        """
        self._need_session()
        self._host.inputs.push_array(track, array)

    def run(self, seconds: float) -> None:
        """Let time pass, with the model stepping and frames being shown when they are due."""
        self._host.hold_steps(False)
        try:
            self._wait.lasting(seconds)
        finally:
            self._host.hold_steps(True)

    def make_first_frame(self, patience_s: float) -> list[ReactorError]:
        """Let time pass until the first frame is made, and return what is suspicious of it."""
        self._need_session()
        recorder = self._recorder
        self._host.hold_steps(False)
        try:
            done = self._wait.advance(lambda: bool(recorder.frames or recorder.failures), patience_s)
        finally:
            self._host.hold_steps(True)
        self._wait.raise_failure()
        return list(recorder.suspicions) if done else [ReactorError(NO_FRAME.format(patience_s), hint=NO_FRAME_HINT)]

    def _need_session(self) -> None:
        if self._recorder.ended:
            raise RuntimeError("no client is connected; call connect() first")


def _sent(value: object, uploads: SessionUploads) -> object:
    """Upload what is a file in a client's values."""
    match value:
        case bytes() | bytearray():
            return _sent(UploadedFile(bytes(value)), uploads)
        case UploadedFile():
            uploads.add(value)
        case list() | tuple():
            return [_sent(item, uploads) for item in value]
        case dict():
            return {key: _sent(item, uploads) for key, item in value.items()}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: _sent(getattr(value, field.name), uploads) for field in dataclasses.fields(value)}
    return value


def _to_json(event: str, data: dict[str, Any]) -> Any:
    """Write a client's values as JSON has them: an Enum as its value, an array as lists."""
    try:
        return to_json(data, event)
    except TypeError as error:
        raise ValueError(str(error)) from error


def _close(loop: FakeLoop, host: Host, serving: asyncio.Task[None]) -> None:
    """End the engine, then all the author's code left running, and the loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        host.receive(Shutdown())
        until = loop.time() + PATIENCE_S
        loop.go_on(serving.done, until=until)
        loop.end(until=until)
    else:  # dropped unclosed, and collected while another loop runs: nothing of it can run any more
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio does with those it gives up
        loop.close()
