"""Hot reload: from the write of a file to the receipt of the first frame of its code, with a load() that takes 30 s."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.serving import address, serving
from reactor_runtime.client import Frame, connect

SAVES = 50
LOAD_S = 30
# A level of gray survives JPEG with an error of less than half of this.
APART = 4
MODEL = """
import time

import numpy as np
from reactor_runtime import InputState, Output, ReactorPipeline, Video


class Frame(Output):
    main_video: Video


class State(InputState):
    value: int = 0


class Model(ReactorPipeline):
    state: State
    fps = 30

    def load(self, config):
        time.sleep({load_s})

    def inference(self):
        while True:
            yield Frame(main_video=np.full((360, 640, 3), {level}, np.uint8))
"""


def reloads() -> Iterator[tuple[str, str, str]]:
    """Save a model 50 times while a client receives its frames."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / "reactor.yaml").write_text("model: pipeline:Model\n")
        _save(project, APART)
        with serving(project, options=["--reload"]) as port, connect(address(port)) as session:
            taken_s = sorted(_measure(project, session.frames()))
    yield (
        f"save to first frame of the new code, load() of {LOAD_S} s",
        f"{_ms(statistics.median(taken_s))}",
        "p50 300 ms",
    )
    yield "  slowest of 50, which is the 99th percentile", f"{_ms(taken_s[-1])}", "p99 1000 ms"


def _measure(project: Path, frames: Iterator[Frame]) -> Iterator[float]:
    for number in range(SAVES):
        level = APART * (number + 2)
        began = time.perf_counter()
        _save(project, level)
        while abs(int(next(frames).array[0, 0, 0]) - level) > 1:
            pass
        yield time.perf_counter() - began


def _save(project: Path, level: int) -> None:
    (project / "pipeline.py").write_text(MODEL.format(load_s=LOAD_S, level=level))


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms"
