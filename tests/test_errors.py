from __future__ import annotations

import signal

import pytest

from reactor_runtime.errors import describe_exit


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "exited with code 0"),
        (3, "exited with code 3"),
        (-signal.SIGKILL, "ran out of memory"),
        (-signal.SIGSEGV, "segmentation fault"),
        (-signal.SIGTERM, "terminated (SIGTERM)"),
        (-signal.SIGUSR1, "ended by SIGUSR1"),
        (-250, "signal 250"),
    ],
)
def test_how_a_process_ended_is_said_in_words(status: int, words: str) -> None:
    assert words in describe_exit(status)
