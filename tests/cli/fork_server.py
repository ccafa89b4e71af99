"""Start `reactor` in forks of this process, which has imported the packages that Reactor depends on, and none of ours.

A start takes a third of the CPU time of one by `python -m reactor_cli`, which spends the rest on these imports. Run by
`tests.cli.command` with a socket as its argument; each request has the standard streams of the command.
"""

from __future__ import annotations

import gc
import json
import os
import runpy
import signal
import socket
import sys

REQUEST_BYTES = 1 << 18
PACKAGES = (
    "asyncio",
    "numpy",
    "pydantic",
    "rich.console",
    "rich.progress",
    "rich.table",
    "simplejpeg",
    "starlette.applications",
    "typer",
    "uvicorn",
    "websockets",
    "yaml",
)


def serve(connection: socket.socket) -> None:
    """Answer each request with the process id of a fork, and with its status once it ends; return in the forks."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(connection, REQUEST_BYTES, 3)
        if not request:
            sys.exit()
        child = os.fork()
        if child == 0:
            connection.close()
            become(descriptors, **json.loads(request))
            return
        for descriptor in descriptors:
            os.close(descriptor)
        connection.send(str(child).encode())
        connection.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


def become(descriptors: list[int], arguments: list[str], cwd: str, environment: dict[str, str]) -> None:
    """Give this process all that a new one would have."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = cwd
    sys.argv[1:] = arguments


if __name__ == "__main__":
    # Ctrl-C ends the tests, and that ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for package in PACKAGES:
        __import__(package)
    gc.collect()
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
    runpy.run_module("reactor_cli", run_name="__main__", alter_sys=True)
