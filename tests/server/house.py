"""A lobby whose engine does nothing by itself, and what its clients are told."""

from __future__ import annotations

import json
from typing import Any

from reactor_runtime.errors import ModelFailed, to_json
from reactor_runtime.seam import messages as seam
from reactor_runtime.seam.ring import RingReader, create_memory
from reactor_runtime.server.audience import Audience
from reactor_runtime.server.connection import Connection, Role
from reactor_runtime.server.hall import Rules
from reactor_runtime.server.intake import Intake
from reactor_runtime.server.lobby import Lobby
from reactor_runtime.server.outbox import Outbox
from reactor_runtime.server.playout import Playout
from reactor_runtime.server.supervisor import EnginePhase
from reactor_runtime.server.turn import TurnLimits
from tests.fakes import FakeClock, FakeEngine, HandEncoder, settle

NO_LIMITS = TurnLimits()


class House:
    """A lobby with what surrounds it; the tests speak for clients and engine."""

    def __init__(
        self,
        *,
        most_waiting: int = 2,
        most_viewers: int = 2,
        expose_errors: bool = True,
        limits: TurnLimits = NO_LIMITS,
    ) -> None:
        self.clock = FakeClock()
        self.engine = FakeEngine()
        self.audience = Audience()
        self.playout = Playout(self.clock, HandEncoder(), self.audience, self.engine.send)
        self.loads: list[float] = []
        self.memory = create_memory()
        self.ring = RingReader(self.memory)
        rules = Rules(name="my-model", clock=self.clock, limits=limits, expose_errors=expose_errors)
        self.lobby = Lobby(
            rules,
            most_waiting=most_waiting,
            most_viewers=most_viewers,
            on_ready=lambda _, load_s: self.loads.append(load_s),
        )
        self.hall = self.lobby.open_hall(self.engine, self.audience, self.playout)
        self.intake = Intake(self.lobby)

    def come(self, role: Role = Role.CONTROLLER, *, watches: bool = False, resume: str = "") -> Connection:
        connection = Connection(role, "127.0.0.1", self.clock, watches=watches)
        self.lobby.attach(connection, resume)
        return connection

    @property
    def session(self) -> str:
        assert self.hall.session is not None
        return self.hall.session.id

    def say(self, message: seam.Message) -> None:
        self.hall.engine_said(message, self.ring)

    def begin(self, **state: Any) -> str:
        """Let the engine start the session it was asked for."""
        self.say(seam.Started(self.session, self.clock.now(), state))
        return self.session

    def end(self, error: str | None = None) -> None:
        """Let the engine end the session."""
        self.say(seam.Ended(self.session, None if error is None else to_json(ModelFailed(error))))

    def crash(self) -> None:
        self.engine.phase = EnginePhase.LOADING
        self.hall.engine_lost("was killed")


async def drain(outbox: Outbox) -> list[str | bytes]:
    """Take everything that may be sent to a client now."""
    await settle()
    taken: list[str | bytes] = []
    while (item := outbox.take()[0]) is not None:
        taken.append(item)
    return taken


async def told(connection: Connection) -> list[tuple[str, dict[str, Any]]]:
    """Take the messages that wait for a client."""
    messages = [json.loads(item) for item in await drain(connection.outbox) if isinstance(item, str)]
    return [(message["type"], message["data"]) for message in messages]


async def types(connection: Connection) -> list[str]:
    return [kind for kind, _ in await told(connection)]


async def places(connection: Connection) -> list[tuple[int, int]]:
    return [(data["position"], data["length"]) for kind, data in await told(connection) if kind == "reactor.queue"]


async def phases(connection: Connection) -> list[str]:
    return [data["phase"] for kind, data in await told(connection) if kind == "reactor.session"]
