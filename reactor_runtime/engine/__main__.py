"""`python -m reactor_runtime.engine SOCKET_FD MEMORY_FD PARENT_PID NUDGE_FD LIFE`: started by the server alone."""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import traceback
from collections.abc import Iterable
from types import FrameType

from reactor_runtime import streams
from reactor_runtime.ipc.keeper import start_keepers


def main() -> int:
    socket_fd, memory_fd, parent, nudge_fd, engine_run = (int(argument) for argument in sys.argv[1:])
    start_keepers(parent, lambda: _close((socket_fd, memory_fd, nudge_fd)))
    _leave_signals_to_the_server()
    if sys.stderr is not None:
        faulthandler.enable()
    sys.argv[:] = [sys.argv[0]]
    streams.install()
    from reactor_runtime.engine.run import run_engine
    from reactor_runtime.ipc.channel import Channel
    from reactor_runtime.ipc.encode_hint import EncodeHinter

    channel = Channel(socket.socket(fileno=socket_fd))
    os.register_at_fork(after_in_child=channel.forked)
    os.set_inheritable(memory_fd, False)
    hinter = None
    if nudge_fd >= 0:
        os.set_inheritable(nudge_fd, False)
        hinter = EncodeHinter(socket.socket(fileno=nudge_fd), engine_run)
    try:
        code = run_engine(channel, memory_fd, hinter)
    except BaseException:  # noqa: BLE001  (the last place to say anything)
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # not by way of the reader's thread, which ends the process when the channel closes
    channel.close()
    if hinter is not None:
        hinter.close()
    return code


def _leave_signals_to_the_server() -> None:
    """Go on at what reaches the whole process group: Ctrl-C, a closed terminal, a service that is to stop.

    Forked workers of the model's get the default back, so that they can be terminated; programs it starts do anyway.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # held since the start, see `seam.process`
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _go_on)
    os.register_at_fork(after_in_child=_as_by_default)


def _go_on(number: int, frame: FrameType | None) -> None:
    """Do nothing: a handler and not SIG_IGN, which started programs would inherit."""


def _as_by_default() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is _go_on:
            signal.signal(number, signal.SIG_DFL)


def _close(descriptors: Iterable[int]) -> None:
    for fd in descriptors:
        if fd >= 0:
            os.close(fd)


if __name__ == "__main__":
    sys.exit(main())
