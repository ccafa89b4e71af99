from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from reactor_cli.bench.advice import suggest_changes
from reactor_cli.bench.figures import ModelCost, Run, figures_of, percentile
from reactor_cli.bench.memory import MIB
from reactor_cli.bench.spans import Span, read_spans


def spans_of(lengths: list[float], *, every: float, began: float = 10.0, has_frame: bool = False) -> list[Span]:
    return [Span(began + index * every, length, has_frame) for index, length in enumerate(lengths)]


def run(**spans: list[Span]) -> Run:
    """Return a run whose first second, from 10 to 11, is not measured, and that lasts until 21."""
    named = {name.replace("_", " "): each for name, each in spans.items()}
    return Run(load_s=2.0, first_frame_s=0.3, settled_at=11.0, until_at=21.0, spans=named)


def test_steps_are_those_of_the_measured_time() -> None:
    figures = figures_of([run(step=spans_of([5.0] + [0.02] * 400, every=0.1))], None)

    assert figures.step_p50_ms == figures.step_p99_ms == pytest.approx(20)
    assert figures.first_step_ms == pytest.approx(5000)
    assert figures.load_ms == 2000


def test_the_possible_rate_counts_steps_handlers_and_hand_overs() -> None:
    spans = {
        "step": spans_of([0.020] * 400, every=0.1),
        "hand_over": spans_of([0.004] * 400, every=0.1, has_frame=True),
        "handler_set_x": spans_of([0.001] * 400, every=0.1),
    }

    figures = figures_of([run(**spans)], 10.0)

    assert figures.shown_fps == pytest.approx(10)
    assert figures.possible_fps == pytest.approx(40)
    assert figures.real_time_factor == pytest.approx(4)
    assert figures_of([run(**spans)], None).real_time_factor is None


def test_sound_that_is_handed_over_alone_is_no_frame() -> None:
    frames = spans_of([0.02] * 400, every=0.1, has_frame=True)
    spans = {"step": frames, "hand_over": [*frames, *spans_of([0.0] * 800, every=0.05)]}

    assert figures_of([run(**spans)], None).shown_fps == pytest.approx(10)


def test_a_model_with_a_third_of_its_rate_needs_three_seconds_for_one() -> None:
    slow = spans_of([0.1] * 400, every=0.1, has_frame=True)

    figures = figures_of([run(step=slow, hand_over=[Span(each.began, 0.0, True) for each in slow])], 30.0)

    assert figures.real_time_factor == pytest.approx(1 / 3)


def test_the_conversion_is_not_part_of_the_step_among_the_stages() -> None:
    spans = {
        "step": spans_of([0.020] * 400, every=0.1),
        "convert": spans_of([0.005] * 400, every=0.1),
        "encode": spans_of([0.003] * 400, every=0.1),
    }

    figures = figures_of([run(**spans)], None)

    assert list(figures.stages_ms) == ["step", "convert", "encode"]
    assert list(figures.stages_ms.values()) == pytest.approx([15, 5, 3])
    assert figures.step_p50_ms == pytest.approx(20)


@pytest.mark.parametrize("name", ["block", "between emits"])
def test_other_styles_have_other_steps(name: str) -> None:
    figures = figures_of([run(**{name.replace(" ", "_"): spans_of([0.5] * 20, every=0.5)})], None)

    assert figures.step_name == name
    assert figures.step_p50_ms == pytest.approx(500)


def test_a_model_without_frames_has_no_figures_of_them() -> None:
    figures = figures_of([run()], 30.0)

    assert figures.step_p50_ms is None
    assert figures.possible_fps is None
    assert figures.real_time_factor is None
    assert list(suggest_changes(figures)) == []


def test_memory_is_the_highest_of_all_runs() -> None:
    low, high = (dataclasses.replace(run(), rest_bytes=size * MIB) for size in (100, 300))

    assert figures_of([low, high], None).rest_mib == 300
    assert figures_of([run()], None).rest_mib is None


