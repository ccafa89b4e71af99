"""Costs of one emit in a loop model, and of a camera's frames in and out."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import simplejpeg
from numpy.typing import NDArray

from benchmarks.serving import RUNS, address, cpu_s, photo_like, run, serving
from reactor_runtime.client import Session, connect

Row = tuple[str, str, str]

LOOP = Path(__file__).parent / "loop"
WEBCAM = Path(__file__).parent / "webcam"
TEMPLATE = Path(__file__).parents[1] / "templates" / "webcam"
# What the template copies its camera with, so that the numbers in its frames can be read.
COPYING: Mapping[str, Mapping[str, object]] = {"set_filter": {"filter": "plain"}, "set_mirror": {"mirror": False}}
CAMERA_FPS = 30
CAMERA_S = 6.0
SETTLED_S = 1.0
BITS = 7
# Pixels, so that a mark survives both encodings and a decoder that scales by an eighth.
BIT = 64


def emit() -> Iterator[Row]:
    """Measure emit() from call to return, with a client that receives, beside a bare queue and a bare copy."""
    for width, height in ((640, 480), (1280, 720)):
        runs = []
        for _ in range(RUNS):
            with serving(LOOP, width=width, height=height) as port:
                runs.append(run(_costs(port)))
        emit_us, again_us, put_us, copy_us = (
            1e6 * statistics.median(costs[name] for costs in runs) for name in ("emit_s", "again_s", "put_s", "copy_s")
        )
        yield f"emit of {width}x{height}, 40 ms after the last", f"{emit_us:.0f} µs", ""
        yield "  right after another", f"{again_us:.0f} µs", ""
        yield "  a bare copy of the frame", f"{copy_us:.0f} µs", ""
        yield "  beyond the copy, right after another", f"{again_us - copy_us:.0f} µs", ""
        yield "  a bare queue put", f"{put_us:.1f} µs", ""


def camera() -> Iterator[Row]:
    """Measure delay and CPU of a 720p camera at 30 fps through models that copy, beside a bare decode and encode."""
    camera_frames = NumberedFrames(1280, 720)
    cases: Sequence[tuple[str, Path, Mapping[str, float]]] = (
        ("loop, 60 fps", LOOP, {}),
        ("template webcam", TEMPLATE, {"width": 1280, "height": 720}),
        ("pipeline that waits, 30 fps", WEBCAM, {"fps": 30}),
        ("pipeline that polls, 30 fps", WEBCAM, {"fps": 30, "polls": 1}),
        ("pipeline that waits, 60 fps", WEBCAM, {"fps": 60}),
    )
    for name, project, config in cases:
        floors, delays, late, shares, rates = [], [], [], [], []
        for _ in range(RUNS):
            floors.append(camera_frames.floor_s())
            with serving(project, "127.0.0.1", (), **config) as port:
                trip = run(_there_and_back(port, camera_frames, COPYING if project is TEMPLATE else {}))
            settled = sorted(delay for sent_at, delay in trip.delays if sent_at - trip.began > SETTLED_S)
            delays.append(1e3 * statistics.median(settled))
            late.append(1e3 * settled[int(len(settled) * 0.99) - 1])
            shares.append(trip.cpu_s / trip.frames)
            rates.append(len(trip.delays) / CAMERA_S)
        ratio = statistics.median(share / floor for share, floor in zip(shares, floors, strict=True))
        floor_ms = 1e3 * statistics.median(floors)
        yield f"camera 720p30, {name}: frames shown a second", f"{statistics.median(rates):.1f}", "30"
        yield "  sent to received, p50", f"{statistics.median(delays):.1f} ms", "at most 14 ms"
        yield "    a bare decode and a bare encode", f"{floor_ms:.2f} ms", ""
        yield "    p99", f"{statistics.median(late):.1f} ms", ""
        yield "  CPU of server and engine a frame", f"{1e3 * statistics.median(shares):.2f} ms", ""
        yield "    of decode and encode", f"{ratio:.2f}", ""


class NumberedFrames:
    """Hold photo-like JPEGs with a number in their first row of blocks."""

    def __init__(self, width: int, height: int) -> None:
        images = photo_like(width, height, 8)
        self.files = [_encode(_marked(images[number % 8], number)) for number in range(2**BITS)]
        self._image = images[0]

    def floor_s(self) -> float:
        """Return the CPU time of one decode and one encode, median of 60."""
        times = []
        for number in range(60):
            began = time.thread_time()
            simplejpeg.decode_jpeg(self.files[number % len(self.files)], "RGB")
            _encode(self._image)
            times.append(time.thread_time() - began)
        return statistics.median(times)


def number_of(file: bytes) -> int:
    """Return the number in a frame, decoded at an eighth of its size."""
    small = simplejpeg.decode_jpeg(file, "GRAY", min_height=90, min_width=160, min_factor=8)
    step = BIT // (720 // small.shape[0])
    return sum(1 << bit for bit in range(BITS) if small[step // 2, bit * step + step // 2, 0] > 127)


@dataclass
class Trip:
    """Hold the delays that the client measured, and the CPU time of server and engine."""

    began: float
    delays: list[tuple[float, float]] = field(default_factory=list)
    frames: int = 0
    cpu_s: float = 0.0


async def _costs(port: int) -> Mapping[str, float]:
    async with connect(address(port)) as session:
        reply = await session.send("measure", count=120)
        assert reply.message is not None, "the handler returns a message"
        return reply.message.data


async def _there_and_back(port: int, camera_frames: NumberedFrames, events: Mapping[str, Mapping[str, object]]) -> Trip:
    trip = Trip(time.monotonic())
    sent: dict[int, float] = {}
    async with connect(address(port)) as session, asyncio.TaskGroup() as tasks:
        for name, values in events.items():
            await session.send(name, **values)
        tasks.create_task(_receive_frames(session, sent, trip))
        await _send_frames(session, camera_frames, sent, trip)
        await session.aclose()
    return trip


async def _receive_frames(session: Session, sent: dict[int, float], trip: Trip) -> None:
    """Receive frames until the session is closed, and match them with those sent."""
    async for frame in session.frames(decode=False):
        at = time.monotonic()
        trip.frames += 1
        sent_at = sent.get(number_of(frame.jpeg))
        if sent_at is not None:
            trip.delays.append((sent_at, at - sent_at))


async def _send_frames(session: Session, camera_frames: NumberedFrames, sent: dict[int, float], trip: Trip) -> None:
    """Send frames at a fixed rate; counts of frames and CPU time begin after a second."""
    trip.began = due = time.monotonic()
    used_s = 0.0
    for number in itertools.count():
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        if number == SETTLED_S * CAMERA_FPS:
            trip.frames, used_s = 0, cpu_s()
        if due - trip.began > CAMERA_S:
            trip.cpu_s = cpu_s() - used_s
            return
        name = number % len(camera_frames.files)
        sent[name] = time.monotonic()
        session.publish("camera", camera_frames.files[name])
        due += 1 / CAMERA_FPS


def _marked(image: NDArray[np.uint8], number: int) -> NDArray[np.uint8]:
    marked = image.copy()
    for bit in range(BITS):
        marked[:BIT, bit * BIT : (bit + 1) * BIT] = 255 if number >> bit & 1 else 0
    return marked


def _encode(image: NDArray[np.uint8]) -> bytes:
    file: bytes = simplejpeg.encode_jpeg(image, 85, "RGB", "420")
    return file
