"""`python -m benchmarks.front`: admission at a front with 1,000 machines of 8 slots, on a fake clock.

Clients, machines and workers are simulated; admission, wait queue and fleet are the real ones.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time

from tests.cluster.arrivals import Arrivals, Timings

SECONDS = 300.0


def main() -> int:
    logging.disable(logging.CRITICAL)
    for share in (0.9, 1.02):
        began = time.process_time()
        timings = asyncio.run(_run(share))
        used_s = time.process_time() - began
        admissions, waits = sorted(timings.admission_s), sorted(timings.waited_s)
        sys.stdout.write(
            f"{share:.0%} in use, {len(admissions)} admissions in {SECONDS:.0f} s: "
            f"processor p50 {1e3 * _percentile(admissions, 0.5):.2f} ms, "
            f"p99 {1e3 * _percentile(admissions, 0.99):.2f} ms; "
            f"clients waited p50 {_percentile(waits, 0.5):.2f} s, p99 {_percentile(waits, 0.99):.2f} s; "
            f"{used_s:.0f} s of processor, the simulation included\n"
        )
    return 0


async def _run(share: float) -> Timings:
    arrivals = Arrivals(nodes=1000, slots=8, share=share, arrivals_per_s=50_000 / 3600, failure_every_s=30.0)
    return await arrivals.run(SECONDS)


def _percentile(values: list[float], share: float) -> float:
    return values[min(len(values) - 1, int(len(values) * share))]


if __name__ == "__main__":
    sys.exit(main())
