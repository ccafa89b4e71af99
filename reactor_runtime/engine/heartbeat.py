"""A sign of life for the server: whether the author's code has given way since the last one, and where it is."""

from __future__ import annotations

import threading
from collections.abc import Callable

from reactor_runtime.engine.stacks import author_stack, is_in_debugger
from reactor_runtime.ipc.messages import Heartbeat


class HeartbeatSource:
    """Answer from another thread than the model's, which has a turn of its loop to make until it is asked again.

    `stalled` is called on the loop: it says where code of the author's in other threads stands still.
    """

    def __init__(self, post: Callable[[Callable[[], None]], object], stalled: Callable[[], str]) -> None:
        self._post = post
        self._stalled = stalled
        self._turned = True
        self._elsewhere = ""

    def pulse(self) -> Heartbeat:
        """Say how it is since the last call."""
        if self._turned:
            self._turned = False
            self._post(self._turn)
            return Heartbeat(bool(self._elsewhere), self._elsewhere)
        return _held()

    def _turn(self) -> None:
        self._elsewhere = self._stalled()
        self._turned = True


class LoadingHeartbeatSource:
    """Answer while there is no loop: the author's code has the process to itself until it is loaded."""

    def pulse(self) -> Heartbeat:
        return _held()


def _held() -> Heartbeat:
    main = threading.main_thread().ident
    return Heartbeat(not is_in_debugger(main), author_stack(main))
