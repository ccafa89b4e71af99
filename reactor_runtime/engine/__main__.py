"""The engine's entry point: `python -m reactor_runtime.engine SOCKET_FD MEMORY_FD PARENT_PID`.

Only the server starts it.
"""

from __future__ import annotations

import builtins
import cmd
import contextlib
import faulthandler
import gc
import os
import signal
import socket
import sys
import termios
import traceback
from collections.abc import Iterable, Iterator
from types import FrameType

from reactor_runtime.ipc.server_gone import ServerGone
from reactor_runtime.ipc.shortage import EXIT_SHORTAGE, is_shortage
from reactor_runtime.ipc.subreaper import start_subreapers
from reactor_runtime.logs import streams

# The index of the local modes in what `tcgetattr` returns.
_LFLAG = 3


def main() -> int:
    try:
        return _run()
    # The reader of the channel ends the process when the server is gone, and may do so later than a message fails.
    except ServerGone:
        os._exit(0)
    # Nothing else can report it.
    except BaseException as error:  # noqa: BLE001
        traceback.print_exc()
        if sys.stderr is not None:
            sys.stderr.flush()
        # Closing the channel would end the process too, with the reader's exit code.
        os._exit(EXIT_SHORTAGE if is_shortage(error) else 1)


def _run() -> int:
    """Start the subreapers, and run the engine; in a subreaper this does not return."""
    socket_fd, memory_fd, parent = (int(argument) for argument in sys.argv[1:])
    start_subreapers(parent, lambda: _close((socket_fd, memory_fd)))
    _leave_signals_to_the_server()
    if sys.stderr is not None:
        faulthandler.enable()
    sys.argv[:] = [sys.argv[0]]
    streams.install()
    _read_lines_with_echo()
    from reactor_runtime.engine.run import run_engine
    from reactor_runtime.ipc.channel import Channel

    channel = Channel(socket.socket(fileno=socket_fd))
    os.register_at_fork(after_in_child=channel.close_in_child)
    os.set_inheritable(memory_fd, False)
    code = run_engine(channel, memory_fd)
    # From here on the server limits the time: threads and exit handlers of the model may never end.
    channel.finish()
    # The interpreter would search all objects for cycles as it ends, which takes a tenth of a second.
    gc.freeze()
    return code


def _leave_signals_to_the_server() -> None:
    """Ignore signals to the whole process group: Ctrl-C, a closed terminal, the stop of a service.

    Forked workers of the model get the default action back, so that they can be terminated, as programs it starts do.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # It is blocked from the start, see `ipc.process`.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _do_nothing)
    os.register_at_fork(after_in_child=_restore_defaults)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing. Unlike SIG_IGN, programs that the model starts don't inherit it."""


def _restore_defaults() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is _do_nothing:
            signal.signal(number, signal.SIG_DFL)


def _read_lines_with_echo() -> None:
    """Make `input()` read lines with echo, as a debugger in the model needs it, if stdin is a terminal.

    The server reads single keys of the terminal, and none while it has another mode. Each line restores the mode; a
    debugger keeps it until it continues, since the server would take what is typed between two of its lines for keys.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        return
    read, run_commands = builtins.input, cmd.Cmd.cmdloop

    def read_line(prompt: object = "", /) -> str:
        with _line_mode(0):
            return read(prompt)

    def run_commands_in_line_mode(self: cmd.Cmd, intro: object = None) -> None:
        # Others read from elsewhere, as from a socket.
        with _line_mode(0) if self.use_rawinput else contextlib.nullcontext():
            run_commands(self, intro)

    builtins.input = read_line
    cmd.Cmd.cmdloop = run_commands_in_line_mode  # type: ignore[method-assign]  # pdb has no other place


@contextlib.contextmanager
def _line_mode(descriptor: int) -> Iterator[None]:
    before = termios.tcgetattr(descriptor)
    mode = termios.tcgetattr(descriptor)
    mode[_LFLAG] |= termios.ICANON | termios.ECHO
    termios.tcsetattr(descriptor, termios.TCSANOW, mode)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


def _close(descriptors: Iterable[int]) -> None:
    for fd in descriptors:
        os.close(fd)


if __name__ == "__main__":
    sys.exit(main())
