"""Age, rate and quality of the stream at a client behind a bad network, beside a loop that sends every frame.

The client of that loop is the bare receiver, because the loop sends nothing but frames.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.bare_sender import sending
from benchmarks.link import Link, linked
from benchmarks.receiver import receive
from benchmarks.serving import address, age_s, run, serving
from reactor_runtime.client import connect

Row = tuple[str, str, str]

FPS = 30
SECONDS = 30.0
# At 2 Mbit/s a frame of the top rung takes a second, and the server lowers the quality after three.
SETTLED_S = 5.0
TOP_BYTES = 197_000
PLAIN_S = 12.0

LINKS = {
    **{
        f"{mbit} Mbit/s, {round_trip} ms": Link(mbit, round_trip / 1000)
        for mbit in (2, 8, 30)
        for round_trip in (20, 80, 200)
    },
    "8 Mbit/s, 80 ms, 30 ms of jitter": Link(8, 0.08, jitter_s=0.03),
    "8 Mbit/s, 80 ms, 3 s outage": Link(8, 0.08, outage_at_s=10, outage_s=3),
    "30 and 4 Mbit/s, 5 s each, 40 ms": Link(30, 0.04, then_mbit=4, change_every_s=5),
    "loopback": Link(10_000, 0.0),
}


@dataclass
class Painted:
    """Collect the frames that a client painted after `SETTLED_S`, and the qualities in the server's statistics."""

    seconds: float
    ages_ms: list[float] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    qualities: Counter[str] = field(default_factory=Counter)
    history: list[str] = field(default_factory=list)

    def paint(self, after_s: float, age_s: float, size_bytes: int) -> None:
        if after_s > SETTLED_S:
            self.ages_ms.append(1e3 * age_s)
            self.sizes.append(size_bytes)

    def add_stats(self, stats: Mapping[str, Any]) -> None:
        name = f"{stats['quality']}" + (f"·{scale:g}" if (scale := stats.get("scale", 1)) < 1 else "")
        self.qualities[name] += 1
        if self.history[-1:] != [name]:
            self.history.append(name)

    @property
    def fps(self) -> float:
        return len(self.sizes) / (self.seconds - SETTLED_S)

    def age_ms(self, share: float) -> float:
        return sorted(self.ages_ms)[int(len(self.ages_ms) * share)]

    @property
    def summary(self) -> str:
        mbit = 8 * statistics.mean(self.sizes) * self.fps / 1e6
        quality = self.qualities.most_common(1)[0][0] if self.qualities else ""
        return (
            f"{self.age_ms(0.5):6.0f} {self.age_ms(0.99):6.0f} ms {self.fps:5.1f} fps "
            f"{statistics.mean(self.sizes) / 1000:4.0f} kB {mbit:5.1f} Mbit/s {quality}"
        )


def networks() -> Iterator[Row]:
    """Measure a 720p stream of 30 fps over bad links: age p50 and p99 when painted, frames, bytes, usual quality."""
    for name, link in LINKS.items():
        bound_ms = 1000 * (2 * link.round_trip_s) + 150
        with serving(fps=FPS) as port, linked(port, link) as through:
            painted = run(watch(through, SECONDS))
        yield name, painted.summary, f"p99 under {bound_ms:.0f} ms"
        yield "  qualities in order", " ".join(painted.history), ""
        with sending(TOP_BYTES, FPS) as port, linked(port, link) as through:
            yield "  plain send_bytes", _plain(through).summary, ""


def _plain(port: int) -> Painted:
    painted, began = Painted(PLAIN_S), time.monotonic()
    for frame in receive(port, PLAIN_S):
        painted.paint(frame.at - began, frame.age_s, frame.size_bytes)
    return painted


async def watch(port: int, seconds: float, host: str = "127.0.0.1") -> Painted:
    """Paint and acknowledge each frame as it comes."""
    painted = Painted(seconds)
    began = time.monotonic()
    async with connect(address(port, host)) as session:
        stats = session.stats
        try:
            async with asyncio.timeout(seconds):
                async for frame in session.frames(decode=False):
                    painted.paint(time.monotonic() - began, age_s(frame), len(frame.data))
                    if session.stats is not stats:
                        painted.add_stats(stats := session.stats)
        except TimeoutError:
            return painted
    raise ConnectionError("the server closed the session")
