"""`python -m benchmarks.object_counts FILE ...`: run `reactor ...`, and on a signal write its object counts to FILE.

SIGUSR1 counts at once; SIGUSR2 collects garbage first, which frequent counts should not.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

KINDS = ("Client", "ServedSession", "SocketProtocol", "HttpProtocol", "Cohort", "X264Encoder")


def main() -> None:
    """Run the command line, and count objects on a signal."""
    file = Path(sys.argv.pop(1))

    def count(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGUSR2:
            gc.collect()
        every = gc.get_objects()
        found = Counter(type(each).__name__ for each in every)
        # Not from `every`, which lacks what was there when the server froze its garbage collector.
        tasks = len(asyncio.all_tasks())
        report = {"tasks": tasks, "objects": len(every), **{kind: found[kind] for kind in KINDS}}
        written = file.with_suffix(".new")
        written.write_text(json.dumps(report))
        os.replace(written, file)

    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, count)
    from reactor_cli.__main__ import main as run

    run()


if __name__ == "__main__":
    main()
