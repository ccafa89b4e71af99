"""The author's modules as guests of a command: they find what they find in the engine, and end no more than a child."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from reactor_cli.errors import bug
from reactor_runtime.errors import LoadError, ReactorError, describe_exit, from_json, to_json


def with_guests(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what `work`, which imports the author's modules, returns; raises the ReactorError it raises.

    It runs in a child: whatever its modules do to their process, by C code or `os._exit()`, there is an answer.
    LoadError when the process ended without one.
    """
    answers, question = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(answers)
        _answer(work, question)
    os.close(question)
    try:
        with open(answers, encoding="ascii") as file:
            answer = file.readline()
    except KeyboardInterrupt:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(child, 0)
    if not answer.endswith("\n"):
        how = describe_exit(os.waitstatus_to_exitcode(status))
        raise LoadError(f"the model's process {how} while the model was loading")
    said: dict[str, Any] = json.loads(answer)
    if "error" in said:
        raise from_json(said["error"])
    return said


def _answer(work: Callable[[], dict[str, Any]], question: int) -> None:
    """Do the work as a process of its own, and leave it with the end of Python."""
    _make_room()
    try:
        answer = work()
    except ReactorError as error:
        answer = {"error": to_json(error)}
    except Exception as error:  # noqa: BLE001 (the child's outermost boundary: what gets here is a bug, and is shown)
        answer = {"error": to_json(bug(error))}
    with open(question, "w", encoding="ascii") as file:
        file.write(json.dumps(answer) + "\n")
    sys.exit()


def _make_room() -> None:
    """Let whatever is printed go to stderr: by C code, child processes, threads and exit handlers too.

    The command's arguments are not the author's, and what Python puts on the path for our own start isn't there either.
    """
    sys.argv[:] = sys.argv[:1]
    if not sys.flags.safe_path:
        del sys.path[0]
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
