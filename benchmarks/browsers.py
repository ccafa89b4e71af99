"""H.264 beside JPEG in a browser that decodes in software: its CPU for a frame, and the time until it is painted."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from benchmarks.serving import MODEL, RUNS, address, cpu_of, serving
from tests.page.conftest import launched
from tests.processes import descendants

Row = tuple[str, str, str]

FPS = 30
SETTLED_S, MEASURED_S = 4.0, 8.0
# A page with the client and a canvas, and without the controls of our page.
WATCH = """async () => {
  const { connect } = await import("/reactor.js");
  document.body.innerHTML = "<canvas>";
  const session = connect(location.origin);
  session.attach(null, document.querySelector("canvas"));
  window.ages = [];
  session.addEventListener("painted", ({ detail: frame }) => {
    ages.push(performance.timeOrigin + frame.at - frame.wallUs / 1000);
  });
}"""


@dataclass(frozen=True, slots=True)
class _Watched:
    cpu_ms: float
    p50_ms: float
    p99_ms: float


def browsers() -> Iterator[Row]:
    """Measure CPU of a browser and age at painting of 720p30, H.264 over JPEG, by turns."""
    watched: dict[str, list[_Watched]] = {"never": [], "always": []}
    with sync_playwright() as playwright:
        for _ in range(RUNS):
            for codec, found in watched.items():
                server = serving(MODEL, options=("--codec", codec), fps=FPS)
                with server as port, launched(playwright.chromium) as browser:
                    found.append(_watch(browser, port))
    jpeg, video = watched["never"], watched["always"]
    cpu = statistics.median(each.cpu_ms for each in jpeg)
    yield "720p30 in Chromium: its CPU a frame, JPEG", f"{cpu:.1f} ms", ""
    over = statistics.median(each.cpu_ms for each in video) / cpu
    yield "  H.264 over JPEG", f"{over:.2f}", "at most 0.8"
    for name, goal in (("p50_ms", 12), ("p99_ms", 20)):
        ages = [statistics.median(getattr(each, name) for each in runs) for runs in (jpeg, video)]
        title = f"  hand-over to painted, {name.removesuffix('_ms')}, JPEG, and H.264 beyond it"
        yield title, f"{ages[0]:.1f} ms +{ages[1] - ages[0]:.1f} ms", f"at most +{goal} ms"


def _watch(browser: Browser, port: int) -> _Watched:
    with browser.new_page() as page:
        page.goto(f"{address(port)}/live")
        page.evaluate(WATCH)
        page.wait_for_timeout(1e3 * SETTLED_S)
        page.evaluate("ages.length = 0")
        began_s = _cpu_s()
        page.wait_for_timeout(1e3 * MEASURED_S)
        used_s = _cpu_s() - began_s
        ages = sorted(page.evaluate("ages"))
    return _Watched(1e3 * used_s / len(ages), statistics.median(ages), ages[int(0.99 * len(ages)) - 1])


def _cpu_s() -> float:
    """Return the CPU seconds of the browser: of all its processes below this one."""
    below = (pid for pid in descendants(os.getpid()) if b"chrom" in Path(f"/proc/{pid}/cmdline").read_bytes())
    return sum(map(cpu_of, below))
