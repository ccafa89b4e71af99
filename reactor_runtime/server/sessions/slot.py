"""A slot as admission sees it: a loaded model and the session on it, on this machine or on another.

`engine_slot.py` is a slot with an engine of this server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from reactor_runtime.clock import Clock, SystemClock
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.delivery.options import ClientOptions, RawBytes
from reactor_runtime.server.encoding.encoded import Snapshot
from reactor_runtime.server.encoding.encodings import encoding_names
from reactor_runtime.server.options import ServeOptions
from reactor_runtime.server.sessions.session import SessionPhase
from reactor_runtime.server.sessions.turn import SeatTurn, TurnEnd
from reactor_runtime.server.telemetry.metrics import Metrics
from reactor_runtime.server.telemetry.trace import Trace
from reactor_runtime.server.workers.engine import EngineStatus
from reactor_runtime.wire.messages import View


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSettings:
    """The options of the server, and what all slots share: the clock, the metrics and the limit of raw frames."""

    options: ServeOptions
    clock: Clock
    metrics: Metrics = field(default_factory=Metrics)
    raw_bytes: RawBytes = field(default_factory=RawBytes)

    @classmethod
    def of(cls, options: ServeOptions) -> Self:
        """Return the settings of a server that runs now, with its clock and metrics."""
        trace = None if options.trace is None else Trace(options.trace)
        return cls(options=options, clock=SystemClock(), metrics=Metrics(trace))

    @property
    def encodings(self) -> list[str]:
        """Return the names of the encodings of video that clients can choose from."""
        return encoding_names(self.options.codec)

    @property
    def client_options(self) -> ClientOptions:
        """Return what all clients of the server share."""
        return ClientOptions(self.clock, self.metrics, raw_bytes=self.raw_bytes)

    def name_of(self, contract: Mapping[str, Any] | None) -> str:
        """Return the model's name: that of the manifest, or else the one its class declares."""
        return self.options.manifest.name_with(None if contract is None else contract.get("name"))

    def ids(self, number: int) -> dict[str, str]:
        """Return the log fields that name the engine of a slot; none where the server has one engine."""
        return {"engine": str(number)} if self.options.sessions > 1 else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotStatistics:
    """The state of a slot now: its clients, the frames that they see, and the process of its model.

    `fps` and the times in ms are None without a session, the memory where it is unknown, and `uptime_s` while the model
    loads. `worker`, `node` and `url` are "" for an engine of this server.
    """

    worker: str = ""
    node: str = ""
    url: str = ""
    gpu: str = ""
    clients: int = 0
    viewers: int = 0
    fps: float | None = None
    age_ms: float | None = None
    late_ms: float | None = None
    memory_bytes: int | None = None
    uptime_s: float | None = None


class SessionEnd(NamedTuple):
    """Hold why a session has ended; `is_broken` if its controller lost the connection and did not resume."""

    session: str
    reason: str
    is_broken: bool


class SlotSession(Protocol):
    """One controller's time with the model, or that of several; `over` is set when it has ended."""

    @property
    def id(self) -> str: ...

    @property
    def controllers(self) -> Sequence[Client]:
        """Return the clients of this server that control the session; none if they are connected elsewhere."""

    @property
    def room(self) -> str:
        """Return the code by which clients find a session with several seats, "" for any other."""

    @property
    def is_private(self) -> bool:
        """Return whether only clients that have the code of the room may join."""

    @property
    def phase(self) -> SessionPhase: ...

    @property
    def started_at(self) -> float: ...

    @property
    def over(self) -> asyncio.Event: ...

    @property
    def turns(self) -> Sequence[SeatTurn]: ...

    def free_seat_for(self, client: Client) -> int | None:
        """Return the free seat for a client, None if there is none, or the session is in another room."""

    def is_resumed_by(self, secret: str) -> bool:
        """Return whether a client with this secret may resume the session."""

    def stop(self, end: TurnEnd = TurnEnd.LEFT) -> None:
        """Stop the session; may be called twice, and keeps the first reason."""


