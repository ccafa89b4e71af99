"""Fuzz a target for a time, guided by the lines that it reaches: python -m tests.fuzzing mcap --seconds 3600

What fails is written to a file in the current directory, which `--repeat FILE` reads again. Needs atheris, which has
wheels for Linux: `make fuzz` installs it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["reactor_runtime"]):
    from tests.fuzzing.targets import TARGETS

MOST_BYTES = 20_000
MOST_MEGABYTES = 1024


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing")
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--repeat", type=Path, metavar="FILE")
    given = parser.parse_args()
    target = TARGETS[given.target]
    if given.repeat is not None:
        target.run(given.repeat.read_bytes())
        return
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(target.seeds):
            Path(corpus, str(number)).write_bytes(seed)
        limits = [
            f"-max_total_time={given.seconds}",
            f"-max_len={MOST_BYTES}",
            f"-rss_limit_mb={MOST_MEGABYTES}",
            "-timeout=10",
        ]
        atheris.Setup([sys.argv[0], *limits, corpus], target.run)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
