"""Compare a git revision with the working tree: both run by turns, and a row counts as worse only beyond chance.

The benchmarks are those of the working tree; only the server that they start is that of the revision.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.serving import ROOT
from reactor_cli.bench.significance import SIGNIFICANT, p_value

# Benchmarks of a server in a process of its own. The others measure the code of the working tree in this process.
NAMES = ("free", "sessions", "paced", "input", "painter", "startup", "emit", "camera", "networks", "viewers")
ROUNDS = 10
# With fewer, chance alone reaches SIGNIFICANT.
LEAST_ROUNDS = 6
LARGE = 1.05
FIGURE = re.compile(r"(-?[\d.,]*\d)(?: (\S+)|)")
RED, PLAIN = "\x1b[31m", "\x1b[0m"
Row = Sequence[str]


@dataclass(slots=True)
class Comparison:
    """Hold the figures of one row in each round, of the revision and of the working tree."""

    unit: str
    more_is_better: bool
    before: list[float] = field(default_factory=list)
    now: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """Return the median of the working tree over that of the revision; None where one of them is not positive."""
        before, now = statistics.median(self.before), statistics.median(self.now)
        return now / before if min(before, now) > 0 else None

    @property
    def p(self) -> float:
        return p_value(self.before, self.now)

    @property
    def is_worse(self) -> bool:
        if self.ratio is None or self.p >= SIGNIFICANT:
            return False
        return (1 / self.ratio if self.more_is_better else self.ratio) > LARGE

    def __str__(self) -> str:
        before, now = (f"{statistics.median(each):g}" for each in (self.before, self.now))
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        return f"{before:>10} → {now:<10}{self.unit:<5}{ratio:>6}   p {self.p:.3f}"


def compare(names: Sequence[str], revision: str, rounds: int) -> int:
    """Print each row's medians, their ratio and its significance, those that are worse last; return the exit code."""
    before: list[list[Row]] = []
    now: list[list[Row]] = []
    with _tree_of(revision) as tree:
        for number in range(rounds):
            sides = [(tree, before), (ROOT, now)]
            # What comes first may find another machine than what comes second.
            for folder, found in sides if number % 2 else reversed(sides):
                found.append(list(_measure(names, folder)))
            sys.stdout.write(f"round {number + 1} of {rounds}\n")
            sys.stdout.flush()
    compared = comparisons(before, now)
    worse = {name for name, each in compared.items() if each.is_worse}
    is_red = sys.stdout.isatty()
    for name in sorted(compared, key=lambda name: name in worse):
        line = f"{name:<78}{compared[name]}"
        sys.stdout.write(f"{RED}{line}{PLAIN}\n" if name in worse and is_red else f"{line}\n")
    sys.stdout.write(f"{len(worse)} of {len(compared)} rows are worse (p < {SIGNIFICANT}, over {LARGE - 1:.0%})\n")
    return 1 if worse else 0


def comparisons(before: Iterable[Sequence[Row]], now: Iterable[Sequence[Row]]) -> dict[str, Comparison]:
    """Return the rows of all rounds by their names, each with those of the rows that it is indented under.

    Rows without a figure, or that one side lacks, are left out.
    """
    found: dict[str, Comparison] = {}
    sides = [(rows, True) for rows in before] + [(rows, False) for rows in now]
    for rows, is_before in sides:
        for name, figure, bound in _named(rows):
            if match := FIGURE.match(figure):
                unit = match[2] or ""
                more = unit == "fps" or "a second" in name or bound.startswith("at least")
                comparison = found.setdefault(name, Comparison(unit, more))
                values = comparison.before if is_before else comparison.now
                values.append(float(match[1].replace(",", "")))
    return {name: each for name, each in found.items() if each.before and each.now}


def _named(rows: Iterable[Row]) -> Iterator[tuple[str, str, str]]:
    parents: list[str] = []
    for what, figure, bound in rows:
        name = what.lstrip()
        depth = (len(what) - len(name)) // 2
        parents[depth:] = [name]
        yield " · ".join(parents), figure, bound


def _measure(names: Sequence[str], tree: Path) -> Iterator[Row]:
    """Run benchmarks once each in a process of their own, with the server of a tree."""
    command = [sys.executable, "-m", "benchmarks", "--json", *names]
    environment = {**os.environ, "BENCH_TREE": str(tree), "BENCH_RUNS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    yield from map(json.loads, done.stdout.splitlines())


@contextlib.contextmanager
def _tree_of(revision: str) -> Iterator[Path]:
    """Check a revision out into a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), revision], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)