def test_medians_of_groups_follow_the_time_of_the_steps() -> None:
    lengths = [0.0] * 10 + [0.01] * 5 + [0.03] * 5
    taken = run(step=spans_of(lengths, every=0.1))

    assert taken.step_medians(0.5) == pytest.approx([0.01, 0.03])


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 51), (0.99, 100), (1.0, 100)])
def test_a_percentile_is_one_of_the_values(share: float, value: int) -> None:
    assert percentile(range(1, 101), share) == value
    assert percentile([], share) is None


GOOD = ModelCost(
    load_ms=100,
    first_frame_ms=50,
    first_step_ms=25,
    step_name="step",
    step_p50_ms=25,
    step_p95_ms=26,
    step_p99_ms=27,
    shown_fps=30,
    possible_fps=38,
    declared_fps=30,
    real_time_factor=1.3,
    input_p50_ms=30,
    input_p95_ms=50,
    rest_mib=100,
    peak_mib=120,
    gpu_mib=None,
    stages_ms={"step": 24, "convert": 0.2, "hand over": 0.2, "encode": 2},
)


def test_a_good_model_gets_no_advice() -> None:
    assert list(suggest_changes(GOOD)) == []


def test_a_loop_at_the_rate_of_its_camera_gets_no_advice() -> None:
    loop = dataclasses.replace(GOOD, step_name="between emits", possible_fps=29.8, step_p50_ms=33.3, step_p99_ms=40)

    assert list(suggest_changes(loop)) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"first_step_ms": 4000}, "set warmup = 1"),
        ({"possible_fps": 20.0}, "makes 20.0 of the 30 frames"),
        ({"possible_fps": 90.0}, "fps may be raised"),
        ({"stages_ms": {"step": 15, "convert": 10}}, "takes 40% of a step: yield contiguous uint8"),
        # 4 frames of a step of 60 ms, two of which are shown meanwhile.
        ({"step_p50_ms": 60.0, "step_p95_ms": 100.0, "step_p99_ms": 100.0, "possible_fps": 58.0}, "buffer_size = 3"),
        ({"step_p99_ms": 120.0}, "one step in a hundred takes 120 ms"),
        ({"stages_ms": {"step": 15, "encode": 40}}, "encoding a frame takes 40 ms"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_advice_names_what_to_change(change: dict[str, object], words: str) -> None:
    (sentence,) = suggest_changes(dataclasses.replace(GOOD, **change))  # type: ignore[arg-type]

    assert words in sentence


def test_spans_of_a_trace_are_the_seconds_of_work(tmp_path: Path) -> None:
    events = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 1, "args": {"name": "server"}},
        {"ph": "X", "name": "step", "ts": 3_000_000, "dur": 20_000, "pid": 2, "tid": 2, "args": {"waited_ms": 5.0}},
        {"ph": "X", "name": "step", "ts": 1_000_000, "dur": 10_000, "pid": 2, "tid": 2, "args": {}},
        {"ph": "b", "name": "encode", "cat": "frame", "id": "s.1", "ts": 5_000_000},
        {"ph": "b", "name": "encode", "cat": "frame", "id": "s.2", "ts": 5_100_000},
        {"ph": "e", "name": "encode", "cat": "frame", "id": "s.2", "ts": 5_102_000},
        {"ph": "e", "name": "encode", "cat": "frame", "id": "s.1", "ts": 5_500_000},
        {"ph": "e", "name": "encode", "cat": "frame", "id": "s.9", "ts": 5_500_000},
    ]
    (tmp_path / "trace.json").write_text(json.dumps(events))

    spans = read_spans(tmp_path / "trace.json")

    assert [(each.began, each.length) for each in spans["step"]] == [(1.0, 0.01), (3.0, pytest.approx(0.015))]
    assert [each.length for each in spans["encode"]] == pytest.approx([0.5, 0.002])
