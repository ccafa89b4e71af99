"""Serve one session after the other on a loaded model, with their state, inputs, output, handlers and driver.

`host.py` has what belongs to the loaded model and to all of its sessions.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from reactor_runtime import errors
from reactor_runtime.authoring.events.messages import ClientInfo
from reactor_runtime.authoring.styles.app import StepCompleted
from reactor_runtime.authoring.styles.async_model import AsyncModel
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.engine import author
from reactor_runtime.engine.capacity import UNPACED
from reactor_runtime.engine.dispatch import CheckedEvent, ClientChange, Dispatcher, check_event
from reactor_runtime.engine.drivers.driver import DriverParts, NoSwap
from reactor_runtime.engine.drivers.registry import make_driver
from reactor_runtime.engine.drivers.stepping import read_request, refuse
from reactor_runtime.engine.file_hook import FileHook
from reactor_runtime.engine.first_step import FirstStep
from reactor_runtime.engine.host_parts import HostParts, ModelHost, Outlet
from reactor_runtime.engine.inputs.inputs import Inputs
from reactor_runtime.engine.inputs.uploads import SessionUploads
from reactor_runtime.engine.liveness import EndWatch
from reactor_runtime.engine.moderation import Moderation
from reactor_runtime.engine.output.emitter import Emitter
from reactor_runtime.engine.output.sink import LoggedSink, SwitchableSink
from reactor_runtime.engine.reload.reloader import Reloader
from reactor_runtime.engine.runtime import ModelRuntime
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.engine.session import ModelSession, must_pass
from reactor_runtime.engine.session_log import CurrentLog
from reactor_runtime.engine.session_state import SessionState, States
from reactor_runtime.engine.step_turns import StepTurn
from reactor_runtime.engine.warm_up import PATIENCE_S, WARM_UP, StandInInputs, WarmUp
from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.ipc import messages as ipc

logger = logging.getLogger(__name__)

# The longest that the frames of a session are shown after its model has ended it.
LONGEST_END_S = 2.0
# How long the end of a session may wait for the server to encode what is recorded.
FILES_S = 1.0
NO_STEPS = "a {} makes no steps that a program could request: connect without generation=stepped"
NOT_STEPPED = "the session steps by itself: connect with generation=stepped to request its steps"
TOO_MANY_REQUESTS = "the model is behind: 1,000 requests and events, or 4 MiB of them, wait"


class SessionHost:
    """Serve one session after the other; belongs to the thread and loop of `serve`.

    `receive_message` takes the messages of the server for its sessions; their output goes to the outlet.
    """

    def __init__(self, host: ModelHost, index: int, outlet: Outlet, parts: HostParts) -> None:
        self._host = host
        self._index = index
        # Where several sessions share the loaded model, each has a copy of it.
        self.served = served = host.served if host.step_turns is None else ServedModel(host.served.version)
        self._project = parts.project
        self._clock = clock = parts.clock
        self._failed = parts.failed
        self._ids = parts.ids
        self._is_replay = parts.is_replay
        self._trace = outlet.trace
        self._logs = outlet.logs
        self._log = CurrentLog()
        self._end_watch = EndWatch(served.contract.model.__name__)
        sink = LoggedSink(outlet.sink, self._log.on_message) if outlet.logs else outlet.sink
        self._sink = sink = SwitchableSink(sink)
        self.uploads = SessionUploads(self._on_upload)
        self.first_step = FirstStep(served, self.warn, parts.seconds, clock.now)
        self.inputs = Inputs(
            served.model,
            served.contract,
            clock,
            on_available=self._input_available,
            on_bad=self._bad_media,
            on_counts=sink.send,
            on_read=self._log.on_read,
            warn=self.warn,
            make_buffer=parts.make_buffer,
        )
        self._emitter = Emitter(
            served,
            clock,
            sink,
            self.first_step,
            lend=outlet.lend,
            credits=outlet.credits,
            frames_in=lambda: self.inputs.frame_counts,
            works_ahead=parts.works_ahead,
        )
        self.pause_steps = self._emitter.pause
        self.pace = self._emitter.pace
        self._state = SessionState(served, sink.send)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._file_hook = FileHook(served, self.uploads, clock, self._check)
        reload = parts.reload
        self.reloader = (
            None if reload is None else Reloader(self, host, served, reload, project=parts.project, clock=clock)
        )
        swap = self.reloader or NoSwap()
        self.runtime = ModelRuntime(self._emitter, sink, self._state, swap)
        self._moderation = Moderation(served, clock, parts.threads, sink.send, enabled=not parts.is_replay)
        driver_parts = DriverParts(
            served,
            self._emitter,
            self.inputs,
            clock,
            sink,
            self._state,
            parts.threads,
            parts.failed,
            host.crash,
            swap,
            seconds=parts.seconds or clock.now,
            on_step=parts.on_step,
            on_handled=parts.on_handled,
            uploads=self.uploads,
        )
        self._step_turn = None if host.step_turns is None else StepTurn(host.step_turns, index, self._on_step_timed)
        self._driver = make_driver(driver_parts)
        self.stalled = self._driver.stalled
        self._starts: asyncio.Queue[ipc.StartSession | None] = asyncio.Queue()
        self._stopped: set[str] = set()
        self._current: tuple[ModelSession, Dispatcher] | None = None
        self._give_calls(served.model)

    def serve_version(self, version: Version, states: States | None = None) -> States:
        """Serve a loaded version of the model from now on; return the states that it replaced, for a way back.

        `states` are those that a former call has returned for this version.
        """
        former = self._state.serve(version, states)
        self.attach(version)
        self._emitter.on_new_version()
        if self._current is not None:
            self._current[1].check_again(self._check)
        return former

    def attach(self, version: Version) -> None:
        """Attach the inputs and the calls of the sessions to an instance, before its `load()`."""
        self.inputs.attach(version.model, version.contract)
        self._give_calls(version.model)

    def _give_calls(self, model: Model) -> None:
        # Set from outside, because an author's __init__ may not call ours.
        model._reactor_on_progress = self._emitter.report_progress
        model._reactor_on_end = self.end_soon
        if isinstance(model, AsyncModel):
            model._reactor_runtime = self.runtime

    def end_soon(self, reason: str) -> None:
        """End the session for the model when the frames so far have been shown; any thread."""
        current = self._current
        if current is None or self._loop is None or current[0].id == WARM_UP:
            return
        session = current[0]

        def stop() -> None:
            if self._current is not None and self._current[0] is session:
                self._driver.stop_session(session)

        def end() -> None:
            session.end_reason = session.end_reason or errors.shortened(str(reason), errors.MOST_MESSAGE)
            # No step begins meanwhile.
            session.pause(True)
            now, pace = self._clock.now(), self._emitter.pace
            over_at = max(pace.over_at(alone=False), pace.over_at(alone=True))
            self._clock.call_at(min(max(now, over_at), now + LONGEST_END_S), stop)

        self._loop.call_soon_threadsafe(end)

    def swap_soon(self) -> None:
        """Apply new code at the end of the current step."""
        self._driver.swap_soon()

    @property
    def session(self) -> ModelSession | None:
        """Return the session that runs."""
        return None if self._current is None else self._current[0]

    @property
    def refusal(self) -> str:
        """Return why the model skips steps now; "" while it makes them, and without a session."""
        return "" if self._current is None else self._current[0].refusal

    @property
    def completed(self) -> StepCompleted | None:
        """Return what the newest step of an app has reported; None if it has not, and without a session."""
        return None if self._current is None else self._current[0].completed

    def send_message(self, message: ipc.ToServer) -> None:
        """Send a message to the server."""
        self._sink.send(message)

    def on_exception(self, error: BaseException) -> None:
        """Report an exception of the author's code that does not end the session."""
        self._failed(error)

    def _check(self, event: ipc.ClientEvent) -> CheckedEvent | ipc.EventRefused:
        return check_event(self.served.contract.handled_events, event, self.uploads)

    def _handler_failed(self, error: BaseException) -> None:
        self._failed(error)
        if self.reloader is not None:
            self.reloader.report_exception(error)

    async def serve(self) -> None:
        """Serve sessions until Shutdown, or until the model has crashed."""
        self._loop = asyncio.get_running_loop()
        self._serve_copy()
        self._driver.start()
        self._moderation.start()
        while (start := await self._starts.get()) is not None and not self._host.crashed:
            await self._serve_session(start)
        await self._driver.aclose()
        self.inputs.shutdown()

    def close(self) -> None:
        """End the thread for moderation: it waits for author's code that may block it."""
        self._moderation.close()

    def end(self) -> None:
        """Stop the session that runs, and return from `serve` when it has ended."""
        self._starts.put_nowait(None)
        if self._current is not None:
            self._driver.stop_session(self._current[0])

    async def warm_up(self, on_step: Callable[[int, int], object] = lambda *_: None) -> None:
        """Make the model's `warmup` steps in a session without a client; raise LoadError if one fails.

        Comes before `serve`. `on_step` is called before each step, with its number and the number of steps.
        """
        steps = author.warm_up_steps(self.served.model)
        if not steps:
            return
        self._loop = asyncio.get_running_loop()
        self._driver.start()
        client = ClientInfo(WARM_UP, time.time())
        session = ModelSession(
            WARM_UP,
            client,
            self._clock,
            time.time(),
            failed=self._failed,
            on_idle=lambda: warm_up.on_idle(),
            seats=self.served.contract.seats,
            batch=self._host.batch,
        )
        warm_up = WarmUp(
            self.served.contract,
            steps,
            emitter=self._emitter,
            stop=lambda: self._end_warm_up(session),
            on_step=on_step,
        )
        inputs = StandInInputs(self.served.contract, self.inputs, self._clock)
        patience = self._clock.call_at(self._clock.now() + PATIENCE_S, warm_up.log_waiting)
        inputs.start()
        with self._sink.diverted(warm_up), self.first_step.unchecked():
            raised = await self._run_session(session)
            # The last credits are on their way.
            await asyncio.sleep(0)
        patience.cancel()
        inputs.stop()
        self._ids.end_session(session.id)
        if self._step_turn is not None:
            # A `run()` that goes on is that of the loaded model; each session gets a copy.
            await self._driver.aclose()
        if raised is not None:
            raise author.warm_up_failure(raised, warm_up.step, self._project) from raised
        warm_up.check_output()

    def _end_warm_up(self, session: ModelSession) -> None:
        # Its client leaves, so that @connected has its @disconnected.
        session.clients.clear()
        self._driver.stop_session(session)

    def _input_available(self) -> None:
        """Wake the session for new input; any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._notify_input)

    def warn(self, warning: errors.ReactorError) -> None:
        """Report something that is probably not meant; the page shows it in a session."""
        if self._current is not None:
            self._sink.send(ipc.ModelWarning(self._current[0].id, errors.to_json(warning)))
        else:
            logger.warning("%s", warning)

    def _notify_input(self) -> None:
        if self._current is not None:
            self._current[0].notify_input()

    def _on_upload(self, file: UploadedFile, client: str) -> None:
        """Report a file to the log, and wait whether an event refers to it; any thread."""
        self._log.on_upload(file)
        if self._loop is not None and not self._is_replay and self.served.contract.on_file is not None:
            self._loop.call_soon_threadsafe(self._file_hook.await_reference, file, client)

    def _bad_media(self, track: str, error: Exception) -> None:
        """Report media that could not be decoded; any thread."""
        if (current := self._current) is not None:
            session = current[0]
            sender = self.inputs.source_of(track) or session.client.id
            self._sink.send(ipc.EventRefused(session.id, sender, None, "", ErrorCode.BAD_MEDIA, f"{track}: {error}"))

    async def _serve_session(self, start: ipc.StartSession) -> None:
        style = self.served.contract.style
        if start.stepped and not style.has_steps:
            self._sink.send(ipc.Ended(start.session, None, NO_STEPS.format(style.base.__name__)))
            return
        self._host.begin_session(self._index)
        session, raised = await self._run_until_reset(start, None)
        while raised is None and session.reset_for is not None and self._host.lost is None:
            session.end_log()
            session, raised = await self._run_until_reset(start, session)
        failure = None
        lost = None if raised is not None else self._host.lost
        raised = raised or lost
        if raised is not None:
            failure = author.session_failure(raised, self._project)
            at = failure.where or "-"
            logger.error("the session failed id=%s at=%s", session.id, at, exc_info=errors.from_author(raised))
        session.end_log("" if failure is None else failure.message, between_steps=lost is not None)
        self._ids.end_session(session.id)
        if self._trace is not None:
            self._trace.flush(session.id)
        self._stopped.discard(session.id)
        for leak in self._host.end_session(self._index):
            self._sink.send(ipc.ModelWarning(session.id, errors.to_json(leak.warning), leak=leak.kind))
        if raised is not None and session.crashed:
            self._host.crash(raised)
        error = None if failure is None else errors.to_json(failure)
        self._sink.send(ipc.Ended(session.id, error, session.end_reason, crashed=self._host.crashed))

    async def _run_until_reset(
        self, start: ipc.StartSession, former: ModelSession | None
    ) -> tuple[ModelSession, BaseException | None]:
        """Serve a session until its end, or until a request for steps resets it; return as `_run_session`."""
        if not self._driver.runs_between_sessions:
            self._serve_copy()
        client = self._client_info(start.client, "controller", start.joined_at_unix, start.seat)
        if former is not None and former.reset_for is not None:
            start = replace(start, seed=former.reset_for.seed)
        reloaded = None if self.reloader is None else self.reloader.outcome("applied")
        log = None if self._logs is None else self._logs.start_log(start, self.served.contract, reloaded)
        session = ModelSession(
            start.session,
            client,
            self._clock,
            time.time(),
            failed=self._handler_failed,
            trace=self._trace,
            log=log,
            is_reading=lambda: self.inputs.reading,
            stepped=start.stepped,
            seed=start.seed if log is None else log.seed,
            seats=self.served.contract.seats,
            former=former,
            step_turn=self._step_turn,
            generators=self._host.generators,
            batch=self._host.batch,
        )
        if start.session in self._stopped:
            session.stop()
        with self._log.running(log, lambda: session.steps):
            raised = await self._run_session(session)
        await self._emitter.receive_files(within_s=FILES_S)
        return session, raised

    def _client_info(self, client: str, role: str, joined_at_unix: float, seat: int | None) -> ClientInfo:
        # A program of 3.x compares it with `time.monotonic()`.
        is_of_3 = self.served.contract.follows_clients
        joined_at = joined_at_unix - time.time() + time.monotonic() if is_of_3 else joined_at_unix
        return ClientInfo(
            client,
            joined_at,
            role=role,
            seat=seat,
            _joined_at_unix=joined_at_unix,
            _send=lambda message: self.runtime.send(message, client),
        )

    def _on_step_timed(self, seconds: float, frames: int, sessions: int) -> None:
        """Measure a step of a stepped session, or of a model that has a rate to keep."""
        if self._host.capacity is None:
            return
        if self._current is not None and self._current[0].stepped:
            self._host.capacity.add_step(self._index, seconds, UNPACED)
        elif not self._emitter.pace.adaptive:
            shown_s = frames / self._emitter.pace.schedule.fps
            self._host.capacity.add_step(self._index, seconds, shown_s, sessions)

    def _serve_copy(self) -> None:
        """Serve a fresh copy of the loaded model, if several sessions share it."""
        if self.served is not self._host.served:
            self.serve_version(self._host.served.version.copied())

    async def _run_session(self, session: ModelSession) -> BaseException | None:
        """Serve a session until its end; return the exception of the author's code that ended it."""
        dispatcher = self._driver.dispatcher(session)
        if self._current is not None:
            # The events since the reset wait there.
            dispatcher.continue_from(self._current[1])
        self._ids.begin_session(session.id, session.client.id)
        self._current = session, dispatcher
        self.runtime.begin_session(session)
        if self.reloader is not None:
            self.reloader.begin_session()
        if session.reset_by is None:
            self.uploads.begin_session(session.id)
            self._moderation.begin_session(session, self._accept_moderated)
        else:
            self._moderation.continue_session(session)
        self._file_hook.begin_session(session, dispatcher)
        if session.seed is not None:
            session.seed_generators(session.seed)
        if session.log is not None:
            session.log.on_begin()
            if session.reset_by is not None:
                # What came before the reset belongs to this session too, and its log knows nothing of it.
                for file in self.uploads.files:
                    session.log.on_upload(file, is_kept=True)
                dispatcher.log_clients()
        self._end_watch.on_start(session.id)
        self.first_step.start_timer()
        ended_by = None
        try:
            await self._driver.serve_session(session, dispatcher, self.runtime.connected)
        # Author's code, and native extensions, raise more than Exception.
        except BaseException as raised:
            if must_pass(raised) or self._is_dropped(raised):
                raise
            self._failed(raised)
            ended_by = raised
        if session.generators is not None:
            session.generators.end_session(session.id)
        self._end_watch.on_end()
        self.runtime.end_session()
        if session.reset_for is None or ended_by is not None:
            self._current = None
            self._moderation.end_session()
            self._file_hook.end_session()
            self.uploads.clear()
        return ended_by

    def _is_dropped(self, raised: BaseException) -> bool:
        """Return whether the author's coroutine ended because its loop is closed."""
        return isinstance(raised, GeneratorExit) and self._loop is not None and self._loop.is_closed()

    def watch_end(self, session: str) -> None:
        """Log a session that does not end after its client has left; any thread."""
        if not self._driver.reports_end:
            self._end_watch.on_stop(session)

    def receive_message(self, message: ipc.Message | CheckedEvent) -> None:
        """Handle a message of the server for a session, or a checked event; return at once."""
        current = self._current
        match message:
            case CheckedEvent():
                if current is not None and current[0].id == message.event.session:
                    self._accept(message, self._moderation.accept)
            case ipc.Credit():
                self._emitter.credit(message)
            case ipc.StepRequest():
                if current is not None and current[0].id == message.session:
                    self._accept_request(current[0], message)
            case ipc.StartSession():
                self._starts.put_nowait(message)
            case ipc.StopSession():
                self._stopped.add(message.session)
                if current is not None and current[0].id == message.session:
                    self._driver.stop_session(current[0])
            case ipc.ClientJoined():
                if current is not None and current[0].id == message.session:
                    joined = self._client_info(message.client, message.role, message.joined_at_unix, message.seat)
                    self._change_clients(*current, joined)
            case ipc.ClientLeft():
                if current is not None and current[0].id == message.session:
                    left = current[0].clients.pop(message.client, None)
                    if left is not None:
                        self._moderation.drop_client(left.id)
                        if left.role == "controller":
                            self._driver.drop_requests()
                        current[1].accept_change(ClientChange(left, joined=False))
                        self._end_waits(current[0])
            case ipc.Pause():
                if current is not None and current[0].id == message.session:
                    current[0].pause(message.paused)
                    if message.paused:
                        # The answers would go to a connection that is lost.
                        self._driver.drop_requests()
                        self._moderation.drop_requests()
            case ipc.ClientMedia():
                self.inputs.push_media(message)

    def _accept_request(self, session: ModelSession, request: ipc.StepRequest) -> None:
        def accept() -> None:
            current = self._current
            if current is not None and not current[1].accept_request(read_request(request)):
                self._sink.send(refuse(request, ErrorCode.RATE_LIMITED, TOO_MANY_REQUESTS))

        if not session.stepped:
            self._sink.send(refuse(request, ErrorCode.NOT_READY, NOT_STEPPED))
        elif not self._moderation.accept_request(len(request.data_json), accept):
            self._sink.send(refuse(request, ErrorCode.RATE_LIMITED, TOO_MANY_REQUESTS))

    def _end_waits(self, session: ModelSession) -> None:
        """End a step that waits for a frame of the clients, who are all gone: their hooks come after it."""
        contract = self.served.contract
        if not session.clients and contract.style.has_steps and contract.follows_clients:
            self.inputs.interrupt()

    def _change_clients(self, session: ModelSession, dispatcher: Dispatcher, client: ClientInfo) -> None:
        """Add a client to a session, or replace one that has another role, or a seat, now."""
        known = session.clients.get(client.id)
        session.clients[client.id] = client
        if known is None or known.seat != client.seat:
            dispatcher.accept_change(ClientChange(client, joined=True, was_there=known is not None))

    def _accept_moderated(self, checked: CheckedEvent) -> None:
        if self._current is not None:
            self._accept(checked, self._current[1].accept)

    def _accept(self, checked: CheckedEvent, accept: Callable[[CheckedEvent], object]) -> None:
        """Pass an event on; check it again if the contract has changed since it was checked."""
        current = checked.spec is self.served.contract.handled_events.get(checked.event.name)
        again = checked if current else self._check(checked.event)
        if isinstance(again, CheckedEvent):
            accept(again)
        else:
            self._sink.send(again)
