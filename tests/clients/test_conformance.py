"""Both clients against `conformance.json`: the effect of each close on the client, on events and on iterators."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import pytest

from reactor_runtime.client import ClientError, Phase, Session, SessionEnded, connect
from tests.clients.node import WITH_SOCKETS, prepare
from tests.clients.scripted_server import ROWS, UNREACHABLE, Row, name_of, scripted_server
from tests.clients.test_node import CLIENT
from tests.timeouts import TIMEOUT_S

NOWHERE = "http://127.0.0.1:9"  # where nobody listens
PROGRAM = CLIENT.parents[2] / "tests" / "clients" / "conformance.mjs"
Outcome = dict[str, Any]


def expected(row: Row) -> Outcome:
    return {"client": row["client"], "error": row["error"], "reason": row.get("reason"), "iterator": row["iterator"]}


def test_each_row_says_something_else() -> None:
    names = [name_of(row) for row in ROWS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("row", ROWS, ids=name_of)
async def test_python(row: Row) -> None:
    async with asyncio.timeout(TIMEOUT_S), scripted_server([row]) as url:
        address = NOWHERE if (row["phase"], row["close"]) == ("connecting", UNREACHABLE) else f"{url}/0"
        assert await outcome(address, row) == expected(row)


async def outcome(address: str, row: Row) -> Outcome:
    try:
        session = await connect(address, role=row["role"], wait=False)
    except ClientError as error:
        return {"client": "final", **said_of(error), "iterator": "raises"}
    try:
        return await watch(session, row)
    finally:
        await session.aclose()


async def watch(session: Session, row: Row) -> Outcome:
    frames = session.frames()
    has_session = row["phase"] not in ("opening", "waiting", "redirecting")
    if has_session:
        await anext(frames)
    is_event = has_session and row["role"] == "controller"
    waits = asyncio.create_task(send(session) if is_event else session.ready())
    following = asyncio.create_task(anext(frames, None))
    (following_result,) = await asyncio.gather(following, return_exceptions=True)
    error: ClientError | None = None
    if isinstance(following_result, ClientError):
        iterator, error = "raises", following_result
    else:
        iterator = "continues" if following_result is not None else "ends"
    if iterator != "continues" or not is_event:
        (waited,) = await asyncio.gather(waits, return_exceptions=True)
        if isinstance(waited, ClientError):
            assert error is None or said_of(waited) == said_of(error)
            error = waited
    waits.cancel()
    try:
        await session.ready()
    except ClientError as final:
        assert session.status.phase is Phase.ENDED
        return {"client": "final", **said_of(error or final), "iterator": iterator}
    assert session.id == ("s-1" if row["phase"].endswith("kept") and row["error"] is None else "s-2")
    return {"client": "retry", **said_of(error), "iterator": iterator}


async def send(session: Session) -> None:
    await session.send("work")


def said_of(error: ClientError | None) -> Outcome:
    name = None if error is None else type(error).__name__
    return {"error": name, "reason": error.reason if isinstance(error, SessionEnded) else None}


@pytest.fixture(scope="module")
def in_node() -> list[Outcome]:
    """Run all rows in one program."""
    prepare()
    return asyncio.run(run_node())


async def run_node() -> list[Outcome]:
    async with asyncio.timeout(4 * TIMEOUT_S), scripted_server(ROWS) as url:
        node = await asyncio.create_subprocess_exec(
            *("node", WITH_SOCKETS, "--no-warnings", str(PROGRAM), (CLIENT / "reactor.js").as_uri(), url, NOWHERE),
            stdout=asyncio.subprocess.PIPE,
            stderr=sys.stderr,
        )
        printed, _ = await node.communicate()
    outcomes: list[Outcome] = json.loads(printed)
    return outcomes


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[name_of(row) for row in ROWS])
def test_node(in_node: list[Outcome], number: int) -> None:
    assert in_node[number] == expected(ROWS[number])
