"""The client of `reactor connect`: it sends events, and shows and records a session until it ends.

The command's options come from `commands/connect.py`, the output goes through `report.py` and `terminal.py`.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.cells import set_cell_size

from reactor_cli import console, typed_events
from reactor_cli.recording import Recording, check_path, recording
from reactor_cli.report import ConnectReport, format_metrics, format_values, legible
from reactor_cli.terminal import LineReader, TerminalScreen
from reactor_runtime.client import (
    Busy,
    ConnectError,
    EventError,
    Message,
    ModelContract,
    Phase,
    Reply,
    Session,
    Track,
    UploadError,
    connect,
    halfblocks,
)
from reactor_runtime.client.address import Role
from reactor_runtime.errors import UsageError

UNKNOWN_EVENT = "unknown_event"
METRICS_S = 1.0
# Fast enough for a frame as text, and slow enough for a remote terminal.
FRAME_S = 0.1


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """The options of `reactor connect`.

    `seconds` limits the session after the last answer, and the wait for the turn; None is no limit, and 0 ends the
    session when every event is answered, without a limit for the wait. `input` is the descriptor of piped events.
    """

    url: str
    token: str | None
    role: Role | None
    events: tuple[str, ...]
    seconds: float | None
    save: Path | None
    show_frames: bool
    prompt: bool
    input: int | None = None


class TerminalClient:
    """Run one session with a server; `began` is true once the turn has come; the code after Ctrl-C depends on it."""

    def __init__(self, options: ConnectOptions, report: ConnectReport, screen: TerminalScreen | None) -> None:
        self._options = options
        self._report = report
        self._screen = screen
        self._metrics: dict[str, Any] = {}
        self._lines: LineReader | None = None
        # Made when the tracks are known.
        self._saved: Recording | None = None
        self.began = False

    async def run(self) -> None:
        """Run one session until it ends. Raise the error that ended it, unless an event, the time or the input did."""
        options = self._options
        # Events with a syntax error are refused before anything is sent.
        for line in options.events:
            typed_events.split_event(line)
        current = asyncio.current_task()
        assert current is not None, "a running coroutine belongs to a task"
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, current.cancel)
        if options.save is not None:
            check_path(options.save)
        self._lines = LineReader(options.input) if options.input is not None else None
        try:
            async with connect(options.url, token=options.token, role=options.role, wait=False) as session:
                await self._run_session(session)
        finally:
            if self._saved is not None and await asyncio.to_thread(self._saved.close):
                self._report.print_fact("saved", f"saved to {options.save}", path=str(options.save))
            elif self._saved is not None:
                self._report.print_fact("saved", f"nothing to save to {options.save} was received", path=None)

    async def _run_session(self, session: Session) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                ended = tasks.create_task(self._report_statuses(session))
                await _wait_for_turn(session, self._options.seconds)
                self.began = True
                background = [tasks.create_task(work) for work in self._background(session)]
                for line in self._options.events:
                    await self._send_event(session, line)
                await self._wait_for_end(session, ended, tasks)
                for task in (ended, *background):
                    task.cancel()
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    def _background(self, session: Session) -> list[Coroutine[Any, Any, None]]:
        tracks = [track for track in session.tracks if track.direction == "out"]
        if self._options.save is not None:
            self._saved = recording(self._options.save, tracks)
        work = [
            self._report_messages(session),
            self._report_metrics(session),
            self._report_contracts(session),
            self._report_reloads(session),
        ]
        if self._screen is not None:
            work.append(self._draw(session, self._screen))
        if self._saved is not None:
            work += [_record(session, self._saved, track) for track in tracks]
        return work

    async def _wait_for_end(self, session: Session, ended: asyncio.Task[None], tasks: asyncio.TaskGroup) -> None:
        """Wait until the session, the time, the input or the prompt ends."""
        endings: list[asyncio.Task[None]] = [ended]
        if self._lines is not None:
            endings.append(tasks.create_task(self._send_lines(session, self._lines)))
        elif self._options.seconds is not None:
            endings.append(tasks.create_task(asyncio.sleep(self._options.seconds)))
        if self._options.prompt and self._screen is not None:
            endings.append(tasks.create_task(self._send_typed_events(session, self._screen)))
        await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
        if ended.done() and session.status.reason != "finished":
            # Raises the error that ended the session.
            await session.ready()
        for task in endings:
            task.cancel()

    async def _send_lines(self, session: Session, lines: LineReader) -> None:
        """Send each line of the input as an event, and return when the session should end.

        That is `seconds` after the last answer; without `seconds`, at the end of the input. An input without lines, as
        that of a service, does not end the session.
        """
        seconds = self._options.seconds
        had_lines = False
        while True:
            try:
                async with asyncio.timeout(seconds or None):
                    line = await lines.next_line()
            except TimeoutError:
                return
            if line is None:
                break
            had_lines = True
            if line.strip():
                await self._send_event(session, line)
            else:
                session.here()
        if seconds is None and not had_lines:
            await asyncio.Event().wait()
        await asyncio.sleep(seconds or 0)

    async def _report_statuses(self, session: Session) -> None:
        async for status in session.statuses():
            facts = {name: value for name, value in asdict(status).items() if value not in (None, "")}
            self._report.print_fact("status", console.paint(legible(str(status)), "dim"), **facts)

    async def _report_messages(self, session: Session) -> None:
        async for message in session.messages():
            self._report.print_fact("message", _format_message(message), type=message.type, data=dict(message.data))

    async def _report_contracts(self, session: Session) -> None:
        """Report which events a reload has added, changed and removed."""
        before: ModelContract | None = None
        async for contract in session.contracts():
            if before is not None:
                changes = _changed_names(before.schema["events"], contract.schema["events"])
                text = ", ".join(f"{how} {legible(', '.join(names))}" for how, names in changes.items() if names)
                self._report.print_fact("contract", f"the model has changed: {text or 'no event'}", **changes)
            before = contract

    async def _report_reloads(self, session: Session) -> None:
        joined = session.last_reload
        async for reload in session.reloads():
            # The code of before this client.
            if reload is joined and reload.status == "applied":
                continue
            facts = {name: value for name, value in asdict(reload).items() if value not in (None, "")}
            self._report.print_fact("reload", f"reload {legible(str(reload))}", **facts)

    async def _report_metrics(self, session: Session) -> None:
        """Report metrics and changes of the state once a second."""
        loop, before, state = asyncio.get_running_loop(), dict(session.arrived), dict(session.state)
        at = loop.time()
        while True:
            await asyncio.sleep(METRICS_S)
            now, arrived = loop.time(), dict(session.arrived)
            latest = session.latest() if arrived else None
            self._metrics = {
                "fps": {track: round((n - before.get(track, 0)) / (now - at), 1) for track, n in arrived.items()},
                "delay_ms": round(latest.delay_ms, 1) if latest is not None and not latest.held else None,
                "input_delay_ms": session.input_delay_ms and round(session.input_delay_ms, 1),
                "rtt_ms": session.rtt_ms and round(session.rtt_ms, 1),
                "skipped": session.stats.get("skipped", 0),
            }
            at, before = now, arrived
            changed = {name: value for name, value in session.state.items() if state.get(name) != value}
            if changed:
                state = dict(session.state)
                self._report.print_fact("state", console.paint(f"state  {format_values(changed)}", "dim"), data=changed)
            if self._screen is None:
                self._report.print_fact("figures", format_metrics(self._metrics), **self._metrics)

    async def _draw(self, session: Session, screen: TerminalScreen) -> None:
        """Show the newest frame, if there is a video track and frames are wanted, and the metrics at the top."""
        videos = [track.name for track in session.tracks if (track.kind, track.direction) == ("video", "out")]
        if not self._options.show_frames or not videos:
            while True:
                screen.show_top([self._headline(session, screen)])
                await asyncio.sleep(METRICS_S)
        async for frame in session.frames():
            columns, rows = screen.frame_size
            lines = await asyncio.to_thread(halfblocks.lines, frame.array, columns, rows)
            screen.show_top([*lines, self._headline(session, screen)])
            await asyncio.sleep(FRAME_S)

    def _headline(self, session: Session, screen: TerminalScreen) -> str:
        metrics = format_metrics(self._metrics) if self._metrics else ""
        line = f"{legible(session.model)} · {session.role} · {session.status.phase} · {metrics}"
        # A longer line would wrap and overwrite the scrolling lines.
        return console.paint(set_cell_size(line, screen.frame_size[0]), "bold")

    async def _send_typed_events(self, session: Session, screen: TerminalScreen) -> None:
        """Send each line of the prompt as an event until its end; an empty line answers the `idle` notice."""
        loop = asyncio.get_running_loop()
        typed: asyncio.Queue[str | None] = asyncio.Queue()
        screen.start_prompt(
            lambda line: typed_events.complete_event(line, session.schema),
            lambda line: loop.call_soon_threadsafe(typed.put_nowait, line),
        )
        while (line := await typed.get()) is not None:
            if not line.strip():
                session.here()
                continue
            try:
                await self._send_event(session, line)
            except EventError as error:
                hint = f"; {error.hint}" if error.hint else ""
                screen.print_lines(f"{console.paint(legible(error.code), 'bold red')}  {legible(error.message)}{hint}")
            except (UsageError, UploadError) as error:
                screen.print_lines(f"{console.paint('error:', 'bold red')} {error}")

    async def _send_event(self, session: Session, line: str) -> None:
        event = typed_events.parse_event(line, session.schema)
        data = {**event.data, **{name: await _upload(session, path) for name, path in event.files.items()}}
        try:
            reply = await session.send(event.event, data)
        except ValueError as error:
            raise UsageError(str(error), hint=typed_events.EXAMPLE) from None
        except EventError as error:
            self._report_refusal(session, event.event, error)
            raise
        message = None if reply.message is None else {"type": reply.message.type, "data": dict(reply.message.data)}
        text = _format_reply(event.event, reply)
        self._report.print_fact("reply", text, event=event.event, n=reply.n, message=message)

    def _report_refusal(self, session: Session, event: str, error: EventError) -> None:
        """Add the event that was probably meant to the error, which is printed as text where it is caught."""
        facts = {"code": error.code, "message": error.message, "fields": [asdict(field) for field in error.fields]}
        similar = typed_events.similar_event(event, session.schema) if error.code == UNKNOWN_EVENT else None
        if similar:
            error.hint = f"did you mean {legible(similar)}?"
        self._report.print_fact("refusal", "", event=event, **facts, suggestion=similar)


async def _wait_for_turn(session: Session, seconds: float | None) -> None:
    """Wait for the turn. On timeout raise `Busy`, or `ConnectError` while the model loads."""
    try:
        async with asyncio.timeout(seconds or None):
            await session.ready()
    except TimeoutError:
        kind = Busy if session.status.phase is Phase.WAITING else ConnectError
        message = f"the turn did not come within {seconds:g} s: {legible(str(session.status))}"
        raise kind(message, hint="--seconds limits the wait as well; leave it out to wait") from None


async def _record(session: Session, saved: Recording, track: Track) -> None:
    if track.kind == "video":
        async for frame in session.frames(track.name, decode=False):
            if await asyncio.to_thread(saved.write_frame, frame):
                session.request_key(track.name)
    else:
        async for piece in session.sound(track.name):
            await asyncio.to_thread(saved.write_sound, piece)


async def _upload(session: Session, path: Path) -> dict[str, str]:
    try:
        return await session.upload(path)
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} can't be uploaded: {error}") from None


def _changed_names(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, list[str]]:
    return {
        "added": [name for name in now if name not in before],
        "changed": [name for name in now if name in before and now[name] != before[name]],
        "removed": [name for name in before if name not in now],
    }


def _format_message(message: Message) -> str:
    return f"{console.paint(legible(message.type), 'cyan')}  {format_values(dict(message.data))}"


def _format_reply(event: str, reply: Reply) -> str:
    message = reply.message
    answer = "" if message is None else f"  {legible(message.type)}  {format_values(dict(message.data))}"
    return f"{console.paint('ok', 'green')}  {event}, event {reply.n}{answer}"
