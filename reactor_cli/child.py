"""A child process in which a command imports the author's modules, in the same environment as in the engine."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from reactor_cli.errors import bug
from reactor_cli.lifeline import end_at_eof
from reactor_runtime.errors import LoadError, ReactorError, describe_exit, from_json, to_json
from reactor_runtime.oom_kills import OomKills

# Ends the child with an error as its result; for threads that watch `work`.
End = Callable[[ReactorError], NoReturn]


def run_in_child(work: Callable[[End], dict[str, Any]]) -> dict[str, Any]:
    """Return the result of `work`, or raise its ReactorError, after running it in a child process.

    `work` gets a function that any thread may call to end the child with an error. Raises LoadError when the child
    ends without a result, by `os._exit()` or a crash in C code.
    """
    reader, writer = os.pipe()
    # The child ends when this process ends, also if it is killed.
    lifeline, held = os.pipe()
    oom_kills = OomKills()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.close(held)
        end_at_eof(lifeline)
        _work_and_exit(work, writer)
    os.close(writer)
    os.close(lifeline)
    try:
        with open(reader, encoding="ascii") as file:
            answer = file.readline()
    except KeyboardInterrupt:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
        os.close(held)
    if not answer.endswith("\n"):
        how = describe_exit(os.waitstatus_to_exitcode(status), oom_killed=oom_kills.happened())
        raise LoadError(f"the model's process {how} while the model was loading")
    result: dict[str, Any] = json.loads(answer)
    if "error" in result:
        raise from_json(result["error"])
    return result


def _work_and_exit(work: Callable[[End], dict[str, Any]], writer: int) -> None:
    """Run `work` in the child, write its result, and exit as Python does, with its exit handlers."""
    _set_up_child()
    try:
        answer = work(lambda error: _end(error, writer))
    except ReactorError as error:
        answer = {"error": to_json(error)}
    except Exception as error:  # noqa: BLE001 (the child's outermost boundary: such an exception is a bug, and is reported)
        answer = {"error": to_json(bug(error))}
    _write(answer, writer)
    sys.exit()


def _end(error: ReactorError, writer: int) -> NoReturn:
    _write({"error": to_json(error)}, writer)
    # Only this ends a process whose main thread hangs.
    os._exit(1)


def _write(answer: dict[str, Any], writer: int) -> None:
    with open(writer, "w", encoding="ascii") as file:
        file.write(json.dumps(answer) + "\n")


def _set_up_child() -> None:
    """Redirect stdout to stderr, for C code and child processes too, and hide the arguments and path of the command."""
    sys.argv[:] = sys.argv[:1]
    if not sys.flags.safe_path:
        del sys.path[0]
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
