"""A session while its model is reloaded, and what `reactor connect` prints of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from reactor_runtime.client import (
    BlockingSession,
    ClientError,
    ModelContract,
    ReloadNotice,
    SessionEnded,
    Track,
    connect,
)
from reactor_runtime.wire.containers import attach
from reactor_runtime.wire.media_header import MediaHeader
from tests.cli.command import reactor
from tests.clients.scripted_server import JPEG
from tests.timeouts import TIMEOUT_S

from .fake_server import Answers, FakeServer

DEPTH = {"name": "depth", "kind": "video", "direction": "out"}
EVENT = {"description": "", "field": None, "parameters": {"type": "object", "properties": {}}, "replies": [None]}
CHANGED: dict[str, Any] = {"tracks": [DEPTH], "schema": {"events": {"reset": EVENT}, "messages": {}}}
ERROR = {"message": "no name", "hint": None, "file": "pipeline.py", "line": 41, "text": "x"}
APPLIED = {"status": "applied", "reason": None, "detail": None, "progress": None, "error": None}
FAILED = {**APPLIED, "status": "failed", "error": ERROR}
ANSWERS: Answers = {
    "change": [("reactor.contract", CHANGED), ("reactor.reload", APPLIED)],
    "fail": [("reactor.reload", FAILED)],
    "fail again": [("reactor.reload", FAILED)],
}


async def test_contracts_and_reloads_are_yielded_as_they_come() -> None:
    async with asyncio.timeout(TIMEOUT_S), FakeServer(answers=ANSWERS).open() as url, connect(url) as session:
        contracts, reloads = session.contracts(), session.reloads()
        before = await anext(contracts)
        assert before == ModelContract(session.tracks, session.schema)
        assert session.last_reload is None
        session.notify("change")
        assert await anext(contracts) == ModelContract((Track("depth", "video", "out"),), CHANGED["schema"])
        assert [track.name for track in session.tracks] == ["depth"]
        assert session.schema == CHANGED["schema"]
        assert await anext(reloads) == ReloadNotice("applied")
        for event in ("fail", "fail again"):
            session.notify(event)
            assert await anext(reloads) == ReloadNotice(
                "failed", error="no name", file="pipeline.py", line=41, text="x"
            )
        ending = asyncio.create_task(anext(contracts, None))
        await session.aclose()
        assert await ending is None
        assert await anext(reloads, None) is None


async def test_frames_of_a_track_that_is_gone_end_with_an_error_that_lists_the_others() -> None:
    frame = attach(MediaHeader("main_video", 0, 0, 0), JPEG)
    server = FakeServer(media=frame, answers=ANSWERS)
    async with asyncio.timeout(TIMEOUT_S), server.open() as url, connect(url) as session:
        frames = session.frames("main_video")
        await anext(frames)
        session.notify("change")
        with pytest.raises(ValueError, match="no video track 'main_video' to receive; there are: depth"):
            await anext(frames)


async def test_only_a_server_with_reload_is_asked_to_reload() -> None:
    server = FakeServer(answers=ANSWERS)
    async with asyncio.timeout(TIMEOUT_S), server.open() as url, connect(url) as session:
        with pytest.raises(ValueError, match="reactor run --reload"):
            session.reload()
        session.notify("change")
        await anext(session.reloads())
        session.reload()
        while "reactor.reload" not in server.texts:
            server.received.clear()
            await server.received.wait()


def kept(file: str | None, message: str | None = None, hint: str | None = None) -> dict[str, Any]:
    return {"file": file, "message": message, "hint": hint}


async def test_a_session_is_kept_as_often_as_wanted() -> None:
    paths = [f"/recordings/{number}.mcap" for number in range(3)]
    answers: Answers = {
        **ANSWERS,
        "keep": [("reactor.keep", kept(paths[0])), ("reactor.keep", kept(paths[1], "it has ended", "begin again"))],
    }
    async with asyncio.timeout(TIMEOUT_S), FakeServer(answers=answers).open() as url, connect(url) as session:
        await session.ready()
        with pytest.raises(ValueError, match="reactor run --reload"):
            await session.keep()
        session.notify("change")
        await anext(session.reloads())
        keeping = [asyncio.create_task(session.keep()) for _ in range(2)]
        await asyncio.sleep(0)
        session.notify("keep")
        assert [str(await each) for each in keeping] == paths[:2]


@pytest.mark.parametrize(
    ("answer", "error", "hint"),
    [
        (
            ("reactor.keep", kept(None, "it is too large", "use --record")),
            "can't be kept: it is too large",
            "use --record",
        ),
        (("reactor.error", {"code": "not_controller", "message": "only authors"}), "only authors", ""),
    ],
    ids=["refused by the engine", "refused by the server"],
)
async def test_a_session_that_can_not_be_kept_is_an_error_with_what_to_do(
    answer: tuple[str, dict[str, Any]], error: str, hint: str
) -> None:
    server = FakeServer(answers={**ANSWERS, "keep": [answer]})
    async with asyncio.timeout(TIMEOUT_S), server.open() as url, connect(url) as session:
        await session.ready()
        session.notify("change")
        await anext(session.reloads())
        keeping = asyncio.create_task(session.keep())
        await asyncio.sleep(0)
        session.notify("keep")
        with pytest.raises(ClientError, match=error) as raised:
            await keeping
        assert raised.value.hint == hint


async def test_a_keep_without_an_answer_ends_with_the_session() -> None:
    async with asyncio.timeout(TIMEOUT_S), FakeServer(answers=ANSWERS).open() as url, connect(url) as session:
        await session.ready()
        session.notify("change")
        await anext(session.reloads())
        keeping = asyncio.create_task(session.keep())
        await asyncio.sleep(0)
        await session.aclose()
        with pytest.raises(SessionEnded):
            await keeping


async def test_a_program_without_a_loop_reads_the_same() -> None:
    async with asyncio.timeout(TIMEOUT_S), FakeServer(answers=ANSWERS).open() as url:
        assert await asyncio.to_thread(_read_blocking, url) == ("depth", "applied", "reset")


def _read_blocking(url: str) -> tuple[str, str, str]:
    with connect(url) as session:
        assert isinstance(session, BlockingSession)
        contracts = session.contracts()
        next(contracts)
        session.expect_types("5d1c")
        session.notify("change")
        changed, reload = next(contracts), next(session.reloads())
        session.reload()
        return changed.tracks[0].name, reload.status, next(iter(session.schema["events"]))


async def test_the_terminal_client_prints_what_has_changed(tmp_path: Path) -> None:
    ended = {"phase": "ended", "reason": "finished", "message": "done"}
    acked: list[tuple[str, dict[str, Any]]] = [
        ("reactor.contract", CHANGED),
        ("reactor.reload", FAILED),
        ("reactor.session", ended),
    ]
    frame = attach(MediaHeader("main_video", 0, 0, 0), JPEG)
    for flags in ([], ["--json"]):
        # The first frame is acknowledged when all parts of the terminal client run.
        async with FakeServer(media=frame, answers={"reactor.ack": acked}).open() as url:
            outcome = await asyncio.to_thread(reactor, "connect", url, *flags, cwd=tmp_path)
        if not flags:
            assert "the model has changed: added reset" in outcome.err.splitlines()
            assert "reload failed: pipeline.py:41: no name" in outcome.err.splitlines()
            continue
        facts: list[dict[str, Any]] = [json.loads(line) for line in outcome.out.splitlines()]
        of = {fact["kind"]: fact for fact in facts}
        assert of["contract"] == {"kind": "contract", "added": ["reset"], "changed": [], "removed": []}
        assert (of["reload"]["status"], of["reload"]["line"]) == ("failed", 41)
