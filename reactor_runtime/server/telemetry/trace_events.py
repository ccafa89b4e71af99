"""Converts records to events of the "Trace Event Format" (Chromium): dicts, each of which becomes a JSON object.

Times are microseconds of CLOCK_MONOTONIC. The work of a thread, one span after the other, is a lane. Spans that
overlap, as those of frames and events do, are async events with an id.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from reactor_runtime.ipc.messages import Bundle, TraceSpans
from reactor_runtime.server.encoding.encoded import Encoded
from reactor_runtime.wire.media_header import MediaHeader

# Above the thread ids of Linux.
FIRST_LANE = 1 << 22
MOST_LANES = 1000

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stages:
    """The times of a bundle's stages in the server; it may be encoded in several jobs."""

    arrived_at: float
    jobs: tuple[Encoded, ...]
    ready_at: float
    shown_at: float

    @property
    def encode_began(self) -> float:
        return min(job.began for job in self.jobs)

    @property
    def encode_ended(self) -> float:
        return max(job.ended for job in self.jobs)

    def spans(self, bundle: Bundle) -> Iterator[tuple[str, float, float]]:
        """Yield the name, start and end of each stage, from the hand-over until the bundle was shown."""
        yield "arrive", bundle.handed_over, self.arrived_at
        yield "queue", self.arrived_at, self.encode_began
        yield "encode", self.encode_began, self.encode_ended
        yield "back", self.encode_ended, self.ready_at
        due = min(max(bundle.due, self.ready_at), self.shown_at)
        yield "hold", self.ready_at, due
        if due < self.shown_at:
            yield "late", due, self.shown_at


def to_text(event: Event) -> bytes:
    return json.dumps(event, separators=(",", ":"), default=str).encode()


def us(seconds: float) -> float:
    return round(seconds * 1e6, 1)


class TraceNames:
    """Number the lanes, and name processes and lanes once in each file; the 1,000 lanes used last are remembered."""

    def __init__(self) -> None:
        self.server = os.getpid()
        self._numbers = itertools.count(FIRST_LANE)
        # The lane that was not used for longest comes first.
        self._lanes: OrderedDict[tuple[int, str], int] = OrderedDict()
        self._processes: set[int] = set()

    def begin(self) -> list[Event]:
        """Return the first events of a new file; other processes and lanes are named again where they occur."""
        self._lanes.clear()
        self._processes = {self.server}
        return [
            _name("process_name", self.server, self.server, "server"),
            _name("thread_name", self.server, self.server, "event loop"),
        ]

    def lane(self, process: int, name: str, thread: int | None = None, engine: str = "") -> tuple[int, list[Event]]:
        """Return the number of a lane, that of its `thread` if it has one, and the events that name a new lane."""
        found = self._lanes.get((process, name))
        if found is not None:
            self._lanes.move_to_end((process, name))
            return found, []
        number = self._lanes[process, name] = next(self._numbers) if thread is None else thread
        if len(self._lanes) > MOST_LANES:
            self._lanes.popitem(last=False)
        events = [_name("thread_name", process, number, name)]
        if process not in self._processes:
            self._processes.add(process)
            title = f"model, engine {engine}" if engine else "model"
            events.insert(0, _name("process_name", process, process, title))
        return number, events

    def encoder_lane(self, thread: int) -> tuple[int, list[Event]]:
        """Return the lane of an encoder thread, or of the event loop, which has a name, and encodes small frames."""
        if thread == self.server:
            return self.server, []
        return self.lane(self.server, f"encoder {thread}", thread)

    def lost(self, count: int) -> Event:
        """Return the event for records that were dropped."""
        name = f"{count} records lost"
        return {"ph": "i", "s": "g", "name": name, "pid": self.server, "tid": 0, "ts": us(time.monotonic())}


