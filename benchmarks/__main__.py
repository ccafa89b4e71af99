"""`python -m benchmarks [NAME ...]`: run all or the named benchmarks; print their figures beside the floors.

`python -m benchmarks hostile` is the gate of a release, see `hostile/gate.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import against
from benchmarks.hostile.gate import main as hostile
from benchmarks.measure import BENCHMARKS, Row

HEAD = """\
# Benchmarks

Written on {cores} cores that did nothing else, by

```sh
make bench ARGS="{arguments}"
```

The figures are medians of five runs, beside the floor in the same run; those with viewers are single runs. They compare
on one machine only. Ages and delays are from the model's hand-over to the receipt in a client on the same machine.
[Missed goals](measurements.md#missed-goals) lists what each goal that is not reached would take.

| | figure | goal |
|---|---|---|
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], help=f"of {', '.join(BENCHMARKS)}; none: all")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the figures to a Markdown page as well")
    parser.add_argument("--json", action="store_true", help="print a line of JSON for each row")
    parser.add_argument("--against", metavar="REV", help="compare a git revision with the working tree, by turns")
    parser.add_argument("--rounds", type=int, default=against.ROUNDS, help="of a comparison; default: %(default)s")
    # The gate of a release has options and an exit code of its own.
    if sys.argv[1:2] == ["hostile"]:
        return hostile(sys.argv[2:])
    arguments = parser.parse_args()
    if arguments.json:
        for name in arguments.names:
            for row in BENCHMARKS[name]():
                sys.stdout.write(f"{json.dumps(row)}\n")
        return 0
    sys.stdout.write(f"{os.cpu_count()} cores; run it on an otherwise idle machine\n")
    if arguments.against:
        if arguments.rounds < against.LEAST_ROUNDS:
            parser.error(f"--rounds: at least {against.LEAST_ROUNDS} show more than chance")
        if other := set(arguments.names) - set(against.NAMES):
            parser.error(f"--against compares servers, and so no {', '.join(sorted(other))}")
        return against.compare(arguments.names or against.NAMES, arguments.against, arguments.rounds)
    rows = list(_printed(arguments.names or list(BENCHMARKS)))
    if arguments.write is not None:
        arguments.write.write_text(_page(rows))
    return 0


def _printed(names: list[str]) -> Iterator[Row]:
    for name in names:
        for row in BENCHMARKS[name]():
            what, figure, bound = row
            sys.stdout.write(f"{what:<58}{figure:>12}   {bound}\n")
            sys.stdout.flush()
            yield row


def _page(rows: list[Row]) -> str:
    # Details of a figure follow it, indented.
    cells = ((what.replace("  ", "&emsp;"), figure, bound) for what, figure, bound in rows)
    lines = "".join(f"| {what} | {figure} | {bound} |\n" for what, figure, bound in cells)
    return HEAD.format(arguments=" ".join(sys.argv[1:]), cores=os.cpu_count()) + lines


if __name__ == "__main__":
    sys.exit(main())
