"""A chart of the steps of one or two models over time and of the stages of a frame, drawn by matplotlib."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from reactor_cli.bench.figures import ModelCost, Run
from reactor_cli.bench.tables import format_value
from reactor_runtime.clips.output_file import check_output_file
from reactor_runtime.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE_INCHES = (9, 8)
PNG_DPI = 150
# More points would overlap.
MOST_POINTS = 4000
_PAGE = '<!doctype html>\n<meta charset="utf-8">\n<title>{title}</title>\n{svg}'


def check_plot(path: Path) -> None:
    """Make the folder of a chart; raise UsageError if it can't be drawn in a file of this name."""
    if path.suffix not in (".html", ".png"):
        raise UsageError(f"{path} does not end in .png or .html", hint="--plot writes an image, or a page of one file")
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("--plot needs the package matplotlib", hint="pip install 'reactor-live[plot]'")
    check_output_file(path)


def write_plot(path: Path, names: Sequence[str], runs: Sequence[Sequence[Run]], costs: Sequence[ModelCost]) -> None:
    """Write the chart of one or two models; the runs of each are drawn over each other. Raises OSError."""
    import matplotlib

    figure = _draw(names, runs, costs)
    if path.suffix == ".png":
        figure.savefig(path, dpi=PNG_DPI)
        return
    svg = StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(svg, format="svg")
    # Without the declaration of an XML document.
    drawn = svg.getvalue()[svg.getvalue().index("<svg") :]
    path.write_text(_PAGE.format(title=escape(" and ".join(names)), svg=drawn), encoding="utf-8")


def _draw(names: Sequence[str], runs: Sequence[Sequence[Run]], costs: Sequence[ModelCost]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    steps, stages = figure.subplots(2)
    _draw_steps(steps, names, runs)
    steps.set_title(f"{costs[0].step_name}, in milliseconds over the seconds of a run")
    _draw_stages(stages, costs)
    stages.set_title("where the time of a frame goes, in milliseconds")
    return figure


def _draw_steps(axes: Axes, names: Sequence[str], runs: Sequence[Sequence[Run]]) -> None:
    for name, own in zip(names, runs, strict=True):
        points = [(step.began - run.settled_at, 1e3 * step.length) for run in own for step in run.steps]
        drawn = points[:: len(points) // MOST_POINTS + 1]
        axes.plot([at for at, _ in drawn], [length for _, length in drawn], ".", alpha=0.6, label=name)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper right")


def _draw_stages(axes: Axes, costs: Sequence[ModelCost]) -> None:
    stages = list(dict.fromkeys(stage for cost in costs for stage in cost.stages_ms))
    height = 0.8 / len(costs)
    for index, cost in enumerate(costs):
        values = [cost.stages_ms.get(stage, 0.0) for stage in stages]
        bars = axes.barh([number + index * height for number in range(len(stages))], values, height)
        axes.bar_label(bars, [format_value(value) for value in values], padding=3)
    axes.set_yticks([number + 0.4 - height / 2 for number in range(len(stages))], stages)
    axes.invert_yaxis()
