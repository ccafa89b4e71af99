"""`python -m benchmarks [NAME ...]`: run all or the named benchmarks; print their figures beside the floors."""

from __future__ import annotations

import argparse
import os
import sys

from benchmarks.measure import BENCHMARKS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], help=f"of {', '.join(BENCHMARKS)}; none: all")
    names = parser.parse_args().names or list(BENCHMARKS)
    sys.stdout.write(f"{os.cpu_count()} cores; run it on an otherwise idle machine\n")
    for name in names:
        for what, figure, bound in BENCHMARKS[name]():
            sys.stdout.write(f"{what:<58}{figure:>12}   {bound}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
