from __future__ import annotations

import asyncio
from collections import deque

from starlette.types import Message

from reactor_runtime.server.websocket import MOST_A_TURN, incoming


async def test_a_client_that_sends_without_a_pause_leaves_everybody_else_their_turns() -> None:
    waiting: deque[Message] = deque([{"type": "websocket.receive", "text": "hello"}] * (3 * MOST_A_TURN))
    waiting.append({"type": "websocket.disconnect", "code": 1000})

    async def receive() -> Message:
        return waiting.popleft()

    others_turns: list[int] = []

    def another() -> None:
        others_turns.append(len(waiting))
        asyncio.get_running_loop().call_soon(another)

    asyncio.get_running_loop().call_soon(another)
    assert [message["text"] async for message in incoming(receive)] == ["hello"] * (3 * MOST_A_TURN)
    assert others_turns == [2 * MOST_A_TURN + 1, MOST_A_TURN + 1, 1]
