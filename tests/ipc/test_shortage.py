from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reactor_runtime.ipc.shortage import EXIT_SHORTAGE, is_shortage

ROOT = Path(__file__).parents[2]
# Root may always fork.
ENGINE = """
import os, resource, sys
from reactor_runtime.engine import __main__ as engine
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
if os.getuid() == 0:
    os.setuid(65534)
sys.argv = ["engine", "0", "0", str(os.getppid())]
sys.exit(engine.main())
"""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (BlockingIOError(errno.EAGAIN, "fork"), True),
        (OSError(errno.EMFILE, "open"), True),
        (OSError(errno.ENFILE, "open"), True),
        (OSError(errno.ENOMEM, "fork"), True),
        (MemoryError(), True),
        (FileNotFoundError(errno.ENOENT, "open"), False),
        (RuntimeError("fork"), False),
    ],
    ids=repr,
)
def test_a_lack_of_processes_descriptors_or_memory_is_a_shortage(error: BaseException, expected: bool) -> None:
    assert is_shortage(error) is expected


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the engine is not forked")
def test_an_engine_that_cannot_fork_ends_with_the_status_of_a_shortage() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ENGINE], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=False
    )
    assert ended.returncode == EXIT_SHORTAGE
    assert os.strerror(errno.EAGAIN) in ended.stderr.decode()
