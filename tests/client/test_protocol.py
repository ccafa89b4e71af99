"""The client's protocol without a server."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from reactor_runtime.client.address import Role
from reactor_runtime.client.errors import ConnectionLost, EventError, SessionEnded
from reactor_runtime.client.messages import Message, ModelContract, ReloadNotice, Reply
from reactor_runtime.client.protocol import Answer, ClientProtocol
from reactor_runtime.client.status import Phase, Status
from reactor_runtime.errors import WireError


def make_protocol(role: Role = "controller") -> ClientProtocol:
    return ClientProtocol(role)


def receive(protocol: ClientProtocol, type: str, id: int | None = None, **data: Any) -> None:
    protocol.receive_message(Message(type, data, id), 10.0, 1000.0)


def welcome(protocol: ClientProtocol, session: str | None = "s-1", **more: Any) -> None:
    data = {
        "model": "my-model",
        "role": protocol.role,
        "session": session,
        "tracks": [{"name": "main_video", "kind": "video", "direction": "out"}],
        "schema": {"events": {"set_level": {}}, "messages": {}},
        "state": {"level": 1},
        "limits": {"max_text_bytes": 100, "resume_grace_s": 5},
        **more,
    }
    receive(protocol, "reactor.welcome", **data)


def send(protocol: ClientProtocol, event: str = "set_level", **data: Any) -> tuple[int, list[Answer]]:
    answers: list[Answer] = []
    message = json.loads(protocol.prepare_event(event, data, 9.0, answers.append))
    return message["id"], answers


@pytest.mark.parametrize("role", ["controller", "viewer"])
def test_a_client_in_a_room_is_ready_when_it_knows_who_has_which_seat(role: Role) -> None:
    client = make_protocol(role)
    ready = []
    # Of two connections.
    for _ in range(2):
        welcome(client, seat=1, seats=2, room="k7mq2d")
        ready.append(client.ready)
        receive(client, "reactor.seats", room="k7mq2d", clients=["c-1", "c-2"], away=[])
        ready.append(client.ready)
    assert ready == [False, True] * 2
    assert client.seats == ("c-1", "c-2")


def test_a_viewer_without_a_session_waits_for_no_seats() -> None:
    viewer = make_protocol("viewer")
    welcome(viewer, session=None, seats=2)
    assert viewer.ready


def test_a_controller_goes_from_the_wait_queue_to_its_turn_and_its_end() -> None:
    controller = make_protocol()
    seen = [(controller.status.phase, controller.ready)]

    def receive_next(type: str, **data: Any) -> None:
        receive(controller, type, **data)
        seen.append((controller.status.phase, controller.ready))

    receive_next("reactor.queue", position=2, length=3)
    receive_next("reactor.session", phase="loading", detail="shard 3", elapsed_s=1.0)
    welcome(controller)
    receive_next("reactor.session", phase="started", session="s-1")
    receive_next("reactor.session", phase="ended", reason="turn_over", message="your turn is over")
    assert seen == [
        (Phase.CONNECTING, False),
        (Phase.WAITING, False),
        (Phase.LOADING, False),
        (Phase.CONNECTED, True),
        (Phase.ENDED, False),
    ]
    assert isinstance(controller.final_error, SessionEnded)
    assert (controller.final_error.reason, str(controller.status)) == ("turn_over", "ended: your turn is over")


def test_a_controller_that_watches_while_it_waits_gets_its_own_session() -> None:
    controller = make_protocol()
    receive(controller, "reactor.queue", position=1, length=1)
    welcome(controller, "s-1", role="viewer")
    assert (controller.knows_model, controller.ready) == (True, False)
    receive(controller, "reactor.session", phase="away", seconds=3.0)
    receive(controller, "reactor.session", phase="resumed", session="s-1")
    receive(controller, "reactor.queue", position=1, length=2)
    assert controller.status == Status(Phase.WAITING, "s-1", position=1, length=2)
    welcome(controller, "s-2")
    receive(controller, "reactor.session", phase="started", session="s-2")
    assert controller.ready
    assert controller.status == Status(Phase.CONNECTED, "s-2")


def test_a_viewer_continues_from_session_to_session() -> None:
    viewer = make_protocol("viewer")
    welcome(viewer, None, state={})
    assert (viewer.status.phase, viewer.ready) == (Phase.WAITING, True)
    receive(viewer, "reactor.session", phase="started", session="s-2")
    receive(viewer, "reactor.state", level=7)
    assert (viewer.status.phase, viewer.status.session, viewer.state) == (Phase.CONNECTED, "s-2", {"level": 7})
    receive(viewer, "reactor.session", phase="ended", reason="left", message="gone")
    assert (viewer.status.phase, viewer.state, viewer.final_error) == (Phase.WAITING, {}, None)


def test_the_state_is_updated_and_read_only() -> None:
    controller = make_protocol()
    welcome(controller)
    before = controller.state
    receive(controller, "reactor.state", level=2, name="x")
    assert (before, controller.state) == ({"level": 1}, {"level": 2, "name": "x"})
    with pytest.raises(TypeError):
        controller.state["level"] = 3  # type: ignore[index]  # the assignment is what is tested


def test_answers_are_matched_with_their_events_in_any_order() -> None:
    controller = make_protocol()
    welcome(controller)
    (first, one), (second, two) = send(controller, level=1), send(controller, level=999)
    fields = [{"path": "set_level.level", "message": "999 is above 255"}]
    receive(controller, "reactor.error", second, code="invalid_event", message="no", fields=fields, event="set_level")
    receive(controller, "reactor.reply", first, n=1, message={"type": "done", "data": {"x": 1}})
    receive(controller, "reactor.reply", first, n=1)
    assert one == [Reply(1, Message("done", {"x": 1}))]
    (refusal,) = two
    assert isinstance(refusal, EventError)
    assert (refusal.code, refusal.event) == ("invalid_event", "set_level")
    assert [(field.path, field.message) for field in refusal.fields] == [("set_level.level", "999 is above 255")]


@pytest.mark.parametrize("data", [{}, {"n": "x"}, {"n": 1, "message": 3}, {"n": 1, "message": {}}], ids=str)
def test_a_malformed_reply_answers_its_event(data: dict[str, Any]) -> None:
    protocol = make_protocol()
    welcome(protocol)
    id, answers = send(protocol)
    receive(protocol, "reactor.reply", id, **data)
    (answer,) = answers
    assert isinstance(answer, ConnectionLost)


@pytest.mark.parametrize("data", [{}, {"fields": 3}, {"code": "x", "fields": [1, {}]}], ids=str)
def test_an_incomplete_error_answers_its_event(data: dict[str, Any]) -> None:
    protocol = make_protocol()
    welcome(protocol)
    id, answers = send(protocol)
    receive(protocol, "reactor.error", id, **data)
    (answer,) = answers
    assert isinstance(answer, EventError)


def test_pending_events_end_with_the_connection() -> None:
    controller = make_protocol()
    welcome(controller)
    _, lost = send(controller)
    controller.on_connection_lost(ConnectionLost("lost"))
    _, ended = send(controller)
    controller.end_client(SessionEnded("closed"))
    controller.end_client(ConnectionLost("too late"))
    assert [type(answer) for answer in (*lost, *ended)] == [ConnectionLost, SessionEnded]
    assert controller.status.reason == "closed"


def test_a_resumed_client_keeps_its_session() -> None:
    controller = make_protocol()
    welcome(controller, resume="secret")
    controller.on_connection_lost(ConnectionLost("lost"))
    assert (controller.status.phase, controller.ready) == (Phase.RECONNECTING, False)
    welcome(controller, resume="secret", state={"level": 9})
    receive(controller, "reactor.session", phase="resumed", session="s-1")
    assert (controller.status.phase, controller.status.notice, controller.final_error) == (
        Phase.CONNECTED,
        "resumed",
        None,
    )
    assert controller.state == {"level": 9}


@pytest.mark.parametrize("told", ["queue", "welcome"])
def test_a_client_that_reconnects_to_another_session_has_lost_its_own(told: str) -> None:
    controller = make_protocol()
    welcome(controller, resume="secret")
    controller.on_connection_lost(ConnectionLost("lost"))
    lost = controller.scope
    if told == "queue":
        receive(controller, "reactor.queue", position=1, length=1)
    else:
        welcome(controller, "s-2", resume="another")
    assert isinstance(lost.error, ConnectionLost)
    assert controller.final_error is controller.scope.error is None


def test_notices_come_and_go() -> None:
    controller = make_protocol()
    welcome(controller)
    receive(controller, "reactor.session", phase="ending", seconds=60.0)
    assert (controller.status.notice, controller.status.seconds) == ("ending", 60.0)
    assert str(controller.status) == "connected: ending, 60 s"
    receive(controller, "reactor.session", phase="ending", seconds=None)
    assert str(controller.status) == "connected"


def test_only_messages_of_the_model_are_kept() -> None:
    controller = make_protocol()
    for number in range(1005):
        receive(controller, "progress", step=number)
    receive(controller, "reactor.of_a_later_version", x=1)
    assert len(controller.scope.messages) == 1000
    assert controller.scope.messages[0] == Message("progress", {"step": 5})


def test_an_error_without_an_event_is_a_publish_error() -> None:
    controller = make_protocol()
    receive(controller, "reactor.error", code="bad_media", message="no JPEG")
    receive(controller, "reactor.error", code="unknown_event", message="no such event", event="set_levle")
    assert [error.code for error in controller.publish_errors] == ["bad_media"]


@pytest.mark.parametrize(
    ("event", "data", "kind"),
    [
        ("reactor.ack", {}, ValueError),
        ("", {}, ValueError),
        ("set_level", {"level": float("nan")}, ValueError),
        ("set_level", {"level": object()}, TypeError),
        ("set_level", {"level": "x" * 101}, ValueError),
    ],
)
def test_an_event_that_cannot_be_sent_raises_at_once(event: str, data: dict[str, Any], kind: type[Exception]) -> None:
    controller = make_protocol()
    welcome(controller)
    with pytest.raises(kind):
        controller.prepare_event(event, data, 0.0, lambda _: None)


def test_numbers_and_arrays_of_numpy_are_sent_as_json() -> None:
    controller = make_protocol()
    text = controller.prepare_event("x", {"a": np.float32(0.5), "b": np.arange(3)}, 0.0, lambda _: None)
    assert json.loads(text)["data"] == {"a": 0.5, "b": [0, 1, 2]}


@pytest.mark.parametrize("role", ["controller", "viewer"])
def test_a_failed_model_ends_the_session_until_the_client_reconnects(role: Role) -> None:
    protocol = make_protocol(role)
    receive(protocol, "reactor.session", phase="failed", message="load() failed")
    assert (protocol.status.phase, protocol.status.reason, protocol.final_error) == (Phase.ENDED, "failed", None)
    with pytest.raises(SessionEnded, match="load"):
        protocol.scope.check()
    protocol.on_reconnected()
    protocol.scope.check()
    assert protocol.status == Status()


@pytest.mark.parametrize("reason", ["model_error", "model_died", "server_stopping"])
def test_the_session_ends_and_the_client_continues(reason: str) -> None:
    controller = make_protocol()
    welcome(controller)
    _, lost = send(controller)
    receive(controller, "reactor.session", phase="ended", reason=reason, message="why")
    (error,) = lost
    assert isinstance(error, SessionEnded)
    assert (error.reason, controller.scope.error, controller.final_error) == (reason, error, None)


def contract(*events: str, **more: Any) -> dict[str, Any]:
    described = {name: {"field": name.removeprefix("set_")} for name in events}
    return {"tracks": [], "schema": {"events": described, "messages": {}, **more}}


def test_a_reload_changes_the_contract_and_keeps_the_session_and_the_fields_that_stay() -> None:
    controller = make_protocol()
    receive(controller, "reactor.contract", **contract("early"))
    assert not controller.knows_model
    welcome(controller, state={"level": 1, "mode": "fast"})
    new = contract("set_level", "reset")
    receive(controller, "reactor.contract", **new)
    assert controller.ready
    assert controller.welcome.contract == ModelContract((), new["schema"])
    assert (controller.welcome.session, controller.state) == ("s-1", {"level": 1})


def test_a_reload_keeps_read_only_fields() -> None:
    controller = make_protocol()
    welcome(controller, state={"score": 1, "mode": "fast"})
    receive(controller, "reactor.contract", **contract(state={"score": {"type": "integer", "readOnly": True}}))
    assert controller.state == {"score": 1}


@pytest.mark.parametrize("data", [{}, {"tracks": [{}], "schema": {}}, {"tracks": [], "schema": 3}], ids=str)
def test_a_malformed_contract_changes_nothing(data: dict[str, Any]) -> None:
    controller = make_protocol()
    welcome(controller)
    before = controller.welcome
    with pytest.raises((LookupError, WireError)):
        receive(controller, "reactor.contract", **data)
    assert controller.welcome is before


ERROR = {"message": "no name", "hint": None, "file": "pipeline.py", "line": 41, "text": "x"}


def test_the_last_reload_is_that_of_the_welcome_and_of_each_message() -> None:
    controller = make_protocol()
    seen: list[ReloadNotice | None] = []
    for reload in (None, {"status": "applied", "reason": None, "detail": None, "progress": None, "error": None}):
        welcome(controller, reload=reload)
        seen.append(controller.last_reload)
    receive(controller, "reactor.reload", status="failed", error=ERROR)
    seen.append(controller.last_reload)
    receive(controller, "reactor.reload", status="loading", reason="load() has changed", progress=0.5)
    seen.append(controller.last_reload)
    failed = ReloadNotice("failed", error="no name", file="pipeline.py", line=41, text="x")
    loading = ReloadNotice("loading", "load() has changed", progress=0.5)
    assert seen == [None, ReloadNotice("applied"), failed, loading]
    assert [str(failed), str(loading)] == ["failed: pipeline.py:41: no name", "loading: load() has changed"]


def test_what_the_model_reports_before_the_first_frame_is_in_the_status() -> None:
    controller = make_protocol()
    receive(controller, "reactor.session", phase="preparing", detail="early", progress=0.5)
    assert controller.status.phase is Phase.CONNECTING
    welcome(controller)
    receive(controller, "reactor.session", phase="preparing", detail="reading", progress=0.5)
    assert (controller.status.phase, controller.status.detail, controller.status.progress) == (
        Phase.CONNECTED,
        "reading",
        0.5,
    )
    receive(controller, "reactor.session", phase="preparing", detail="", progress=None)
    assert (controller.status.detail, controller.status.progress) == ("", None)


def test_a_generated_client_that_is_out_of_date_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    controller = make_protocol()
    controller.expect_types("a")
    welcome(controller)
    receive(controller, "reactor.contract", **contract(types="a"))
    assert caplog.messages == []
    for types in ("b", "c"):
        receive(controller, "reactor.contract", **contract(types=types))
    (message,) = caplog.messages
    assert "the typed client of my-model is out of date" in message
    assert "reactor schema --format python" in message


def test_a_generated_client_is_compared_with_the_model_that_is_there(caplog: pytest.LogCaptureFixture) -> None:
    controller = make_protocol()
    welcome(controller, **contract(types="b"))
    controller.expect_types("a")
    assert len(caplog.messages) == 1
