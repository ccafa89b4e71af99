"""One visit to a server from the terminal: what is shown, what is kept, what is typed, until one of them ends it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from reactor_cli import console, spoken
from reactor_cli.lines import Lines
from reactor_cli.report import ConnectReport, figures_line, legible, shown
from reactor_cli.screen import TerminalScreen
from reactor_runtime.client import (
    Busy,
    ConnectError,
    EventError,
    Message,
    Phase,
    Reply,
    Session,
    Track,
    UploadError,
    connect,
    halfblocks,
)
from reactor_runtime.client.address import Role
from reactor_runtime.client.recording import Recording, RecordingFolder, recording
from reactor_runtime.errors import UsageError

UNKNOWN_EVENT = "unknown_event"
FIGURES_S = 1.0
PICTURE_S = 0.1  # as much as a connection to far away takes, and as much as text is looked at


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """What somebody wants of a visit; `seconds` None is until it ends, 0 until everything to send was answered.

    As long at most is the turn waited for, and without a limit where it is None or 0. `input` is the descriptor that
    events are read from, a line each.
    """

    url: str
    token: str | None
    role: Role | None
    sends: tuple[str, ...]
    seconds: float | None
    save: Path | None
    picture: bool
    prompt: bool
    input: int | None = None


class TerminalClient:
    """Carry out a wish; `began` says whether the turn came, for what an interruption then means."""

    def __init__(self, wish: ConnectOptions, report: ConnectReport, screen: TerminalScreen | None) -> None:
        self._wish = wish
        self._report = report
        self._screen = screen
        self._figures: dict[str, Any] = {}
        self._lines: Lines | None = None
        self.began = False

    async def run(self) -> None:
        """Raise what put an end to it, unless that is as it should be."""
        wish = self._wish
        for line in wish.sends:
            spoken.split(line)  # what can't be read is said before anything is sent
        current = asyncio.current_task()
        assert current is not None, "a coroutine that runs is one of a task"
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, current.cancel)
        kept = recording(wish.save) if wish.save is not None else None
        self._lines = Lines(wish.input) if wish.input is not None else None
        try:
            async with connect(wish.url, token=wish.token, role=wish.role, wait=False) as session:
                await self._attend(session, kept)
        finally:
            if kept is not None and await asyncio.to_thread(kept.close):
                self._report.say("saved", f"saved to {wish.save}", path=str(wish.save))
            elif kept is not None and self.began:
                self._report.say("saved", f"nothing came that could be saved to {wish.save}", path=None)

    async def _attend(self, session: Session, kept: Recording | None) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                ended = tasks.create_task(self._statuses(session))
                await _turn(session, self._wish.seconds)
                self.began = True
                duties = [tasks.create_task(duty) for duty in self._duties(session, kept)]
                for line in self._wish.sends:
                    await self._send(session, line)
                await self._end(session, ended, tasks)
                for task in (ended, *duties):
                    task.cancel()
        except ExceptionGroup as group:
            raise group.exceptions[0] from None

    def _duties(self, session: Session, kept: Recording | None) -> list[Coroutine[Any, Any, None]]:
        duties = [self._messages(session), self._count(session)]
        if self._screen is not None:
            duties.append(self._draw(session, self._screen))
        if kept is not None:
            duties += [_keep(session, kept, track.name, track.kind) for track in _kept_tracks(session, kept)]
        return duties

    async def _end(self, session: Session, ended: asyncio.Task[None], tasks: asyncio.TaskGroup) -> None:
        """Wait for whatever ends the visit first: the session, the time, the person."""
        endings: list[asyncio.Task[None]] = [ended]
        if self._lines is not None:
            endings.append(tasks.create_task(self._send_lines(session, self._lines)))
        elif self._wish.seconds is not None:
            endings.append(tasks.create_task(asyncio.sleep(self._wish.seconds)))
        if self._wish.prompt and self._screen is not None:
            endings.append(tasks.create_task(self._converse(session, self._screen)))
        await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
        if ended.done() and session.status.reason != "finished":
            await session.ready()  # raises why
        for task in endings:
            task.cancel()

    async def _send_lines(self, session: Session, lines: Lines) -> None:
        """Send each line as an event, and return when the visit is over.

        That is `seconds` after the last answer, at once where it is None and the input, which had lines, has ended. An
        input without lines, as that of a service, ends nothing.
        """
        seconds = self._wish.seconds
        had_lines = False
        while True:
            try:
                async with asyncio.timeout(seconds or None):
                    line = await lines.next()
            except TimeoutError:
                return
            if line is None:
                break
            had_lines = True
            if line.strip():
                await self._send(session, line)
            else:
                session.here()
        if seconds is None and not had_lines:
            await asyncio.Event().wait()
        await asyncio.sleep(seconds or 0)

    async def _statuses(self, session: Session) -> None:
        async for status in session.statuses():
            facts = {name: value for name, value in asdict(status).items() if value not in (None, "")}
            self._report.say("status", console.paint(legible(str(status)), "dim"), **facts)

    async def _messages(self, session: Session) -> None:
        async for message in session.messages():
            self._report.say("message", _line(message), type=message.type, data=dict(message.data))

    async def _count(self, session: Session) -> None:
        """Say once a second how it goes, and what has changed of the state."""
        loop, before, state = asyncio.get_running_loop(), dict(session.arrived), dict(session.state)
        at = loop.time()
        while True:
            await asyncio.sleep(FIGURES_S)
            now, arrived = loop.time(), dict(session.arrived)
            latest = session.latest() if arrived else None
            self._figures = {
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
                self._report.say("state", console.paint(f"state  {shown(changed)}", "dim"), data=changed)
            if self._screen is None:
                self._report.say("figures", figures_line(self._figures), **self._figures)

    async def _draw(self, session: Session, screen: TerminalScreen) -> None:
        """Keep figures, and the picture where there is one and it is wanted, at the top."""
        videos = [track.name for track in session.tracks if (track.kind, track.direction) == ("video", "out")]
        if not self._wish.picture or not videos:
            while True:
                screen.show([self._headline(session, screen)])
                await asyncio.sleep(FIGURES_S)
        async for frame in session.frames():
            columns, rows = screen.room
            lines = await asyncio.to_thread(halfblocks.lines, frame.array, columns, rows)
            screen.show([*lines, self._headline(session, screen)])
            await asyncio.sleep(PICTURE_S)

    def _headline(self, session: Session, screen: TerminalScreen) -> str:
        figures = figures_line(self._figures) if self._figures else ""
        line = f"{legible(session.model)} · {session.role} · {session.status.phase} · {figures}"
        return console.paint(line[: screen.room[0]], "bold")  # one that wraps would be written over the lines below

    async def _converse(self, session: Session, screen: TerminalScreen) -> None:
        """Take what is typed until its end; an empty line says that somebody is there."""
        loop = asyncio.get_running_loop()
        typed: asyncio.Queue[str | None] = asyncio.Queue()
        screen.ask(
            lambda line: spoken.completions(line, session.schema),
            lambda line: loop.call_soon_threadsafe(typed.put_nowait, line),
        )
        while (line := await typed.get()) is not None:
            if not line.strip():
                session.here()
                continue
            try:
                await self._send(session, line)
            except EventError:
                continue  # it has been said
            except (UsageError, UploadError) as error:
                screen.say(f"{console.paint('error:', 'red')} {error}")

    async def _send(self, session: Session, line: str) -> None:
        said = spoken.read(line, session.schema)
        data = {**said.data, **{name: await _uploaded(session, path) for name, path in said.files.items()}}
        try:
            reply = await session.send(said.event, data)
        except ValueError as error:
            raise UsageError(str(error), hint=spoken.EXAMPLE) from None
        except EventError as error:
            fields = [asdict(field) for field in error.fields]
            text = f"{console.paint(legible(error.code), 'red')}  {legible(error.message)}"
            if error.code == UNKNOWN_EVENT:
                text += spoken.suggestion(said.event, session.schema)
            self._report.say("refusal", text, event=said.event, code=error.code, message=error.message, fields=fields)
            raise
        message = None if reply.message is None else {"type": reply.message.type, "data": dict(reply.message.data)}
        self._report.say("reply", _answer(said.event, reply), event=said.event, n=reply.n, message=message)


async def _turn(session: Session, seconds: float | None) -> None:
    """Wait for the turn. Raises `Busy` where it doesn't come in time, `ConnectError` while the model loads."""
    try:
        async with asyncio.timeout(seconds or None):
            await session.ready()
    except TimeoutError:
        kind = Busy if session.status.phase is Phase.WAITING else ConnectError
        message = f"the turn did not come within {seconds:g} s: {legible(str(session.status))}"
        raise kind(message, hint="--seconds limits the wait as well; leave it out to wait") from None


def _kept_tracks(session: Session, kept: Recording) -> list[Track]:
    """List the tracks to keep: all in a folder, the first of each kind in a film."""
    tracks = [track for track in session.tracks if track.direction == "out"]
    if isinstance(kept, RecordingFolder):
        return tracks
    return list({track.kind: track for track in reversed(tracks)}.values())


async def _keep(session: Session, kept: Recording, track: str, kind: str) -> None:
    if kind == "video":
        async for frame in session.frames(track, decode=False):
            await asyncio.to_thread(kept.write_frame, frame)
    else:
        async for piece in session.sound(track):
            await asyncio.to_thread(kept.write_sound, piece)


async def _uploaded(session: Session, path: Path) -> dict[str, str]:
    try:
        return await session.upload(path)
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} can't be sent: {error}") from None


def _line(message: Message) -> str:
    return f"{console.paint(legible(message.type), 'cyan')}  {shown(dict(message.data))}"


def _answer(event: str, reply: Reply) -> str:
    said = "" if reply.message is None else f"  {legible(reply.message.type)}  {shown(dict(reply.message.data))}"
    return f"{console.paint('ok', 'green')}  {event}, event {reply.n}{said}"
