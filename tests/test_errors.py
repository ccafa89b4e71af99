from __future__ import annotations

import signal

import pytest

from reactor_runtime.errors import describe_exit


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
