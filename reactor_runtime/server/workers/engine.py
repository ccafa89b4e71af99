"""An engine as its slot sees it, on this machine or on another: the only thing a slot depends on.

`Supervisor` runs an engine in a process of this machine. An engine reports to `on_engine_ready`, `on_engine_message`
and `on_engine_lost` of its slot. Admission and the slot pool know of an engine only what `Engine` declares.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol

from reactor_runtime.ipc import messages as ipc


class EnginePhase(StrEnum):
    """Whether the model is loading, serves sessions, or can't be served."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


class Engine(Protocol):
    """A model that serves one session at a time.

    `detail` is the last line that the model logged or printed while loading. `contract` is None until the model's class
    has been imported.
    """

    phase: EnginePhase
    detail: str
    contract: dict[str, Any] | None

    @property
    def loading_s(self) -> float:
        """How long the model has been loading, in seconds; 0 while the engine waits until it may load."""

    @property
    def failed_loads(self) -> int:
        """How many loads have failed since the last one that succeeded."""

    @property
    def busy(self) -> bool:
        """Whether the engine has a backlog of unread messages; a message that may be refused should be."""

    def send(self, message: ipc.ToEngine) -> None:
        """Queue a message; it is lost where no engine runs."""
