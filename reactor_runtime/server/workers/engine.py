"""An engine as its slots see it: the only thing a slot depends on.

`Supervisor` runs an engine in a process of this machine. Admission and the slot pool know of an engine only what
`EngineStatus` declares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from reactor_runtime.ipc import messages as ipc
from reactor_runtime.ipc.ring import RingReader


class EnginePhase(StrEnum):
    """Whether the model is loading, serves sessions, or can't be served."""

    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


class EngineStatus(Protocol):
    """The status of a loaded model, on this machine or on another.

    `detail` is the last line that the model logged or printed while loading, `progress` how far that is, from 0 to 1;
    None if it is unknown. `contract` is None until the model's class has been imported. `limit` is why not as many
    sessions fit on the model as may share it, as measured; "" if they do, and for a model of one session.
    """

    phase: EnginePhase
    detail: str
    progress: float | None
    contract: dict[str, Any] | None
    limit: str

    @property
    def fitting(self) -> int:
        """Return how many sessions fit on the model, those that run included."""

    @property
    def room(self) -> int:
        """Return how many more sessions may start now."""

    @property
    def loading_s(self) -> float:
        """Return how long the model has been loading, or took to load, in seconds; 0 before it may load."""

    @property
    def failed_loads(self) -> int:
        """Return how many loads have failed since the last one that succeeded."""


class Engine(EngineStatus, Protocol):
    """A loaded model in a process of this machine."""

    @property
    def busy(self) -> bool:
        """Return whether the engine has a backlog of unread messages; a message that may be refused should be."""

    def memory_bytes(self) -> int | None:
        """Return the memory of the process and its descendants; None where it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCallbacks:
    """Hold the callbacks that an engine calls.

    `on_bundle` and `on_message` have a callback for each slot, in their order. That of `on_bundle` gets each frame
    bundle straight from the channel, with the reader of the shared memory that has its pixels; that of `on_message` the
    other messages of the slot's session. `on_ready` gets the seconds that loading took, and how many slots the loaded
    model serves. `on_lost` is called with its end in words when an engine that served has ended by itself, `on_restart`
    when it was ended to start it again, `on_room` when another number of sessions fits on the model, `on_contract` when
    the contract has changed, and `on_reload` with the progress and the outcome of a reload.
    """

    on_ready: Callable[[float, int], None]
    on_bundle: Sequence[Callable[[ipc.Bundle, RingReader], None]]
    on_message: Sequence[Callable[[ipc.OfSession], None]]
    on_lost: Callable[[str], None]
    on_room: Callable[[], None] = lambda: None
    on_contract: Callable[[], None] = lambda: None
    on_reload: Callable[[ipc.Reloaded | ipc.Loading], None] = lambda _: None
    on_restart: Callable[[], None] = lambda: None
