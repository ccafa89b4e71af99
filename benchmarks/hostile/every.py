"""`python -m benchmarks.hostile.every --minutes 60`: run every attack benchmark in turn until the time is over.

Attacks with connections, with messages and through models have a module each, with their limits. Exits with 1 when a
limit was exceeded. Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

MODULES = ("connections", "messages", "models")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile.every", description=__doc__)
    parser.add_argument("--minutes", type=float, default=0.0, help="how long to repeat the attacks (once)")
    until = time.monotonic() + 60 * parser.parse_args().minutes
    rounds, failed = 0, 0
    while not rounds or time.monotonic() < until:
        rounds += 1
        for module in MODULES:
            sys.stdout.write(f"round {rounds}: {module}\n")
            sys.stdout.flush()
            failed += (
                subprocess.run([sys.executable, "-m", f"benchmarks.hostile.{module}"], check=False).returncode != 0
            )
    sys.stdout.write(f"rounds {rounds}, runs with a fault {failed} of {rounds * len(MODULES)}\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
