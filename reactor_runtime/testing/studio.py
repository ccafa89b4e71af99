"""`Studio`: a model of any style with the engine that serves it, on a fake clock."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import logging
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.events.messages import CommandError
from reactor_runtime.authoring.model_config import model_config
from reactor_runtime.authoring.styles.model import Model, takes_path
from reactor_runtime.authoring.values.jsonable import to_json
from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.config import GivenConfig
from reactor_runtime.engine import dispatch, session_host
from reactor_runtime.engine.author import run_load
from reactor_runtime.engine.dispatch import HOST, CheckedEvent, check_event
from reactor_runtime.engine.host import Host
from reactor_runtime.engine.host_parts import HostParts, Outlet
from reactor_runtime.engine.inputs.inputs import MakeBuffer, make_input_buffer
from reactor_runtime.engine.inputs.uploads import SessionUploads
from reactor_runtime.engine.reload.modules import ProjectModules
from reactor_runtime.engine.reload.reloader import ReloadSettings
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.engine.session_log import SessionLogs
from reactor_runtime.errors import from_json
from reactor_runtime.ipc.messages import (
    ClientEvent,
    ClientJoined,
    ClientLeft,
    EventApplied,
    EventRefused,
    Reloaded,
    Shutdown,
    Started,
    StartSession,
    StopSession,
)
from reactor_runtime.testing.clock import THREAD_PATIENCE_S, FakeClock, FakeLoop, RunningThreads
from reactor_runtime.testing.recorder import Frame, Message, OutputRecorder
from reactor_runtime.testing.seats import SeatedClient, free_seat

M = TypeVar("M", bound=Model)

CLIENT = "c-1"
# Seconds of the fake clock; no test waits longer.
PATIENCE_S = 60.0
JOINED_AT_UNIX = 0.0


def log_no_failures() -> None:
    """Leave failures of the author's code out of the log, for a program that prints them itself."""
    for module in (dispatch, session_host):
        module.logger.setLevel(logging.CRITICAL)


