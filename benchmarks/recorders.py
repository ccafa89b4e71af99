"""The cost of `--record` on the model's thread, beside a bare copy of the frame, and of `--record-video`."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.receiver import receive
from benchmarks.serving import RUNS, cpu_s, photo_like, serving
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.engine.recorder import Recorder, RecordOptions
from reactor_runtime.interface import InputState, Output, ReactorPipeline, Video
from reactor_runtime.ipc.messages import StartSession

FRAMES = 300
STEP_S = 1 / 30
# A step of a model goes on while the recorder's thread writes.
PAUSE_S = 0.002
# By what the rows say; "" without a recording.
OPTIONS = {
    "": (),
    "--record": (),
    "--record-video": ("--record-video",),
    "--record-video=lossless": ("--record-video=lossless",),
}


class Shown(Output):
    main_video: Video


class Model(ReactorPipeline):
    state: InputState
    output: Shown

    def inference(self) -> Iterator[Any]:
        yield from ()


def recording() -> Iterator[tuple[str, str, str]]:
    """Measure what recording one frame costs the model's thread."""
    for width, height in ((640, 480), (1280, 720)):
        images = photo_like(width, height, 4)
        copy_s, record_s = _copy_s(images), _record_s(images)
        yield f"recording a frame of {width}x{height}, on the model's thread", f"{1e6 * record_s:.0f} µs", ""
        yield "  of a step at 30 fps", f"{record_s / STEP_S:.2%}", "at most 1 %"
        yield "  of a bare copy of the frame", f"{record_s / copy_s:.2f}", ""
    yield from _served()


def _served() -> Iterator[tuple[str, str, str]]:
    """Measure CPU and delay of a paced stream of 720p30 with each option, beside one without a recording."""
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in OPTIONS}
    for _ in range(RUNS):
        for name, options in OPTIONS.items():
            with tempfile.TemporaryDirectory() as directory:
                record = ("--record", directory, *options) if name else ()
                with serving(options=record, fps=30) as port:
                    runs[name].append(_stream_ms(port))
    cpu_ms, age_ms = (statistics.median(column) for column in zip(*runs.pop(""), strict=True))
    yield "720p30: CPU of server and engine a frame", f"{cpu_ms:.2f} ms", ""
    yield "  hand-over to receipt, p50", f"{age_ms:.2f} ms", ""
    for name, figures in runs.items():
        cpu, age = (statistics.median(column) for column in zip(*figures, strict=True))
        bounds = ("at most 1.1", "at most 1.05") if name == "--record-video" else ("", "")
        yield f"  with {name}: CPU over that", f"{cpu / cpu_ms:.2f}", bounds[0]
        yield "    delay over that", f"{age / age_ms:.2f}", bounds[1]


def _stream_ms(port: int) -> tuple[float, float]:
    """Return the CPU time a frame, and the median age of frames, in milliseconds."""
    receive(port, 2.0)
    used_s = cpu_s()
    received = receive(port, 5.0)
    cpu_ms = 1e3 * (cpu_s() - used_s) / len(received)
    return cpu_ms, 1e3 * statistics.median(frame.age_s for frame in received[30:])


def _copy_s(images: NDArray[np.uint8]) -> float:
    return _median_s(lambda index: images[index % len(images)].copy())


def _record_s(images: NDArray[np.uint8]) -> float:
    contract = Contract.of(Model)
    (track,) = contract.tracks
    with tempfile.TemporaryDirectory() as directory:
        recorder = Recorder(RecordOptions(Path(directory)), {}, Path(directory))
        log = recorder.start_log(StartSession("s-1", "c-1", 0.0), contract)
        assert log is not None, "nothing has failed"
        record_s = _median_s(lambda index: log.on_output(index, [{track: images[index % len(images)]}]))
        recorder.close()
    return record_s


def _median_s(work: Callable[[int], object]) -> float:
    times = []
    for index in range(FRAMES):
        began = time.perf_counter()
        work(index)
        times.append(time.perf_counter() - began)
        time.sleep(PAUSE_S)
    return statistics.median(times)
