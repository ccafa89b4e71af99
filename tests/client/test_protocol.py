"""What a client makes of what it is told, without a server."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from reactor_runtime.client.address import Role
from reactor_runtime.client.errors import ConnectionLost, EventError, SessionEnded
from reactor_runtime.client.message import Message, Reply
from reactor_runtime.client.pending import Answer
from reactor_runtime.client.protocol import ClientProtocol
from reactor_runtime.client.status import Phase, Status


def conversation(role: Role = "controller") -> ClientProtocol:
    return ClientProtocol(role)


def hear(conversation: ClientProtocol, type: str, id: int | None = None, **data: Any) -> None:
    conversation.hear(Message(type, data, id), 10.0, 1000.0)


def welcome(conversation: ClientProtocol, session: str | None = "s-1", **more: Any) -> None:
    said = {
        "model": "my-model",
        "role": conversation.role,
        "session": session,
        "tracks": [{"name": "main_video", "kind": "video", "direction": "out"}],
        "schema": {"events": {"set_level": {}}, "messages": {}},
        "state": {"level": 1},
        "limits": {"max_text_bytes": 100, "resume_grace_s": 5},
        **more,
    }
    hear(conversation, "reactor.welcome", **said)


def ask(conversation: ClientProtocol, event: str = "set_level", **data: Any) -> tuple[int, list[Answer]]:
    answers: list[Answer] = []
    message = json.loads(conversation.ask(event, data, 9.0, answers.append))
    return message["id"], answers


def test_a_controller_goes_from_the_line_to_its_turn_and_its_end() -> None:
    controller = conversation()
    seen = [(controller.status.phase, controller.ready)]

    def told(type: str, **data: Any) -> None:
        hear(controller, type, **data)
        seen.append((controller.status.phase, controller.ready))

    told("reactor.queue", position=2, length=3)
    told("reactor.session", phase="loading", detail="shard 3", elapsed_s=1.0)
    welcome(controller)
    told("reactor.session", phase="started", session="s-1")
    told("reactor.session", phase="ended", reason="turn_over", message="your turn is over")
    assert seen == [
        (Phase.CONNECTING, False),
        (Phase.WAITING, False),
        (Phase.LOADING, False),
        (Phase.CONNECTED, True),
        (Phase.ENDED, False),
    ]
    assert isinstance(controller.over, SessionEnded)
    assert (controller.over.reason, str(controller.status)) == ("turn_over", "ended: your turn is over")


def test_a_controller_that_watches_from_the_line_waits_for_its_own_session() -> None:
    controller = conversation()
    hear(controller, "reactor.queue", position=1, length=1)
    welcome(controller, "s-1", role="viewer")
    assert (controller.known, controller.ready) == (True, False)
    hear(controller, "reactor.session", phase="away", seconds=3.0)
    hear(controller, "reactor.session", phase="resumed", session="s-1")
    hear(controller, "reactor.queue", position=1, length=2)
    assert controller.status == Status(Phase.WAITING, "s-1", position=1, length=2)
    welcome(controller, "s-2")
    hear(controller, "reactor.session", phase="started", session="s-2")
    assert controller.ready
    assert controller.status == Status(Phase.CONNECTED, "s-2")


def test_a_viewer_goes_on_from_session_to_session() -> None:
    viewer = conversation("viewer")
    welcome(viewer, None, state={})
    assert (viewer.status.phase, viewer.ready) == (Phase.WAITING, True)
    hear(viewer, "reactor.session", phase="started", session="s-2")
    hear(viewer, "reactor.state", level=7)
    assert (viewer.status.phase, viewer.status.session, viewer.state) == (Phase.CONNECTED, "s-2", {"level": 7})
    hear(viewer, "reactor.session", phase="ended", reason="left", message="gone")
    assert (viewer.status.phase, viewer.state, viewer.over) == (Phase.WAITING, {}, None)


def test_the_state_is_mirrored_and_cannot_be_changed_here() -> None:
    controller = conversation()
    welcome(controller)
    before = controller.state
    hear(controller, "reactor.state", level=2, name="x")
    assert (before, controller.state) == ({"level": 1}, {"level": 2, "name": "x"})
    with pytest.raises(TypeError):
        controller.state["level"] = 3  # type: ignore[index]  # that it can't is what is tested


def test_answers_find_their_events_in_any_order() -> None:
    controller = conversation()
    welcome(controller)
    (first, one), (second, two) = ask(controller, level=1), ask(controller, level=999)
    fields = [{"path": "set_level.level", "message": "999 is above 255"}]
    hear(controller, "reactor.error", second, code="invalid_event", message="no", fields=fields, event="set_level")
    hear(controller, "reactor.reply", first, n=1, message={"type": "done", "data": {"x": 1}})
    hear(controller, "reactor.reply", first, n=1)
    assert one == [Reply(1, Message("done", {"x": 1}))]
    (refusal,) = two
    assert isinstance(refusal, EventError)
    assert (refusal.code, refusal.event) == ("invalid_event", "set_level")
    assert [(field.path, field.message) for field in refusal.fields] == [("set_level.level", "999 is above 255")]


@pytest.mark.parametrize("said", [{}, {"n": "x"}, {"n": 1, "message": 3}, {"n": 1, "message": {}}], ids=str)
def test_a_reply_that_cannot_be_understood_is_an_answer_too(said: dict[str, Any]) -> None:
    talk = conversation()
    welcome(talk)
    id, answers = ask(talk)
    hear(talk, "reactor.reply", id, **said)
    (answer,) = answers
    assert isinstance(answer, ConnectionLost)


@pytest.mark.parametrize("said", [{}, {"fields": 3}, {"code": "x", "fields": [1, {}]}], ids=str)
def test_an_error_that_lacks_something_is_an_answer_too(said: dict[str, Any]) -> None:
    talk = conversation()
    welcome(talk)
    id, answers = ask(talk)
    hear(talk, "reactor.error", id, **said)
    (answer,) = answers
    assert isinstance(answer, EventError)


def test_open_events_end_with_the_connection() -> None:
    controller = conversation()
    welcome(controller)
    _, lost = ask(controller)
    controller.broken(ConnectionLost("lost"))
    _, ended = ask(controller)
    controller.end(SessionEnded("closed"))
    controller.end(ConnectionLost("too late"))
    assert [type(answer) for answer in (*lost, *ended)] == [ConnectionLost, SessionEnded]
    assert controller.status.reason == "closed"


def test_who_comes_back_has_its_session() -> None:
    controller = conversation()
    welcome(controller, resume="secret")
    controller.broken(ConnectionLost("lost"))
    assert (controller.status.phase, controller.ready) == (Phase.RECONNECTING, False)
    welcome(controller, resume="secret", state={"level": 9})
    hear(controller, "reactor.session", phase="resumed", session="s-1")
    assert (controller.status.phase, controller.status.notice, controller.over) == (Phase.CONNECTED, "resumed", None)
    assert controller.state == {"level": 9}


@pytest.mark.parametrize("told", ["queue", "welcome"])
def test_who_comes_back_to_another_session_has_lost_its_own(told: str) -> None:
    controller = conversation()
    welcome(controller, resume="secret")
    controller.broken(ConnectionLost("lost"))
    lost = controller.scope
    if told == "queue":
        hear(controller, "reactor.queue", position=1, length=1)
    else:
        welcome(controller, "s-2", resume="another")
    assert isinstance(lost.error, ConnectionLost)
    assert controller.over is controller.scope.error is None


def test_notices_come_and_go() -> None:
    controller = conversation()
    welcome(controller)
    hear(controller, "reactor.session", phase="ending", seconds=60.0)
    assert (controller.status.notice, controller.status.seconds) == ("ending", 60.0)
    assert str(controller.status) == "connected: ending, 60 s"
    hear(controller, "reactor.session", phase="ending", seconds=None)
    assert str(controller.status) == "connected"


def test_the_model_s_messages_wait_and_the_protocol_s_do_not() -> None:
    controller = conversation()
    for number in range(1005):
        hear(controller, "progress", step=number)
    hear(controller, "reactor.of_a_later_version", x=1)
    assert len(controller.scope.messages) == 1000
    assert controller.scope.messages[0] == Message("progress", {"step": 5})


def test_an_error_that_answers_no_event_is_a_complaint() -> None:
    controller = conversation()
    hear(controller, "reactor.error", code="bad_media", message="no JPEG")
    hear(controller, "reactor.error", code="unknown_event", message="no such event", event="set_levle")
    assert [error.code for error in controller.complaints] == ["bad_media"]


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
def test_what_cannot_be_sent_is_said_at_once(event: str, data: dict[str, Any], kind: type[Exception]) -> None:
    controller = conversation()
    welcome(controller)
    with pytest.raises(kind):
        controller.ask(event, data, 0.0, lambda _: None)


def test_numbers_and_arrays_of_numpy_are_sent_as_json() -> None:
    controller = conversation()
    text = controller.ask("x", {"a": np.float32(0.5), "b": np.arange(3)}, 0.0, lambda _: None)
    assert json.loads(text)["data"] == {"a": 0.5, "b": [0, 1, 2]}


@pytest.mark.parametrize("role", ["controller", "viewer"])
def test_a_model_that_cannot_be_served_ends_what_waits_until_there_is_a_connection_again(role: Role) -> None:
    talk = conversation(role)
    hear(talk, "reactor.session", phase="failed", message="load() failed")
    assert (talk.status.phase, talk.status.reason, talk.over) == (Phase.ENDED, "failed", None)
    with pytest.raises(SessionEnded, match="load"):
        talk.scope.check()
    talk.reopened()
    talk.scope.check()
    assert talk.status == Status()


@pytest.mark.parametrize("reason", ["model_error", "model_died", "server_stopping"])
def test_the_session_ends_and_the_client_does_not(reason: str) -> None:
    controller = conversation()
    welcome(controller)
    _, lost = ask(controller)
    hear(controller, "reactor.session", phase="ended", reason=reason, message="why")
    (error,) = lost
    assert isinstance(error, SessionEnded)
    assert (error.reason, controller.scope.error, controller.over) == (reason, error, None)
