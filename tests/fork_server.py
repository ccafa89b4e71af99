"""Start `reactor` in forks of this process, which has imported the modules that its commands need.

A start of a server takes a fifth of the CPU time of one by `python -m reactor_cli`, which spends the rest on these
imports. Run by `tests.forks` with a socket as its argument; each request has the standard streams of the command, and a
pipe for its process id and its status.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import io
import json
import os
import runpy
import select
import signal
import socket
import sys
import termios
import warnings

from reactor_runtime.server import preload
from reactor_runtime.server.workers import engine_run

REQUEST_BYTES = 1 << 18
# A process id, or the status of a process, in a pipe.
NUMBER_BYTES = 8
MODULES = (
    *(f"reactor_cli.{name}" for name in ("app", "child", "lifeline", "outline", "run_progress", "terminal_client")),
    *(f"reactor_cli.commands.{name}" for name in ("check", "connect", "init", "render", "replay", "run", "schema")),
    "reactor_runtime.engine.run",
    "reactor_runtime.rendering.render",
    "reactor_runtime.rendering.renderer",
    "reactor_runtime.rendering.script",
    "reactor_runtime.schema",
    "reactor_runtime.server.run",
    "reactor_runtime.testing",
    "reactor_runtime.testing.session_replay",
    *preload.MODULES,
    "av",
    "pydantic",
    "pydantic._internal._dataclasses",
    "pydantic._internal._generate_schema",
    "rich.progress",
    "rich.table",
    "uvloop",
    "yaml",
    "zoneinfo",
)


def serve(connection: socket.socket) -> None:
    """Start a fork for each request, and report its process id, and its status once it ends; return in the forks."""
    # The forks that run: the process id of each, and its pipe.
    running: dict[int, tuple[int, int]] = {}
    while True:
        ready = select.select([connection.fileno(), *running], [], [])[0]
        for ended in running.keys() & set(ready):
            pid, pipe = running.pop(ended)
            os.close(ended)
            report(pipe, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            os.close(pipe)
        if connection.fileno() in ready:
            request, descriptors, _, _ = socket.recv_fds(connection, REQUEST_BYTES, 4)
            if not request:
                sys.exit()
            pid = os.fork()
            if pid == 0:
                connection.detach()
                become(descriptors[:3], **json.loads(request))
                return
            *streams, pipe = descriptors
            for stream in streams:
                os.close(stream)
            running[os.pidfd_open(pid)] = pid, pipe
            report(pipe, pid)


def report(pipe: int, number: int) -> None:
    """Write a number, unless the test does not wait for it any longer."""
    with contextlib.suppress(BrokenPipeError):
        os.write(pipe, number.to_bytes(NUMBER_BYTES, "little", signed=True))


def become(
    descriptors: list[int],
    *,
    arguments: list[str],
    cwd: str,
    environment: dict[str, str],
    path: str,
    new_session: bool,
    strict: bool,
    ignores_hang_up: bool,
    stop_s: float | None,
) -> None:
    """Give this process all that a new one would have, with `path` in place of the directory of this script.

    `stop_s` is how long an engine may take to end, where it is not None.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_IGN if ignores_hang_up else signal.SIG_DFL)
    if new_session:
        os.setsid()
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, 1 + max(map(int, os.listdir("/proc/self/fd"))))
    if new_session and os.isatty(0):
        # Ctrl-C there interrupts this process.
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    assert isinstance(sys.stdout, io.TextIOWrapper), "Python has opened it"
    sys.stdout.reconfigure(line_buffering=os.isatty(1))
    if not strict:
        sys.warnoptions.clear()
        warnings.filters[:] = [each for each in warnings.filters if each[0] != "error"]  # type: ignore[index]
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = path
    sys.argv[1:] = arguments
    if stop_s is not None:
        engine_run.STOP_S = stop_s


if __name__ == "__main__":
    # Ctrl-C ends the tests, and that ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in MODULES:
        __import__(module)
    gc.collect()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("reactor_cli", run_name="__main__", alter_sys=True)
