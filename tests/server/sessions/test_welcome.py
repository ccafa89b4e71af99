"""The welcome has the same fields for every client, and secrets only for the controller."""

from __future__ import annotations

from typing import Any

import pytest

from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.options import ClientOptions
from reactor_runtime.server.delivery.playout import Playout
from reactor_runtime.server.delivery.seated_subscribers import SeatedSubscribers
from reactor_runtime.server.options import TurnLimits
from reactor_runtime.server.sessions.session import ServedSession
from reactor_runtime.server.sessions.welcome import welcome_message
from reactor_runtime.server.telemetry.metrics import Metrics
from tests.fakes import FakeClock, FakeEngine, HandEncoder

CONTRACT = {"tracks": [{"name": "main_video"}], "schema": {"events": {}}}
OPTIONS: dict[str, Any] = {"limits": TurnLimits(max_session_s=60, resume_grace_s=10), "encodings": ["jpeg", "h264"]}


@pytest.fixture
def session() -> ServedSession:
    clock, engine, subscribers = FakeClock(), FakeEngine(), SeatedSubscribers()
    playout = Playout(clock, HandEncoder(), subscribers, engine.send, Metrics())
    controller = Client(Role.CONTROLLER, "127.0.0.1", ClientOptions(clock))
    session = ServedSession(
        controller,
        subscribers,
        playout,
        engine.send,
        clock=clock,
        limits=OPTIONS["limits"],
        log_ids={},
        has_clients=False,
        outlives=False,
        stepped=False,
        seats=1,
        room="",
        on_turn_over=lambda *_: None,
    )
    session.state = {"level": 1}
    return session


def test_only_the_controller_gets_the_secrets(session: ServedSession) -> None:
    controller, viewer = (
        welcome_message(session, CONTRACT, model="m", client="c-1", controls=controls, **OPTIONS)
        for controls in (True, False)
    )
    seat = session.seats[0]
    assert (controller["resume"], controller["upload_key"]) == (
        seat.resume_secret,
        session.uploads.key_of(seat.client_id),
    )
    assert viewer == {**controller, "role": "viewer", "resume": None, "upload_key": None}


def test_a_welcome_without_a_session_has_an_empty_state() -> None:
    welcome = welcome_message(None, CONTRACT, model="m", client="c-1", controls=False, **OPTIONS)
    assert (welcome["session"], welcome["state"], welcome["role"]) == (None, {}, "viewer")
    assert welcome["encodings"] == ["jpeg", "h264"]


def test_a_limit_of_zero_is_null() -> None:
    limits = welcome_message(None, CONTRACT, model="m", client="c-1", controls=False, **OPTIONS)["limits"]
    assert [limits[key] for key in ("max_session_s", "idle_timeout_s", "resume_grace_s")] == [60, None, 10]