def _name(kind: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def shown(names: TraceNames, bundle: Bundle, stages: Stages) -> Iterator[Event]:
    """Yield the events of a bundle that was shown: its stages, its encoding on threads, and its inputs."""
    whose = f"{bundle.session}.{bundle.number}"
    args = {"session": bundle.session, "bundle": bundle.number, "applied": bundle.applied, **_seqs(bundle)}
    if bundle.reserve_s:
        args["reserve_ms"] = round(1e3 * bundle.reserve_s, 1)
    frame = {"cat": "frame", "id": whose, "pid": names.server, "tid": names.server}
    yield {"ph": "b", "name": "frame", "ts": us(bundle.handed_over), "args": args, **frame}
    for name, began, ended in stages.spans(bundle):
        yield {"ph": "b", "name": name, "ts": us(began), **frame}
        yield {"ph": "e", "name": name, "ts": us(ended), **frame}
    yield {"ph": "e", "name": "frame", "ts": us(stages.shown_at), **frame}
    for job in stages.jobs:
        rungs = {frame.track: sorted(rung for files in frame.files.values() for rung in files) for frame in job.frames}
        lane, new = names.encoder_lane(job.thread)
        yield from new
        yield _complete("encode", names.server, lane, job.began, job.ended, {**args, "rungs": rungs})
        yield {"ph": "f", "bp": "e", "name": "frame", "cat": "flow", "id": whose, "pid": names.server, "tid": lane,
               "ts": us(job.began)}  # fmt: skip
    for number, arrived_at in enumerate(bundle.inputs):
        each = {"cat": "input", "id": f"{whose}.{number}", "name": "input to frame", "pid": names.server}
        yield {"ph": "b", "tid": names.server, "ts": us(arrived_at), **each}
        yield {"ph": "e", "tid": names.server, "ts": us(stages.shown_at), **each}


def dropped(names: TraceNames, bundle: Bundle, at: float, reason: str) -> Iterator[Event]:
    """Yield the events of a bundle that is not shown."""
    whose, args = f"{bundle.session}.{bundle.number}", {"reason": reason, **_seqs(bundle)}
    frame = {"cat": "frame", "id": whose, "name": "frame, dropped", "pid": names.server, "tid": names.server}
    yield {"ph": "b", "ts": us(bundle.handed_over), "args": args, **frame}
    yield {"ph": "e", "ts": us(at), **frame}


def sent(
    names: TraceNames, client: str, header: MediaHeader | None, size: int, posted_at: float, send_s: float
) -> Iterator[Event]:
    """Yield the span in which a client's socket was busy with a file, or with a message, which has no `header`."""
    lane, new = names.lane(names.server, f"client {client}")
    yield from new
    args: dict[str, object] = {"bytes": size}
    if header is not None:
        args |= {"track": header.track, "seq": header.seq, "applied": header.applied}
    name = "send message" if header is None else "send"
    yield _complete(name, names.server, lane, posted_at, posted_at + send_s, args)


def spans(names: TraceNames, traced: TraceSpans, engine: str = "") -> Iterator[Event]:
    """Yield the spans of the engine, with its number where there are several; those of the lane `events` overlap."""
    for span in traced.spans:
        args = {"session": traced.session, **span["args"]}
        if span["lane"] == "events":
            event = {"cat": "event", "id": f"{traced.session}.{span['args']['n']}", "pid": traced.process}
            yield {
                "ph": "b",
                "name": span["name"],
                "tid": traced.process,
                "ts": us(span["began"]),
                "args": args,
                **event,
            }
            yield {"ph": "e", "name": span["name"], "tid": traced.process, "ts": us(span["ended"]), **event}
            continue
        thread = traced.process if span["lane"] == "model" else None
        lane, new = names.lane(traced.process, span["lane"], thread, engine)
        yield from new
        yield _complete(span["name"], traced.process, lane, span["began"], span["ended"], args)
        if "bundle" in span["args"]:
            whose = f"{traced.session}.{span['args']['bundle']}"
            yield {"ph": "s", "name": "frame", "cat": "flow", "id": whose, "pid": traced.process, "tid": lane,
                   "ts": us(span["began"])}  # fmt: skip


def _complete(name: str, process: int, lane: int, began: float, ended: float, args: object) -> Event:
    duration = round(us(ended) - us(began), 1)
    return {"ph": "X", "name": name, "pid": process, "tid": lane, "ts": us(began), "dur": duration, "args": args}


def _seqs(bundle: Bundle) -> dict[str, int]:
    parts: Iterable[Any] = (*bundle.frames, *bundle.sounds)
    return {part.track: part.seq for part in parts}
