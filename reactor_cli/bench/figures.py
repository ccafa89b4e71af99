"""The figures of a model, computed from one or more runs. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from reactor_cli.bench.memory import MIB
from reactor_cli.bench.spans import STAGES, Span

# The spans that make frames, by authoring style.
STEPS = ("step", "block", "between emits")


@dataclass(frozen=True, slots=True)
class Run:
    """Hold what was recorded in one run of a model.

    Times are seconds, those of spans and those ending in `_at` on the monotonic clock. Memory is in bytes, None where
    it can't be measured. The figures are of the time from `settled_at` to `until_at`.
    """

    load_s: float
    first_frame_s: float
    settled_at: float
    until_at: float
    spans: Mapping[str, Sequence[Span]]
    inputs_s: Sequence[float] = ()
    rest_bytes: int | None = None
    peak_bytes: int | None = None
    gpu_bytes: int | None = None

    def settled(self, name: str) -> list[Span]:
        """Return the spans of a name that began while the figures were taken."""
        return [span for span in self.spans.get(name, ()) if self.settled_at <= span.began < self.until_at]

    @property
    def steps(self) -> list[Span]:
        """Return the steps of a pipeline, the blocks of a block model, or the times between two `emit()` of a loop."""
        return self.settled(self.step_name)

    def step_medians(self, group_s: float) -> list[float]:
        """Return the medians of the steps that began in each `group_s` seconds."""
        groups: defaultdict[int, list[float]] = defaultdict(list)
        for step in self.steps:
            groups[int((step.began - self.settled_at) / group_s)].append(step.length)
        return [statistics.median(lengths) for lengths in groups.values()]

    @property
    def step_name(self) -> str:
        return next((name for name in STEPS if self.settled(name)), "step")


@dataclass(frozen=True, slots=True)
class ModelCost:
    """Hold the figures of a model; times in milliseconds, memory in MiB, None where nothing was measured.

    `possible_fps` is the rate at which the model makes frames when nothing holds it back; `real_time_factor` how many
    seconds of video, at the declared rate, it makes in a second of its own work. `stages_ms` are medians: where the
    time of a frame goes, in order.
    """

    load_ms: float
    first_frame_ms: float
    first_step_ms: float | None
    step_name: str
    step_p50_ms: float | None
    step_p95_ms: float | None
    step_p99_ms: float | None
    shown_fps: float
    possible_fps: float | None
    declared_fps: float | None
    real_time_factor: float | None
    input_p50_ms: float | None
    input_p95_ms: float | None
    rest_mib: float | None
    peak_mib: float | None
    gpu_mib: float | None
    stages_ms: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def figures_of(runs: Sequence[Run], declared_fps: float | None) -> ModelCost:
    """Return the figures of runs of the same model, taken together; there is at least one run."""
    steps = [step.length for run in runs for step in run.steps]
    frames = sum(span.has_frame for run in runs for span in run.settled("hand over"))
    window_s = sum(run.until_at - run.settled_at for run in runs)
    busy_s = sum(_busy_s(run) for run in runs)
    inputs = [1e3 * delay for run in runs for delay in run.inputs_s]
    possible_fps = frames / busy_s if busy_s and frames else None
    first_steps = [run.spans[name][0].length for run in runs for name in STEPS if run.spans.get(name)]
    return ModelCost(
        load_ms=1e3 * statistics.median(run.load_s for run in runs),
        first_frame_ms=1e3 * statistics.median(run.first_frame_s for run in runs),
        first_step_ms=_ms(first_steps, 0.5),
        step_name=runs[0].step_name,
        step_p50_ms=_ms(steps, 0.5),
        step_p95_ms=_ms(steps, 0.95),
        step_p99_ms=_ms(steps, 0.99),
        shown_fps=frames / window_s,
        possible_fps=possible_fps,
        declared_fps=declared_fps,
        real_time_factor=possible_fps / declared_fps if possible_fps and declared_fps else None,
        input_p50_ms=percentile(inputs, 0.5),
        input_p95_ms=percentile(inputs, 0.95),
        rest_mib=_mib([run.rest_bytes for run in runs]),
        peak_mib=_mib([run.peak_bytes for run in runs]),
        gpu_mib=_mib([run.gpu_bytes for run in runs]),
        stages_ms=dict(_stages_ms(runs)),
    )


def percentile(values: Sequence[float], share: float) -> float | None:
    """Return the value below which `share` of the values lie; None without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def _ms(seconds: Sequence[float], share: float) -> float | None:
    value = percentile(seconds, share)
    return None if value is None else 1e3 * value


def _mib(sizes: Sequence[int | None]) -> float | None:
    known = [size for size in sizes if size is not None]
    return max(known) / MIB if known else None


def _busy_s(run: Run) -> float:
    """Return the seconds in which the model worked: its steps, its handlers and the hand-over of its output."""
    handlers = [name for name in run.spans if name.startswith("handler ")]
    others = [span.length for name in ("hand over", *handlers) for span in run.settled(name)]
    return sum(step.length for step in run.steps) + sum(others)


def _stages_ms(runs: Sequence[Run]) -> Iterator[tuple[str, float]]:
    """Yield the median of each stage of a frame; the conversion is not part of the step here."""
    converts = [span.length for run in runs for span in run.settled("convert")]
    steps = [step.length for run in runs for step in run.steps]
    convert_s = statistics.median(converts) if converts else 0.0
    if steps:
        inside = convert_s if runs[0].step_name == "step" else 0.0
        yield runs[0].step_name, 1e3 * max(0.0, statistics.median(steps) - inside)
    if converts:
        yield "convert", 1e3 * convert_s
    for name in ("hand over", *STAGES, "send"):
        lengths = [span.length for run in runs for span in run.settled(name)]
        if lengths:
            yield name, 1e3 * statistics.median(lengths)