class SubscriberSet(Protocol):
    """The clients that see the session of a slot."""

    def __contains__(self, client: Client) -> bool: ...

    def join(self, client: Client) -> None:
        """Add a client that has the welcome of another slot."""

    def leave(self, client: Client) -> None: ...

    def set_view(self, client: Client, view: View) -> None:
        """Change what a client is sent."""

    async def snapshot(self, track: str, seat: int = 0) -> Snapshot | None:
        """Return the latest frame of a track in full size, as a seat sees it; None before the first."""


class Slot(Protocol):
    """A loaded model, the session on it and the clients that see it; use on the server's loop.

    `failed_in_a_row` is the number of sessions that failed since one that did not.
    """

    number: int
    failed_in_a_row: int

    @property
    def losses(self) -> int:
        """Return how often the model has been lost by a crash."""

    @property
    def is_draining(self) -> bool:
        """Return whether the slot ends with its session."""

    @property
    def model_name(self) -> str: ...

    @property
    def engine(self) -> EngineStatus: ...

    @property
    def session(self) -> SlotSession | None: ...

    @property
    def subscribers(self) -> SubscriberSet: ...

    @property
    def has_started(self) -> bool:
        """Return whether there is a session that has started, and can be watched."""

    def start_session(self, controller: Client) -> None:
        """Start a session for a controller; the slot is free."""

    def resume_session(self, client: Client, secret: str) -> None:
        """Continue the session with another connection of the controller that got this secret."""

    def subscribe(self, client: Client) -> None:
        """Send a client the welcome, and from here on everything of the session."""

    def detach_controller(self, client: Client, *, lost: bool) -> None:
        """Free the seat of a controller that has gone, and stop the session without others.

        One whose connection was `lost` may resume.
        """

    def close_session(self) -> None:
        """End a session that has not ended before the end of the server."""

    def send_message(self, kind: str, data: dict[str, Any]) -> None:
        """Send a message to the subscribers, and to a controller whose session has not started."""

    def send_progress(self) -> None:
        """Send the subscribers how far the model is that is loaded again, or that prepares its first frame."""

    def send_statistics(self, now: float) -> None:
        """Send the subscribers statistics."""

    def statistics(self) -> SlotStatistics: ...


S = TypeVar("S", bound=Slot)


@dataclass(frozen=True, slots=True)
class VacantSession(Generic[S]):
    """Hold a session with room for another controller: it goes on without one, or has a free seat.

    `places` returns how many controllers it has room for. `take` makes a client a controller, in the seat that
    `seat_for` returns; `seat_for` returns None if there is none for that client. Without `take` only the controller
    that has left may continue the session, and `end` ends it for a client that needs the slot. For `kept_s` the session
    is left to the controller that has lost its connection. `seat` is the seat that has just become free; None if none
    has. With `is_played` other controllers have seats in the session.
    """

    slot: S
    places: Callable[[], int]
    take: Callable[[Client], None] | None
    end: Callable[[], None]
    kept_s: float = 0.0
    seat_for: Callable[[Client], int | None] = lambda _: 0
    seat: int | None = 0
    is_played: bool = False

    def is_vacant(self) -> bool:
        """Return whether there is room for another controller."""
        return self.places() > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCallbacks(Generic[S]):
    """Hold the callbacks of admission that its slots call.

    `on_ready` gets the seconds that loading took, or None if a slot with a loaded model serves again.
    `on_session_visible` is called when a session can be watched, before its start is announced, and
    `on_session_started` after that. `on_lost` is called when a slot has lost its model, and `on_vacant` when the
    controller has left a session that goes on.
    """

    on_ready: Callable[[S, float | None], None]
    on_lost: Callable[[], None]
    on_session_visible: Callable[[S], None]
    on_session_started: Callable[[], None]
    on_session_ended: Callable[[S], None]
    on_vacant: Callable[[VacantSession[S]], None] = lambda _: None
