"""Sends and receives through an ASGI server that is not ours, with ASGI's messages in place of our protocols.

Such a server has its own limits, timeouts and buffers. One item at a time is in `send`; meanwhile a newer frame
replaces the one that waits in the outbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from reactor_runtime.server.net.message_reader import Violation
from reactor_runtime.server.net.sliced_reader import MessageReceiver
from reactor_runtime.server.net.socket_protocol import FINAL_CODES
from reactor_runtime.wire.protocol import CloseCode


class ItemSender:
    """Send posted items with `send`, as a `Socket` for a `SocketSender`; ready while nothing is being sent."""

    def __init__(self, send: Callable[[str | bytes], Awaitable[None]]) -> None:
        self._send = send
        self._item: str | bytes | None = None
        self._posted = asyncio.Event()
        self._on_writable: Callable[[], object] | None = None

    @property
    def ready(self) -> bool:
        """Return whether an item may be posted."""
        return self._item is None

    def post(self, item: str | bytes) -> None:
        """Send an item soon."""
        self._item = item
        self._posted.set()

    def notify_writable(self, on_writable: Callable[[], object] | None) -> None:
        """Call `on_writable` whenever an item was sent; None ends that."""
        self._on_writable = on_writable

    async def run(self) -> None:
        """Send what is posted until the client has gone."""
        while True:
            await self._posted.wait()
            self._posted.clear()
            assert self._item is not None, "it was posted"
            try:
                await self._send(self._item)
            except (WebSocketDisconnect, OSError):
                return
            self._item = None
            if self._on_writable is not None:
                self._on_writable()


def socket_sender(websocket: WebSocket) -> ItemSender:
    """Return the sender for a WebSocket."""

    async def send(item: str | bytes) -> None:
        # A violation may have closed it.
        if websocket.application_state is WebSocketState.CONNECTED:
            await (websocket.send_text(item) if isinstance(item, str) else websocket.send_bytes(item))

    return ItemSender(send)


async def receive_messages(websocket: WebSocket, receiver: MessageReceiver) -> bool:
    """Pass the client's messages to a receiver until it disconnects; return whether its close code is final.

    Raises Violation if the client breaks a rule.
    """
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return message.get("code", 1005) in FINAL_CODES
        text = message.get("text")
        data = message.get("bytes") or b"" if text is None else text.encode()
        allowance = receiver.allowance(is_text=text is not None)
        if len(data) > allowance.most_bytes:
            raise Violation(CloseCode.TOO_BIG, allowance.reason)
        kept = None if len(data) > allowance.kept_bytes else data
        pause_s = receiver.receive(kept, len(data), is_text=text is not None)
        if pause_s:
            await asyncio.sleep(pause_s)


class NoServer:
    """Stand in for `HttpServer` where another server has the sockets; `serve` waits for `stop`."""

    def __init__(self) -> None:
        self._stopped = asyncio.Event()

    async def serve(self, sockets: object = None) -> None:  # noqa: ARG002  (the signature of Uvicorn)
        await self._stopped.wait()

    async def wait_sockets_closed(self) -> None: ...

    def stop(self) -> None:
        self._stopped.set()

    def abort(self) -> None: ...
