"""`python -m reactor_runtime.engine SOCKET_FD MEMORY_FD PARENT_PID`: started by the server, never by hand."""

from __future__ import annotations

import ctypes
import faulthandler
import io
import os
import signal
import socket
import sys
import traceback

PR_SET_PDEATHSIG = 1


def main() -> int:
    socket_fd, memory_fd, parent = (int(argument) for argument in sys.argv[1:])
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the server decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # held since the start, see `seam.process`
    faulthandler.enable()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # in a pipe, too, what the author prints is to be seen at once
    sys.argv[:] = [sys.argv[0]]
    from reactor_runtime.engine.host import run_engine
    from reactor_runtime.seam.channel import Channel

    channel = Channel(socket.socket(fileno=socket_fd))
    os.register_at_fork(after_in_child=channel.forked)
    os.set_inheritable(memory_fd, False)
    try:
        code = run_engine(channel, memory_fd)
    except BaseException:  # noqa: BLE001  (the last place to say anything)
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # not by way of the reader's thread, which ends the process when the channel closes
    channel.close()
    return code


def _end_with(parent: int) -> None:
    """Have the kernel kill this process when the server's ends; end-of-file on the seam is the portable second net."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call above
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
