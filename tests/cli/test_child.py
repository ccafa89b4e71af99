"""The child process in which a command imports the author's modules."""

from __future__ import annotations

import threading
from typing import Never

import pytest

from reactor_cli.child import End, run_in_child
from reactor_runtime.errors import ModelFailed


@pytest.mark.process
def test_a_thread_ends_a_child_that_hangs_with_an_error() -> None:
    def hang(end: End) -> Never:
        threading.Thread(target=lambda: end(ModelFailed("it hangs"))).start()
        while True:
            threading.Event().wait()

    with pytest.raises(ModelFailed, match="it hangs"):
        run_in_child(hang)
