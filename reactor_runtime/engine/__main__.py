"""The engine's entry point: `python -m reactor_runtime.engine SOCKET_FD MEMORY_FD PARENT_PID`.

Only the server starts it.
"""

from __future__ import annotations

import atexit
import builtins
import cmd
import faulthandler
import gc
import os
import signal
import socket
import sys
import termios
import traceback
from collections.abc import Iterable
from types import FrameType
from typing import Any

from reactor_runtime.ipc.server_gone import ServerGone
from reactor_runtime.ipc.shortage import EXIT_SHORTAGE, is_shortage
from reactor_runtime.ipc.subreaper import start_subreapers
from reactor_runtime.logs import streams

# The index of the local modes in what `tcgetattr` returns.
_LFLAG = 3
# `bdb.Bdb.stoplineno` after `continue`.
_NO_STOP = -1


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
    debugger keeps it until it continues, also from one stop to the next one, since the server would take what is typed
    meanwhile for keys.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        return
    read, run_commands, debugger_mode = builtins.input, cmd.Cmd.cmdloop, _LineMode(0)

    def read_line(prompt: object = "", /) -> str:
        mode = _LineMode(0)
        mode.set()
        try:
            return read(prompt)
        finally:
            mode.restore()

    def run_commands_in_line_mode(self: cmd.Cmd, intro: object = None) -> None:
        # Others read from elsewhere, as from a socket.
        if not self.use_rawinput:
            run_commands(self, intro)
            return
        debugger_mode.set()
        try:
            run_commands(self, intro)
        finally:
            if not _is_stepping(self):
                debugger_mode.restore()

    builtins.input = read_line
    cmd.Cmd.cmdloop = run_commands_in_line_mode  # type: ignore[method-assign]  # pdb has no other place
    atexit.register(debugger_mode.restore)


def _is_stepping(interpreter: cmd.Cmd) -> bool:
    """Return whether a debugger will stop again by itself, as after `next`.

    After an exception there is no frame to stop in.
    """
    import bdb

    if not isinstance(interpreter, bdb.Bdb) or interpreter.quitting:
        return False
    return interpreter.botframe is not None and interpreter.stoplineno != _NO_STOP


class _LineMode:
    """Set the mode of a terminal in which lines are read with echo, and restore the one before; both may repeat."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._before: list[Any] | None = None

    def set(self) -> None:
        mode = termios.tcgetattr(self._descriptor)
        if self._before is None:
            self._before = [*mode]
        mode[_LFLAG] |= termios.ICANON | termios.ECHO
        termios.tcsetattr(self._descriptor, termios.TCSANOW, mode)

    def restore(self) -> None:
        if self._before is not None:
            termios.tcsetattr(self._descriptor, termios.TCSANOW, self._before)
            self._before = None


def _close(descriptors: Iterable[int]) -> None:
    for fd in descriptors:
        os.close(fd)


if __name__ == "__main__":
    sys.exit(main())
