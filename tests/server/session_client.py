"""Our own client, for tests of what a model and a server do; those of the wire itself read it by `client.py`.

It gets the newest picture and skips others: where every frame counts, it is the wrong one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeVar

from reactor_runtime.client import Frame, Reply, Session, connect
from reactor_runtime.client.address import Role
from tests.timeouts import TIMEOUT_S

T = TypeVar("T")
NEVER = Reply(1 << 31)


@contextlib.asynccontextmanager
async def visiting(url: str, role: Role = "controller") -> AsyncIterator[Session]:
    """Have a session for the block, which may take as long as a test waits for anything."""
    async with asyncio.timeout(TIMEOUT_S), connect(url, role=role) as session:
        yield session


async def several(items: AsyncGenerator[T, None], count: int) -> list[T]:
    """Take so many and leave the rest."""
    async with contextlib.aclosing(items):
        return [await anext(items) for _ in range(count)]


async def until_over(session: Session) -> None:
    """Wait for the end of the session, which raises."""
    await session.frame(after=NEVER)


async def is_served(url: str, expected: int = 100) -> None:
    """See that a client gets a session, and pictures as bright as expected."""
    async with visiting(url) as session:
        assert abs(level(await session.frame()) - expected) < 3


def level(frame: Frame) -> float:
    """How bright a picture is."""
    return float(frame.array.mean())
