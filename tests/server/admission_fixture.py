"""Admission with engines that do nothing by themselves, and the messages that its clients get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reactor_runtime.errors import ModelFailed, to_json
from reactor_runtime.ipc import messages as ipc
from reactor_runtime.ipc.ring import RingReader, create_memory
from reactor_runtime.manifest import Manifest
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.options import ClientOptions
from reactor_runtime.server.delivery.outbox import Outbox
from reactor_runtime.server.delivery.playout import Playout
from reactor_runtime.server.delivery.seated_subscribers import SeatedSubscribers
from reactor_runtime.server.encoding.encoded import MediaFile
from reactor_runtime.server.options import ServeOptions, TurnLimits
from reactor_runtime.server.sessions.admission import Admission, Loss
from reactor_runtime.server.sessions.engine_slot import EngineSlot
from reactor_runtime.server.sessions.inbound import Inbound
from reactor_runtime.server.sessions.slot import SlotSettings
from reactor_runtime.server.workers.engine import EnginePhase
from tests.fakes import FakeClock, FakeEngine, HandEncoder, settle

MANIFEST = Manifest(Path("/my-model"), "pipeline:MyModel", "pipeline", "MyModel", "my-model", None)
NO_LIMITS = TurnLimits()


class AdmissionFixture:
    """Admission with its slots; tests act as the clients and the engines, of which `engine` is the first."""

    def __init__(
        self,
        *,
        most_waiting: int = 2,
        most_viewers: int = 2,
        expose_errors: bool = True,
        limits: TurnLimits = NO_LIMITS,
        engines: int = 1,
    ) -> None:
        self.clock = FakeClock()
        self.loads: list[float] = []
        self.memory = create_memory()
        self.ring = RingReader(self.memory)
        options = ServeOptions(
            manifest=MANIFEST,
            config={},
            host="127.0.0.1" if expose_errors else "0.0.0.0",
            max_waiting=most_waiting,
            max_viewers=most_viewers,
            limits=limits,
            sessions=engines,
        )
        settings = SlotSettings(options=options, clock=self.clock)
        self.admission: Admission[EngineSlot] = Admission(
            settings,
            on_slot_ready=lambda _, load_s: self.loads.append(load_s),
            claim_loss=lambda _, secret: Loss("the machine has failed", float(secret)),
        )
        self.engines = [FakeEngine() for _ in range(engines)]
        self.playouts: list[Playout] = []
        self.slots = [self._open(engine) for engine in self.engines]
        self.engine, self.slot = self.engines[0], self.slots[0]
        self.subscribers = self.slot.subscribers
        self.inbound = Inbound(self.admission)

    def _open(self, engine: FakeEngine) -> EngineSlot:
        subscribers = SeatedSubscribers(
            on_join=lambda client: slot.on_subscriber_joined(client),
            on_leave=lambda client: slot.on_subscriber_left(client),
        )
        playout = Playout(self.clock, HandEncoder(), subscribers, engine.send, self.admission.settings.metrics)
        self.playouts.append(playout)
        slot = EngineSlot(
            len(self.admission.slots) + 1,
            engine=engine,
            send=engine.send,
            ids=self.admission.settings.ids(len(self.admission.slots) + 1),
            subscribers=subscribers,
            playout=playout,
            wait_queue=self.admission.wait_queue,
            settings=self.admission.settings,
            callbacks=self.admission.slot_callbacks,
            gpu="",
            has_memory=True,
            on_reload=lambda *_: None,
        )
        self.admission.slots.add(slot)
        return slot

    def come(
        self,
        role: Role = Role.CONTROLLER,
        *,
        watches: bool = False,
        resume: str = "",
        session: str = "",
        returning: str = "",
        address: str = "127.0.0.1",
        slot: int = 0,
        waits: bool = False,
    ) -> Client:
        client = Client(role, address, ClientOptions(self.clock), watches=watches, slot=slot, waits=waits)
        self.admission.attach(client, resume, session, returning=returning)
        return client

    @property
    def session(self) -> str:
        return self.session_in(1)

    def session_in(self, number: int) -> str:
        """Return the id of the session on the slot of this number."""
        session = self.slots[number - 1].session
        assert session is not None
        return session.id

    def say(self, message: ipc.OfSession, number: int = 1) -> None:
        self.slots[number - 1].on_engine_message(message)

    def put_bundle(self, session: str, bundle: int, *, due_in_s: float = 1.0) -> None:
        """Send an empty bundle of a session to the playout of the first slot."""
        due = self.clock.now() + due_in_s
        self.playouts[0].put_bundle(ipc.Bundle(session, bundle, due, 0.1, 0.0, 0, 0, 0.0, ()), self.ring)

    def begin(self, number: int = 1, /, **state: Any) -> str:
        """Start the session that an engine was sent."""
        session = self.session_in(number)
        self.say(ipc.Started(session, self.clock.now(), state), number)
        return session

    def end(self, error: str | None = None, number: int = 1) -> None:
        """End the session of an engine."""
        outcome = None if error is None else to_json(ModelFailed(error))
        self.say(ipc.Ended(self.session_in(number), outcome), number)

    def crash(self, number: int = 1) -> None:
        self.engines[number - 1].phase = EnginePhase.LOADING
        self.slots[number - 1].on_engine_lost("was killed")

    def load(self, number: int = 1) -> None:
        """Make an engine ready, again after a crash."""
        self.engines[number - 1].phase = EnginePhase.READY
        self.slots[number - 1].on_engine_ready(1.0)


async def drain(outbox: Outbox) -> list[str | bytes]:
    """Return everything that may be sent to a client now."""
    await settle()
    taken: list[str | bytes] = []
    while (item := outbox.take_next()[0]) is not None:
        taken.append(item.data if isinstance(item, MediaFile) else item)
    return taken


async def told(client: Client) -> list[tuple[str, dict[str, Any]]]:
    """Return the messages that wait for a client."""
    messages = [json.loads(item) for item in await drain(client.outbox) if isinstance(item, str)]
    return [(message["type"], message["data"]) for message in messages]


async def types(client: Client) -> list[str]:
    return [kind for kind, _ in await told(client)]


async def places(client: Client) -> list[tuple[int, int]]:
    return [(data["position"], data["length"]) for kind, data in await told(client) if kind == "reactor.queue"]


async def phases(client: Client) -> list[str]:
    return [data["phase"] for kind, data in await told(client) if kind == "reactor.session"]
