from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from reactor_runtime.cluster.codec import BadMessage
from reactor_runtime.cluster.messages import (
    FROM_WORKER,
    TO_WORKER,
    Abort,
    ContractChanged,
    Drain,
    FromWorker,
    FrontHeartbeat,
    FrontHeartbeatRequest,
    FrontIdentity,
    LimitTurns,
    Release,
    SeatStatus,
    SessionStatus,
    SlotStatus,
    Stop,
    ToWorker,
    WorkerStatus,
)
from reactor_runtime.server.sessions.slot import SessionEnd

SLOT = SlotStatus(
    session=SessionStatus(
        "s-1", "running", 1.5, (SeatStatus("t-1", "c-1", "secret"), SeatStatus(is_free=True)), room="duel"
    ),
    ended=SessionEnd("s-0", "left", is_broken=True),
    clients=2,
    viewers=1,
    fps=30.0,
    age_ms=6.5,
    late_ms=0.5,
)
STATUS = WorkerStatus(
    build="5f",
    phase="ready",
    detail="",
    progress=None,
    loading_s=0.0,
    failed_loads=0,
    slots=(SLOT, replace(SLOT, session=None)),
    fitting=2,
    limit="a step takes 16.0 ms of 33.3 ms",
    released=("t-0",),
    draining=False,
    gpu="0",
    memory_bytes=1 << 30,
    uptime_s=None,
)


@pytest.mark.parametrize(
    "message", [STATUS, ContractChanged({"tracks": [], "schema": {"é": 1}}), FrontHeartbeatRequest()]
)
def test_a_message_of_a_worker_is_read_as_it_was_written(message: FromWorker) -> None:
    assert FROM_WORKER.decode(FROM_WORKER.encode(message)) == message


@pytest.mark.parametrize(
    "message", [FrontHeartbeat(), LimitTurns(("t-1", "t-2")), Release("t-1"), Drain(), Stop(), Abort()]
)
def test_a_message_of_a_front_is_read_as_it_was_written(message: ToWorker) -> None:
    assert TO_WORKER.decode(TO_WORKER.encode(message)) == message


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{}", '{"type": []}', '{"type": "status"}', '{"type": "waiting", "count": "x"}', "{" * 10_000],
)
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(BadMessage):
        TO_WORKER.decode(text)
    with pytest.raises(BadMessage):
        FROM_WORKER.decode(text)


def test_the_error_of_a_message_names_the_field_and_no_value() -> None:
    text = FROM_WORKER.encode(STATUS).replace('"phase":"running"', '"phase":["hidden"]')
    with pytest.raises(BadMessage, match=r"status: slots\.0\.session\.phase: .*string") as error:
        FROM_WORKER.decode(text)
    assert "secret" not in str(error.value)
    assert "hidden" not in str(error.value)


def test_a_worker_can_give_the_front_no_order() -> None:
    with pytest.raises(BadMessage, match="unexpected"):
        FROM_WORKER.decode(TO_WORKER.encode(Stop()))


def test_the_identity_of_a_front_is_read_as_it_was_written_and_another_text_is_refused() -> None:
    identity = FrontIdentity.of_this_process()
    assert FrontIdentity.from_json(json.dumps(asdict(identity)).encode()) == identity
    assert FrontIdentity.from_fields({name: str(value) for name, value in asdict(identity).items()}) == identity
    for text in (b"", b"<html>", b"[1]", b"null", b"{}", b'{"id": "f-1"}'):
        with pytest.raises(BadMessage, match="does not name its front"):
            FrontIdentity.from_json(text)