class Studio(Generic[M]):
    """Serve a model to one client, which the caller plays, with the engine that `reactor run` starts.

    Constructing it loads the model. Time passes only in `run()` and where a call has to wait for the model; a pipeline
    makes steps only in `run()`. An exception of the author's code is raised by the call that caused it. A studio runs
    an event loop of its own; one that runs already, as in a notebook, waits during each call.
    """

    _thread_patience_s: ClassVar[float] = THREAD_PATIENCE_S
    # As in the server; see `Emitter`.
    _works_ahead: ClassVar[bool] = True
    _is_replay: ClassVar[bool] = False

    def __init__(
        self,
        model: type[M],
        config: GivenConfig | Mapping[str, Any] | Path | None = None,
        *,
        project: Path | None = None,
        logs: SessionLogs | None = None,
        make_buffer: MakeBuffer = make_input_buffer,
        contract: Contract | None = None,
    ) -> None:
        project = project or Path.cwd()
        # Clock, threads and loop need each other, as do recorder and host.
        self.clock = FakeClock(spend_in_thread=lambda seconds: threads.spend(seconds))
        threads = RunningThreads(self.clock, post=lambda callback: loop.call_soon_threadsafe(callback))
        self._contract = contract or Contract.of(model)
        self._recorder = OutputRecorder(
            self.clock,
            send_credit=lambda credit: host.receive_message(credit),
            on_started=_weakly(self._on_started),
        )
        self._written = _WrittenConfig(GivenConfig.of(config), takes_path=takes_path(model))
        given = self._written.given
        loaded = model_config(model, given, project)
        self._modules = ProjectModules(project)
        self._modules.add_imported(model.__module__)
        made = self._contract.style.make(model, loaded.values)
        self._host = host = Host(
            ServedModel(Version(made, self._contract, loaded.values)),
            [Outlet(sink=self._recorder, logs=logs)],
            HostParts(
                clock=self.clock,
                project=project,
                failed=self._recorder.failures.append,
                threads=threads,
                seconds=time.perf_counter,
                reload=ReloadSettings(
                    modules=self._modules,
                    place=(model.__module__, model.__qualname__),
                    config=given,
                ),
                on_step=_weakly(self._on_step),
                on_handled=_weakly(self._on_handled),
                make_buffer=make_buffer,
                works_ahead=self._works_ahead,
                is_replay=self._is_replay,
            ),
        )
        self._slot = host.slots[0]
        self._slot.pause_steps(True)
        run_load(self.model, loaded)
        host.serve_loaded()
        self._contract = self._slot.served.contract
        self._session = ""
        self._numbers = itertools.count(1)
        self._loop = loop = FakeLoop(self.clock, threads, patience_s=self._thread_patience_s)
        self._wait = _Wait(type(self).__name__, clock=self.clock, loop=self._loop, recorder=self._recorder)
        self._serving = self._loop.create_task(self._host.serve())
        # run() of a ReactorModel begins before a client connects.
        self._loop.run_until(lambda: True, until=self.clock.now())
        self._close = weakref.finalize(self, _close, self._loop, self._host, self._serving)
        try:
            self._wait.raise_failure()
        except BaseException:
            # The caller gets no studio to close.
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session, the model and everything that was started; may be called twice."""
        if self._close.alive:
            self._close()
        self._written.remove()

    def warm_up(self) -> None:
        """Make the `warmup` steps of the model, as `reactor run` does after `load()`; their output is discarded.

        Constructing the studio does not. Raises LoadError if a step fails.
        """
        self._wait.need_open()
        if not self._recorder.ended:
            raise RuntimeError("a client is connected, and the warm-up comes before clients; disconnect() it first")
        done = self._loop.create_task(self._host.warm_up())
        self._slot.pause_steps(False)
        try:
            self._wait.advance(done.done, PATIENCE_S)
        finally:
            self._slot.pause_steps(True)
        # The error of the warm-up has it as its cause.
        self._recorder.failures.clear()
        if not done.done():
            raise RuntimeError(f"the warm-up has not ended after {PATIENCE_S:g} s of the model's time")
        done.result()

    @property
    def model(self) -> M:
        """Return the model; another object after a `reload()` that had to load it again."""
        return cast("M", self._host.served.model)

    def reload(self, model: type[M] | None = None) -> None:
        """Apply the project's files as they are now, as a save does with `reactor run --reload`, or apply a class.

        Modules of the project that have changed, and those that import them, are executed again; the model keeps what
        it has stored, and the session its values. Raises the error of code that does not compile or import, or whose
        `load()` fails: the old code continues then, as it does if the first step of the new code raises.
        """
        self._wait.need_open()
        reloader, recorder = self._host.reloader, self._recorder
        assert reloader is not None, "it was made with the host"
        if model is None and not self._modules.sources:
            raise RuntimeError(
                f"{type(self.model).__name__} is in no file of the project: pass the new class to reload()"
            )
        recorder.reloaded = None
        self._modules.record()
        try:
            reloader.reload() if model is None else reloader.replace(model)
            self._wait.until(lambda: not reloader.pending or recorder.reloaded is not None, "the step to end")
        finally:
            self._modules.close()
        reloaded = cast("Reloaded | None", recorder.reloaded)
        if reloaded is not None and reloaded.error is not None:
            raise from_json(reloaded.error)
        if reloaded is not None and reloaded.status == "restarting":
            raise RuntimeError(f"{reloaded.reason}: make another {type(self).__name__}")

    @property
    def frames(self) -> list[Frame]:
        """Return the frames so far, oldest first, without those flushed before they were due."""
        return list(self._recorder.frames)

    @property
    def messages(self) -> list[Message]:
        """Return the messages so far, oldest first; `send_event` returns replies."""
        return list(self._recorder.messages)

    @property
    def warnings(self) -> list[str]:
        """Return the warnings of `reactor check --step` about the first step: output that is probably not meant."""
        return [str(each) for each in self._recorder.warnings]

    def clear(self) -> None:
        """Drop the frames and messages so far, in a long run."""
        self._recorder.frames.clear()
        self._recorder.messages.clear()

    def connect(self) -> None:
        """Connect the client; return when `@connected` has finished, and raise what it raised."""
        self._connect(StartSession(f"s-{next(self._numbers)}", CLIENT, JOINED_AT_UNIX))

    def _connect(self, start: StartSession) -> None:
        self._wait.need_open()
        if not self._recorder.ended:
            raise RuntimeError("a client is connected already; disconnect() it first")
        self._start(start)
        ready = self._loop.create_task(self._slot.runtime.connected.wait())
        try:
            self._wait.until(lambda: ready.done() or self._recorder.ended, "@connected to finish")
        finally:
            ready.cancel()

    def _start(self, start: StartSession) -> None:
        self._session = start.session
        self._recorder.ended = False
        self._host.receive_message(start)

    def join(self, seat: int | None = None) -> SeatedClient:
        """Connect another client of a session with several seats, in the first free one or the one of this number.

        Returns when it has its seat. Raises RuntimeError if the seat is not free.
        """
        self._need_session()
        contract = self._host.served.contract
        number = free_seat(seat, self._is_taken, contract.seats)
        client = f"{CLIENT}-{next(self._numbers)}"
        self._host.receive_message(ClientJoined(self._session, client, "controller", JOINED_AT_UNIX, number))
        self._wait.until(lambda: self._is_taken(number) or self._recorder.ended, f"seat {number} to be taken")
        return SeatedClient(self, client, number)

    def leave_seat(self, client: str, seat: int) -> None:
        """Disconnect a client that has joined; return when its seat is free."""
        if self._recorder.ended or not self._is_taken(seat):
            return
        self._host.receive_message(ClientLeft(self._session, client))
        self._wait.until(lambda: not self._is_taken(seat) or self._recorder.ended, f"seat {seat} to be free")

    def _is_taken(self, seat: int) -> bool:
        # Without several seats the client has the only one.
        return not self._host.served.contract.has_seats or self.model.seats[seat].taken

    def disconnect(self) -> None:
        """Disconnect the client; return when `@disconnected` has finished, and raise what it raised. Idempotent."""
        if self._recorder.ended:
            return
        if self._host.served.contract.follows_clients:
            # At the end of a session these models have no @disconnected for clients that are still connected.
            self._host.receive_message(ClientLeft(self._session, CLIENT))
        self._host.receive_message(StopSession(self._session))
        self._wait.until(lambda: self._recorder.ended, "the session to end")

    def send_event(self, event: str, /, **data: Any) -> Any:
        """Send an event as a client does, wait for its handler, which runs after the current step; return the reply.

        Bytes and an UploadedFile are uploaded first. Raises ValueError, with the reason, for an event that the model
        does not have or a value that it does not accept, and raises what the handler raised.
        """
        return self.send_event_of(CLIENT, HOST, event, data)

    def send_event_of(self, client: str, seat: int, event: str, data: dict[str, Any]) -> Any:
        """Send an event of the client in a seat, as `send_event` does."""
        self._need_session()
        ticket = next(self._numbers)
        data = {name: upload_values(value, self._slot.uploads) for name, value in data.items()}
        sent = ClientEvent(self._session, client, ticket, event, json.dumps(to_sent(event, data)), seat=seat)
        checked = check_event(self._host.served.contract.events, sent, self._slot.uploads)
        if not isinstance(checked, CheckedEvent):
            raise ValueError(checked.message)
        answers = self._recorder.answers
        self._host.receive_message(checked)
        self._wait.until(lambda: ticket in answers or self._recorder.ended, f"the handler of {event} to finish")
        answer = answers.pop(ticket, None)
        if isinstance(answer, EventRefused):
            raise CommandError(answer.code, answer.message)
        return Message(*answer.reply) if isinstance(answer, EventApplied) and answer.reply is not None else None

    def upload(self, file: UploadedFile | bytes) -> None:
        """Upload a file as a client does that sends no event with it; `@file_uploaded` runs 2 s later, in `run()`."""
        self._need_session()
        upload_values(file, self._slot.uploads)

    def push_media(self, track: str, array: object) -> None:
        """Send frames or sound as a client does; they wait in the buffer of an input track.

        Takes a frame, a batch, whose frames come one after the other, or sound, as an output track does. Raises
        ValueError, with the fix, for an unknown track and for an array that no client could send.
        """
        self._need_session()
        self._slot.inputs.push_array(track, array)

    def run(self, seconds: float) -> None:
        """Pass time: the model makes steps, and frames are shown when they are due."""
        self._slot.pause_steps(False)
        try:
            self._wait.for_seconds(seconds)
        finally:
            self._slot.pause_steps(True)

    def _on_started(self, started: Started) -> None:
        """Send what comes at the start of a session, before its first step."""

    def _on_step(self, output: object, compute_s: float) -> None:
        """Note what a step has made, before it is shown, and how many real seconds the step took."""

    def _on_handled(self, returned: object) -> None:
        """Note what the handler of an event has returned."""

    def _need_session(self) -> None:
        if self._recorder.ended:
            raise RuntimeError("no client is connected; call connect() first")


class _WrittenConfig:
    """Name the file of a config whose values a `load()` that takes a path receives, and remove it in the end.

    Values that belong to no file are written to a directory of their own.
    """

    def __init__(self, given: GivenConfig, *, takes_path: bool) -> None:
        self.given = given
        self.remove: Callable[[], object] = lambda: None
        if takes_path and given.values and given.file is None and given.merged is None:
            directory = Path(tempfile.mkdtemp(prefix="reactor-config-"))
            self.given = dataclasses.replace(given, merged=directory / "config.yml")
            # Also if the caller gets no studio to close.
            self.remove = weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        elif given.merged is not None:
            self.remove = weakref.finalize(self, given.merged.unlink, missing_ok=True)


def _weakly(method: Callable[..., None]) -> Callable[..., None]:
    """Return a function that calls a method as long as its object exists, and does not keep that alive."""
    reference = weakref.WeakMethod(method)

    def call(*arguments: object) -> None:
        if (alive := reference()) is not None:
            alive(*arguments)

    return call


class _Wait:
    """Run the loop of a model until a condition is true or for some time; errors name the class `owner`."""

    def __init__(self, owner: str, *, clock: FakeClock, loop: FakeLoop, recorder: OutputRecorder) -> None:
        self._owner = owner
        self._clock = clock
        self._loop = loop
        self._recorder = recorder

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Pass time until `done()`; raise RuntimeError that names `what` after a minute of the model's time."""
        if not self._advance(done, self._clock.now() + PATIENCE_S):
            raise RuntimeError(
                f"waited {PATIENCE_S:g} s of the model's time for {what}; if the model waits for an event or an input, "
                "send that first"
            )
        self.raise_failure()

    def advance(self, done: Callable[[], bool], seconds: float) -> bool:
        """Pass time until `done()`, at most so many seconds; return `done()`."""
        return self._advance(done, self._clock.now() + seconds)

    def for_seconds(self, seconds: float) -> None:
        """Pass so much time, less if the model fails."""
        self._advance(lambda: bool(self._recorder.failures), self._clock.now() + seconds)
        self.raise_failure()

    def need_open(self) -> None:
        """Raise RuntimeError after `close`."""
        if self._loop.is_closed():
            raise RuntimeError(f"this {self._owner} is closed; make another")

    def raise_failure(self) -> None:
        """Raise the first exception of the author's code since the last call, if there is one."""
        if self._recorder.failures:
            failure = self._recorder.failures[0]
            self._recorder.failures.clear()
            try:
                raise failure
            finally:
                # Its traceback refers to this frame, which would keep it alive.
                del failure

    def _advance(self, done: Callable[[], bool], until: float) -> bool:
        self.need_open()
        return self._loop.run_until(done, until=until)


def upload_values(value: object, uploads: SessionUploads) -> object:
    """Upload the files among a client's values; return the values with the ids of the files."""
    match value:
        case bytes() | bytearray():
            return upload_values(UploadedFile(bytes(value)), uploads)
        case UploadedFile():
            uploads.add(value)
        case list() | tuple():
            return [upload_values(item, uploads) for item in value]
        case dict():
            return {key: upload_values(item, uploads) for key, item in value.items()}
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {
                field.name: upload_values(getattr(value, field.name), uploads) for field in dataclasses.fields(value)
            }
    return value


def to_sent(event: str, data: object) -> Any:
    """Convert a client's values to JSON values: an Enum to its value, an array to lists."""
    try:
        return to_json(data, event)
    except TypeError as error:
        raise ValueError(str(error)) from error


def _close(loop: FakeLoop, host: Host, serving: asyncio.Task[None]) -> None:
    """End the engine, then tasks and threads of the author's code, then the loop."""
    host.receive_message(Shutdown())
    until = loop.time() + PATIENCE_S
    loop.run_until(serving.done, until=until)
    loop.end(until=until)
