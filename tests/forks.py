"""Start `reactor` in forks of a process that has its modules imported."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.fork_server import NUMBER_BYTES

ROOT = Path(__file__).resolve().parents[1]


class Fork:
    """A command that runs in a fork; has the methods and attributes of `subprocess.Popen` that tests use."""

    def __init__(self, arguments: Sequence[str], pipe: int) -> None:
        self.args = arguments
        self.returncode: int | None = None
        self._pipe = pipe
        self.pid = self._read_number()

    def poll(self) -> int | None:
        """Return the exit status if it has ended."""
        if self.returncode is None and select.select([self._pipe], [], [], 0)[0]:
            self.returncode = self._read_number()
            os.close(self._pipe)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it ends, and return its exit status; raise TimeoutExpired."""
        if self.returncode is None:
            select.select([self._pipe], [], [], timeout)
        if (code := self.poll()) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            # It may have ended since then.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read_number(self) -> int:
        number = os.read(self._pipe, NUMBER_BYTES)
        assert number, "the fork server has ended"
        return int.from_bytes(number, "little", signed=True)


class _ForkServer:
    """A process of `tests.fork_server`."""

    def __init__(self) -> None:
        self._connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        variables = {"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", "OPENBLAS_NUM_THREADS": "1"}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", str(ROOT / "tests" / "fork_server.py"), str(theirs.fileno())],
                env={**os.environ, **variables},
                pass_fds=(theirs.fileno(),),
                # Python makes the streams of a terminal in another way.
                stdout=subprocess.DEVNULL,
            )

    def start(self, arguments: Sequence[str], descriptors: Sequence[int], **settings: object) -> Fork:
        ours, theirs = os.pipe()
        request = json.dumps({"arguments": arguments, **settings}).encode()
        socket.send_fds(self._connection, [request], [*descriptors, theirs])
        os.close(theirs)
        return Fork(arguments, ours)

    def close(self) -> None:
        self._connection.close()
        self._process.wait()


@functools.cache
def _fork_server() -> _ForkServer:
    server = _ForkServer()
    atexit.register(server.close)
    return server


def fork(
    arguments: Sequence[str],
    descriptors: tuple[int, int, int],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    path: Path,
    new_session: bool = False,
    strict: bool = False,
    stop_s: float | None = None,
) -> Fork:
    """Start `reactor` with these arguments and standard streams, in an `environment` that Python has not started with.

    `path` is the first directory of `sys.path`. With `new_session` it leads a session of its own, whose terminal is its
    stdin if that is one; with `strict` warnings are errors. Its engines may take `stop_s` to end.
    """
    return _fork_server().start(
        arguments,
        descriptors,
        cwd=str(cwd.resolve()),
        environment=dict(environment),
        path=str(path.resolve()),
        new_session=new_session,
        strict=strict,
        # As a process that is started here inherits it.
        ignores_hang_up=signal.getsignal(signal.SIGHUP) is signal.SIG_IGN,
        stop_s=stop_s,
    )
