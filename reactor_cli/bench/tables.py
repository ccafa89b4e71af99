"""The figures of one model, or of two side by side, as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from reactor_cli.bench.figures import ModelCost
from reactor_cli.bench.significance import SIGNIFICANT

if TYPE_CHECKING:
    from rich.table import Table

LEAST = 1e-3


class Row(NamedTuple):
    """Name a figure, with its value and unit."""

    name: str
    value: float | None
    unit: str


def rows_of(figures: ModelCost) -> Iterator[Row]:
    """Yield the figures in the order in which they are shown."""
    step = figures.step_name
    yield Row("load", figures.load_ms / 1e3, "s")
    yield Row("connect to first frame", figures.first_frame_ms, "ms")
    yield Row(f"{step}, first", figures.first_step_ms, "ms")
    yield Row(f"{step}, p50", figures.step_p50_ms, "ms")
    yield Row(f"{step}, p95", figures.step_p95_ms, "ms")
    yield Row(f"{step}, p99", figures.step_p99_ms, "ms")
    yield Row("frames shown", figures.shown_fps, "fps")
    yield Row("frames possible", figures.possible_fps, "fps")
    yield Row("frames declared", figures.declared_fps, "fps")
    yield Row("real-time factor", figures.real_time_factor, "")
    yield Row("input to frame, p50", figures.input_p50_ms, "ms")
    yield Row("input to frame, p95", figures.input_p95_ms, "ms")
    yield Row("memory after loading", figures.rest_mib, "MiB")
    yield Row("memory, peak", figures.peak_mib, "MiB")
    yield Row("memory on GPUs", figures.gpu_mib, "MiB")
    for name, milliseconds in figures.stages_ms.items():
        yield Row(f"of a frame: {name}", milliseconds, "ms")


def figures_table(figures: ModelCost) -> Table:
    """Return the figures that were measured as a table."""
    from rich.table import Column, Table

    made = Table.grid(Column(style="cyan", no_wrap=True), Column(justify="right"), Column(style="dim"), padding=(0, 2))
    for row in rows_of(figures):
        if row.value is not None:
            made.add_row(f"  {row.name}", format_value(row.value), row.unit)
    return made


def comparison(names: Sequence[str], first: ModelCost, second: ModelCost) -> Table:
    """Return the figures of two models side by side, with the ratio of the second to the first."""
    from rich.table import Column, Table

    made = Table(
        Column("", style="cyan", no_wrap=True),
        Column(names[0], justify="right"),
        Column(names[1], justify="right"),
        Column("", style="dim"),
        Column("ratio", justify="right"),
        box=None,
        padding=(0, 2),
    )
    before, after = ({row.name: row for row in rows_of(each) if row.value is not None} for each in (first, second))
    for name in dict.fromkeys((*before, *after)):
        was, now = (rows[name].value if name in rows else None for rows in (before, after))
        ratio = f"{now / was:.2f}" if was and now is not None else ""
        made.add_row(name, format_value(was), format_value(now), {**before, **after}[name].unit, ratio)
    return made


def describe_difference(
    names: Sequence[str], first: ModelCost, second: ModelCost, *, p: float, rounds: int | None = None
) -> str:
    """Return one sentence on whether the steps of two models differ; chance alone would do so with probability `p`.

    `rounds` is the number of rounds to measure, if too few were measured to find any difference.
    """
    before, after = first.step_p50_ms, second.step_p50_ms
    if not before or not after:
        return "there are no steps to compare"
    if rounds is not None:
        return (
            f"too few steps to tell whether {names[0]} and {names[1]} differ: measure longer with --seconds, "
            f"or {rounds} rounds with --rounds {rounds}"
        )
    shown = f"p < {LEAST:g}" if p < LEAST else f"p = {p:.2g}"
    if p >= SIGNIFICANT:
        return f"the steps of {names[0]} and {names[1]} differ by no more than chance ({shown})"
    change = after / before - 1
    more = "more" if change > 0 else "less"
    return f"a step takes {abs(change):.1%} {more} with {names[1]} than with {names[0]} ({shown})"


def format_value(value: float | None) -> str:
    """Format a value: two decimals below 10, one below 100, none from 100 on."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
