"""A page with the steps of one or two models over time and the stages of a frame, in one file without scripts. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from reactor_cli.bench.figures import ModelCost, Run
from reactor_cli.bench.tables import format_value

WIDTH, HEIGHT, LEFT = 900, 260, 70
COLOURS = ("#2f6fdf", "#d9772b")
# More points than this are not told apart.
MOST_POINTS = 4000
_PAGE = """\
<!doctype html>
<meta charset="utf-8">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em }}
svg {{ width: 100%; height: auto }}
text {{ font: 12px system-ui, sans-serif; fill: currentColor }}
line {{ stroke: currentColor; opacity: .25 }}
</style>
<h1>{title}</h1>
{charts}
"""


def plot(names: Sequence[str], runs: Sequence[Sequence[Run]], costs: Sequence[ModelCost]) -> str:
    """Return an HTML page about one or two models; each has its runs, which are drawn over each other."""
    title = escape(" and ".join(names))
    charts = [f"<h2>{escape(costs[0].step_name)}, in milliseconds over the seconds of a run</h2>", _steps(names, runs)]
    charts += ["<h2>Where the time of a frame goes, in milliseconds</h2>", _stages(names, costs)]
    return _PAGE.format(title=title, charts="\n".join(charts))


def _steps(names: Sequence[str], runs: Sequence[Sequence[Run]]) -> str:
    points = [[(step.began - run.settled_at, 1e3 * step.length) for run in own for step in run.steps] for own in runs]
    longest_s = max((run.until - run.settled_at for own in runs for run in own), default=1.0)
    highest_ms = max((length for own in points for _, length in own), default=1.0) or 1.0
    drawn = [_axis(HEIGHT * (1 - share), f"{format_value(share * highest_ms)} ms") for share in (0.0, 0.5, 1.0)]
    for colour, own in zip(COLOURS, points, strict=False):
        every = len(own) // MOST_POINTS + 1
        for at, length in own[::every]:
            x, y = LEFT + (WIDTH - LEFT) * at / longest_s, HEIGHT * (1 - length / highest_ms)
            drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{colour}" opacity=".6"/>')
    return _svg(HEIGHT + 40, [*drawn, *_legend(names, HEIGHT + 30)])


def _stages(names: Sequence[str], costs: Sequence[ModelCost]) -> str:
    stages = list(dict.fromkeys(stage for cost in costs for stage in cost.stages_ms))
    highest = max((each for cost in costs for each in cost.stages_ms.values()), default=1.0) or 1.0
    bar, left = 14, 110
    row = bar * len(costs) + 12
    drawn = []
    for number, stage in enumerate(stages):
        top = number * row
        drawn.append(f'<text x="{left - 8}" y="{top + bar}" text-anchor="end">{escape(stage)}</text>')
        for index, (colour, cost) in enumerate(zip(COLOURS, costs, strict=False)):
            value = cost.stages_ms.get(stage, 0.0)
            width, y = (WIDTH - left - 60) * value / highest, top + 2 + index * bar
            drawn.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{bar - 3}" fill="{colour}"/>')
            drawn.append(f'<text x="{left + width + 6:.1f}" y="{y + bar - 4}">{format_value(value)}</text>')
    return _svg(len(stages) * row + 30, [*drawn, *_legend(names, len(stages) * row + 20)])


def _axis(y: float, label: str) -> str:
    text = f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    return f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH}" y2="{y:.1f}"/>{text}'


def _legend(names: Sequence[str], y: float) -> list[str]:
    """Return the names in their colours, if there are two."""
    if len(names) < 2:
        return []
    return [
        f'<text x="{LEFT + 250 * index}" y="{y}" style="fill: {colour}">{escape(name)}</text>'
        for index, (name, colour) in enumerate(zip(names, COLOURS, strict=False))
    ]


def _svg(height: float, drawn: Sequence[str]) -> str:
    return f'<svg viewBox="0 -10 {WIDTH} {height + 10}" role="img">{"".join(drawn)}</svg>'
