"""The connection of a front to one worker, as a process: `python -m tests.cluster.other_front URL SECRET`.

Prints "connected" at the first status, and "refused" with the front that the worker has.
"""

from __future__ import annotations

import asyncio
import sys

from reactor_runtime.cluster.front.link import WorkerLink
from reactor_runtime.cluster.messages import FrontIdentity


async def main(url: str, secret: str) -> None:
    connected = asyncio.Event()
    link = WorkerLink(
        url,
        secret,
        front=FrontIdentity.of_this_process(),
        on_status=lambda _: connected.set(),
        on_contract=lambda _: None,
        on_broken=lambda _: None,
        on_refused=lambda other: _print(f"refused {other.pid}"),
    )
    await connected.wait()
    _print("connected")
    await asyncio.to_thread(sys.stdin.read)
    link.close()


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
