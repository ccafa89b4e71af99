"""`python -m tests.cluster.local_front PROJECT OPTIONS`: a front with workers of this machine, until its input ends.

OPTIONS are those of `running_front` in JSON, with the `token` of its `access`. It prints its port when the workers are
ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reactor_runtime.server.options import ANY_SERVER, Access
from tests.cluster.front import running_front
from tests.forks import ROOT
from tests.processes import ended_after
from tests.server.running import environment
from tests.timeouts import TIMEOUT_S


@contextlib.contextmanager
def local_front(project: Path, **options: Any) -> Iterator[int]:
    """Run a front in a process of its own for the block; yield its port."""
    command = [sys.executable, "-m", __name__, str(project), json.dumps(options)]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with ended_after(process), process.stdout, process.stdin as end:
        yield int(process.stdout.readline())
        end.close()
        assert process.wait(TIMEOUT_S) == 0


async def main() -> None:
    project, options = Path(sys.argv[1]), json.loads(sys.argv[2])
    access = Access(token=options.pop("token", None), connects_to=ANY_SERVER)
    async with running_front(project, access=access, **options) as front:
        sys.stdout.write(f"{front.port}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
