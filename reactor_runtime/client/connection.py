"""A client's connection on an event loop: reads, writes, pings, and reconnects after a break.

Moves the items of `streams.py`; `dial.py` decides about errors and waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from reactor_runtime.client.address import Address
from reactor_runtime.client.dial import CLOSING_S, EFFECT_UNKNOWN, FINAL_STATUSES, Retry, dial, judge_close
from reactor_runtime.client.errors import ConnectError, ConnectionLost, Refused, SessionEnded
from reactor_runtime.client.messages import write
from reactor_runtime.client.send_queue import OutgoingMedia
from reactor_runtime.client.streams import SessionStreams

logger = logging.getLogger(__name__)

PING_S = 2.0
# A server answers each ping at once, even while its model computes.
MAX_UNANSWERED_PINGS = 5
ABNORMAL_CLOSURE = 1006
NORMAL_CLOSURE = 1000
# How long `aclose` waits for unsent items, since the connection may be stalled.
FLUSH_S = 1.0


class Connection:
    """Exchange the items of `streams` with a server, over one socket after the other."""

    def __init__(
        self,
        address: Address,
        *,
        tls: ssl.SSLContext | None = None,
        reconnects: bool = True,
        ping_s: float = PING_S,
    ) -> None:
        self.address = address
        self.tls = tls
        self.streams = SessionStreams(address.role)
        self._reconnects = reconnects
        self._ping_s = ping_s
        self._retry = Retry()
        self._unanswered_pings = 0
        self._sending = False
        self._task: asyncio.Task[None] | None = None
        self.socket: ClientConnection | None = None

    async def open(self) -> None:
        """Connect, and start the task that exchanges items. Raises as `dial` does."""
        self.socket = await dial(self.address, tls=self.tls)
        self._retry.on_connected(time.monotonic())
        self._task = asyncio.create_task(self._run(self.socket))

    async def aclose(self) -> None:
        """Send what is queued, for a second at most, then close, which ends the session. Idempotent."""
        try:
            await self._flush()
        finally:
            self.streams.end_client(SessionEnded("closed", "this client has closed it"))
            task, self._task = self._task, None
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
            # The task closes its socket, but not if it was cancelled before its first step.
            if self.socket is not None:
                await _close(self.socket)

    async def _flush(self) -> None:
        streams = self.streams
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_S):
                while (self._sending or not streams.send_queue.is_empty) and not streams.sending_stopped:
                    await streams.sent.wait()

    async def _run(self, socket: ClientConnection | None) -> None:
        try:
            while socket is not None:
                try:
                    await self._exchange(socket)
                finally:
                    await _close(socket)
                code, reason = socket.close_code or ABNORMAL_CLOSURE, socket.close_reason or ""
                socket = self.socket = await self._reconnect(code, reason)
        except Exception as error:
            logger.exception("the connection failed")
            self.streams.end_client(ConnectionLost(f"the connection failed: {error}"))

    async def _exchange(self, socket: ClientConnection) -> None:
        """Receive, send and ping until the connection is closed or the client ends."""
        self._unanswered_pings = 0
        async with asyncio.TaskGroup() as tasks:
            others = [tasks.create_task(self._send_items(socket)), tasks.create_task(self._ping(socket))]
            try:
                while self.streams.protocol.final_error is None:
                    item = await socket.recv()
                    self._unanswered_pings = 0
                    self.streams.receive(item, time.monotonic(), time.time())
            except ConnectionClosed as closed:
                logger.debug("closed: %s", closed)
            for other in others:
                other.cancel()

    async def _send_items(self, socket: ClientConnection) -> None:
        try:
            while True:
                item = self.streams.send_queue.take_next()
                self._sending = item is not None
                if item is None:
                    self.streams.sent.notify_all()
                    await self.streams.outgoing.wait()
                elif isinstance(item, OutgoingMedia):
                    await _send_media(socket, item)
                else:
                    await socket.send(item)
        except ConnectionClosed as closed:
            # The receiving task sees the close too, and handles it.
            logger.debug("closed while sending: %s", closed)
        finally:
            self._sending = False

    async def _ping(self, socket: ClientConnection) -> None:
        # Counts pings instead of seconds: a program that blocks its loop reads the pongs late.
        while True:
            self.streams.send_text(write("reactor.ping", {"t": time.monotonic()}))
            await asyncio.sleep(self._ping_s)
            self._unanswered_pings += 1
            if self._unanswered_pings > MAX_UNANSWERED_PINGS:
                socket.transport.abort()

    async def _reconnect(self, code: int, reason: str) -> ClientConnection | None:
        """Return a new socket after a close, or None if the client has ended."""
        protocol = self.streams.protocol
        if protocol.final_error is not None:
            return None
        lost = ConnectionLost(f"the connection was lost; {EFFECT_UNKNOWN}")
        verdict = judge_close(
            code,
            reason,
            role=self.address.role,
            welcomed=protocol.welcomed,
            resumable=protocol.has_resumable_session,
        )
        if verdict.final or not self._reconnects:
            self.streams.end_client(verdict.error or protocol.scope.error or lost)
            return None
        if verdict.error is not None:
            self.streams.end_session(verdict.error)
        self.streams.on_connection_lost(lost)
        return await self._dial_until_connected()

    async def _dial_until_connected(self) -> ClientConnection | None:
        """Dial until the server accepts or finally refuses; end the session once the server no longer keeps it."""
        protocol = self.streams.protocol
        broke_at, grace_s = time.monotonic(), protocol.welcome.resume_grace_s or 0.0
        while True:
            await asyncio.sleep(self._retry.next_wait_s(time.monotonic()))
            resume = protocol.welcome.resume if protocol.has_resumable_session else None
            try:
                socket = await dial(self.address, tls=self.tls, resume=resume)
            except ConnectError as error:
                if isinstance(error, Refused) and error.status in FINAL_STATUSES:
                    self.streams.end_client(error)
                    return None
                logger.debug("not reconnected yet: %s", error)
                if protocol.has_resumable_session and time.monotonic() - broke_at > grace_s:
                    lost = ConnectionLost(f"the connection was not restored in time: {error.message}")
                    self.streams.end_session(lost)
                continue
            self._retry.on_connected(time.monotonic())
            self.streams.on_reconnected()
            return socket


async def _close(socket: ClientConnection) -> None:
    """Close, with a time limit: the library waits without one for a server that does not read."""
    try:
        async with asyncio.timeout(CLOSING_S):
            await socket.close(NORMAL_CLOSURE)
    except TimeoutError:
        socket.transport.abort()


async def _send_media(socket: ClientConnection, media: OutgoingMedia) -> None:
    """Encode and send a frame or a piece of sound, and report whether it was sent."""
    sent = False
    try:
        await socket.send(await asyncio.to_thread(media.encode))
        sent = True
    finally:
        media.on_done(sent)
