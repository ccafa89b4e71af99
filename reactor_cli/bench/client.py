"""A client that sends a model test inputs, and measures the time from an event to the first frame made with it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from reactor_runtime.client import EventError, Session, SessionEnded, Track, connect
from reactor_runtime.errors import ReactorError
from reactor_runtime.testing.rehearsal import PIECE_S, test_media

CAMERA_FPS = 30
# Events come at random times, so that they come in all phases of a step.
EVENT_S = (0.15, 0.45)
SETTLE_S = 1.0
NO_FRAME = "the model made no frame in {:g} s"
NO_FRAME_HINT = (
    "it gets images and sound for its input tracks, but no events: give the state defaults with which it makes frames, "
    "or wait longer with --patience"
)
NO_OUTPUT = "the model has no output to measure"
NO_OUTPUT_HINT = "add `class MyOutput(Output): main_video: Video`"
ENDED = "the model ended its session {:.1f} s after the client had connected"
ENDED_HINT = "measure a shorter time with --seconds, or make frames until the client leaves"
# The types of values that can be sent as they are in the state.
PLAIN = (bool, int, float, str)


@dataclass(slots=True)
class Observed:
    """Hold what a client has seen; times in seconds, those ending in `_at` on the monotonic clock."""

    connected_at: float = 0.0
    first_at: float = 0.0
    settled_at: float = 0.0
    until_at: float = 0.0
    inputs_s: list[float] = field(default_factory=list)


async def drive_and_measure(
    url: str, *, seconds: float, patience_s: float, on_progress: Callable[[float], object] = lambda _: None
) -> Observed:
    """Control a model for one second that is not measured and `seconds` after it; `on_progress` gets those that passed.

    Raises an exception group: of ReactorError if the model has no output, makes no frame in `patience_s` or ends the
    session, of ClientError if the session ends in another way.
    """
    seen = Observed(connected_at=time.monotonic())
    try:
        await _drive(url, seen, seconds, patience_s, on_progress)
    # Before `_receive` reads, or while an event waits for its reply.
    except* SessionEnded as group:
        if any(isinstance(error, SessionEnded) and error.reason != "finished" for error in group.exceptions):
            raise
        raise _ended(seen.connected_at) from None
    return seen


async def _drive(
    url: str, seen: Observed, seconds: float, patience_s: float, on_progress: Callable[[float], object]
) -> None:
    async with connect(url) as session, asyncio.TaskGroup() as group:
        if not any(track.direction == "out" for track in session.tracks):
            raise ReactorError(NO_OUTPUT, hint=NO_OUTPUT_HINT)
        first = asyncio.Event()
        tasks = [group.create_task(_receive(session, first.set))]
        tasks += [group.create_task(_publish(session, track)) for track in session.tracks if track.direction == "in"]
        try:
            await asyncio.wait_for(first.wait(), patience_s)
        except TimeoutError:
            raise ReactorError(NO_FRAME.format(patience_s), hint=NO_FRAME_HINT) from None
        seen.first_at = time.monotonic()
        await asyncio.sleep(SETTLE_S)
        seen.settled_at = time.monotonic()
        seen.until_at = seen.settled_at + seconds
        tasks.append(group.create_task(_send_events(session, seen)))
        while (left := seen.until_at - time.monotonic()) > 0:
            on_progress(seconds - left)
            await asyncio.sleep(min(left, 0.1))
        for task in tasks:
            task.cancel()


async def _receive(session: Session, on_first: Callable[[], object]) -> None:
    """Receive until the task is cancelled; raise ReactorError if the model ends the session before."""
    has_video = any((track.kind, track.direction) == ("video", "out") for track in session.tracks)
    began = time.monotonic()
    async for _ in session.frames(decode=False) if has_video else session.sound():
        on_first()
    raise _ended(began)


def _ended(began: float) -> ReactorError:
    return ReactorError(ENDED.format(time.monotonic() - began), hint=ENDED_HINT)


async def _publish(session: Session, track: Track) -> None:
    """Send test media to an input track at the rate of a camera or a microphone."""
    is_video = track.kind == "video"
    due = time.monotonic()
    for piece in itertools.cycle(test_media(track.kind, track.sample_rate)):
        session.publish(track.name, piece)
        due += 1 / CAMERA_FPS if is_video else PIECE_S
        await asyncio.sleep(max(0.0, due - time.monotonic()))


async def _send_events(session: Session, seen: Observed) -> None:
    """Send events that set fields to their current values; after a refusal continue with the next field."""
    if not any((each.kind, each.direction) == ("video", "out") for each in session.tracks):
        return
    for event, parameter, name in settable_fields(session.schema["events"], session.state):
        # A handler may refuse even the value that the field has.
        with contextlib.suppress(EventError):
            await _send_repeatedly(session, seen, event, parameter, name)


async def _send_repeatedly(session: Session, seen: Observed, event: str, parameter: str, name: str) -> None:
    """Send an event until it is refused; append each time to its first frame to `seen.inputs_s`."""
    source = random.Random(0)
    while True:
        await asyncio.sleep(source.uniform(*EVENT_S))
        reply = await session.send(event, {parameter: session.state[name]})
        await session.frame(after=reply)
        if session.input_delay_ms is not None:
            seen.inputs_s.append(session.input_delay_ms / 1e3)


def settable_fields(events: Mapping[str, Any], state: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the events that set a field of the state to a plain value, their only parameter, and the field.

    An author who replaces the event of a field chooses the name of the parameter.
    """
    for name, event in events.items():
        parameters = list(event["parameters"]["properties"])
        if len(parameters) == 1 and event["field"] is not None and isinstance(state.get(event["field"]), PLAIN):
            yield name, parameters[0], event["field"]
