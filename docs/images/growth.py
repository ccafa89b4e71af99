"""Draw growth.svg from the figures of docs/benchmarks.md: `.venv/bin/python docs/images/growth.py`."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

HERE = Path(__file__).resolve().parent
# In the order of the page: a table of its own for each number of viewers.
SECTION = re.compile(
    r"^\| (\d+) viewers: steps.*?hand-over to receipt, p50.*?p99 \| ([\d.]+) ms.*?server \| (\d+) %",
    re.MULTILINE | re.DOTALL,
)
VIEWERS_P99 = re.compile(r"skipped by all.*?p50 \| [\d.]+ ms.*?p99 \| ([\d.]+) ms", re.DOTALL)
GREY = "#888888"


def main() -> None:
    page = (HERE.parent / "benchmarks.md").read_text(encoding="utf-8")
    found = [(int(part[1]), int(part[3]), part[0]) for part in SECTION.finditer(page)]
    counts = [count for count, _, _ in found]
    late = [float(match[1]) if (match := VIEWERS_P99.search(text)) else None for _, _, text in found]
    mpl.rcParams.update({"svg.hashsalt": "growth", "text.color": GREY, "axes.edgecolor": GREY, "font.size": 9})
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 2.6))
    for ax, values, title, colour in (
        (axes[0], [share for _, share, _ in found], "server, % of a core", "#2a9d8f"),
        (axes[1], late, "delay of the viewers, p99, ms", "#e76f51"),
    ):
        points = [(count, value) for count, value in zip(counts, values, strict=True) if value is not None]
        ax.plot(*zip(*points, strict=True), marker="o", color=colour)
        ax.set_title(title, fontsize=9)
        ax.set_xlabel("viewers", color=GREY)
        ax.set_ylim(0)
        ax.tick_params(colors=GREY)
        ax.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(HERE / "growth.svg", transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    main()
