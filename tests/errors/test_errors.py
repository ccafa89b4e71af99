from __future__ import annotations

import json
import signal

import pytest

from reactor_runtime.errors import Location, ReactorError, describe_exit, from_json, to_json


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "exited with code 0"),
        (3, "exited with code 3"),
        (-signal.SIGSEGV, "segmentation fault"),
        (-signal.SIGTERM, "terminated (SIGTERM)"),
        (-signal.SIGUSR1, "ended by SIGUSR1"),
        (-250, "signal 250"),
    ],
)
def test_how_a_process_ended_is_said_in_words(status: int, words: str) -> None:
    assert words in describe_exit(status)


@pytest.mark.parametrize(
    ("oom_killed", "words"),
    [
        (True, "was killed (SIGKILL by the kernel: memory ran out)"),
        (False, "was killed (SIGKILL, and not by the kernel for lack of memory)"),
        (None, "was killed (SIGKILL)"),
    ],
)
def test_a_kill_has_a_reason_only_if_it_is_known(oom_killed: bool | None, words: str) -> None:
    assert describe_exit(-signal.SIGKILL, oom_killed=oom_killed) == words


def test_an_error_of_any_size_is_small_for_ipc_and_keeps_its_beginning_and_end() -> None:
    place = Location("pipeline.py", 3, text="y" * 1_000_000)
    details = f"Traceback{'x' * 10_000_000}RecursionError"
    error = from_json(to_json(ReactorError("m" * 10_000_000, where=place, details=details, trail=[place] * 10_000)))
    assert error.message.startswith("m" * 1000)
    assert "9998000 characters left out" in error.message
    assert (error.details[:9], error.details[-14:]) == ("Traceback", "RecursionError")
    assert len(json.dumps(to_json(error))) < 1 << 20


def test_an_error_of_usual_size_is_the_same_after_ipc() -> None:
    place = Location("pipeline.py", 3, 1, 4, "self.x")
    error = from_json(to_json(ReactorError("no x", hint="set x", where=place, details="Traceback", trail=[place])))
    assert (str(error), error.details, error.trail) == ("pipeline.py:3:1: no x (set x)", "Traceback", (place,))
