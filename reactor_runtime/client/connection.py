"""A client's connection on an event loop: reads, writes, pings, and reconnects after a break.

Moves the items of `streams.py`; `dial.py` decides about errors and waits, `route.py` about the server.
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
from reactor_runtime.client.dial import (
    CLOSING_S,
    EFFECT_UNKNOWN,
    OPENING_S,
    Retry,
    dial,
    is_final,
    judge_close,
)
from reactor_runtime.client.errors import AddressError, ConnectError, ConnectionLost, SessionEnded
from reactor_runtime.client.messages import Redirect, write
from reactor_runtime.client.route import Route
from reactor_runtime.client.send_queue import OutgoingMedia
from reactor_runtime.client.streams import SessionStreams
from reactor_runtime.wire.containers import MP4
from reactor_runtime.wire.protocol import CloseCode

logger = logging.getLogger(__name__)

PING_S = 2.0
# A server answers each ping at once, even while its model computes.
MAX_UNANSWERED_PINGS = 5
ABNORMAL_CLOSURE = 1006
NORMAL_CLOSURE = 1000
# A ticket is valid for 10 s: the time left is for another way.
OPENING_WORKER_S = 5.0
# A session that a worker ended so is over, and not lost.
REGULAR_CLOSES = (CloseCode.SESSION_OVER, CloseCode.SERVER_STOPPING, CloseCode.MODEL_FAILED)
REFUSALS = (CloseCode.BAD_REQUEST, CloseCode.BAD_TOKEN, CloseCode.ORIGIN_NOT_ALLOWED)
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
        self.route = Route(address)
        self.tls = tls
        self.streams = SessionStreams(address.role)
        self._reconnects = reconnects
        self._ping_s = ping_s
        self._retry = Retry()
        # When the connection to the session broke; None while it stands.
        self._broke_at: float | None = None
        self._unanswered_pings = 0
        self._sending = False
        self._task: asyncio.Task[None] | None = None
        self.socket: ClientConnection | None = None

    async def open(self, *, wait_s: float = 0.0) -> None:
        """Connect, and start the task that exchanges items; a failed attempt is repeated for `wait_s`.

        Raises as `dial` does.
        """
        self.socket = await self._dial_first(time.monotonic() + wait_s)
        self._retry.on_connected(time.monotonic())
        self._task = asyncio.create_task(self._run(self.socket))

    async def _dial_first(self, until: float) -> ClientConnection:
        while True:
            try:
                return await self._dial()
            except ConnectError as error:
                retry_at = time.monotonic() + self._retry.next_wait_s(time.monotonic())
                if is_final(error) or retry_at > until:
                    raise
                logger.debug("not connected yet: %s", error)
            await asyncio.sleep(retry_at - time.monotonic())

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
        protocol = self.streams.protocol
        protocol.redirect, welcome = None, protocol.welcome
        async with asyncio.TaskGroup() as tasks:
            others = [tasks.create_task(self._send_items(socket)), tasks.create_task(self._ping(socket))]
            try:
                while protocol.final_error is None and not self._is_redirected:
                    item = await socket.recv()
                    self._unanswered_pings = 0
                    if isinstance(item, bytes) and MP4.matches(item):
                        await self.streams.receive_video(item, time.monotonic(), time.time())
                    else:
                        self.streams.receive(item, time.monotonic(), time.time())
                    if protocol.welcome is not welcome and protocol.welcomed:
                        welcome, self._broke_at = protocol.welcome, None
                        self.route.on_welcome()
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

    @property
    def _is_redirected(self) -> bool:
        return self.streams.protocol.redirect is not None and self.route.accepts_redirect

    async def _reconnect(self, code: int, reason: str) -> ClientConnection | None:
        """Return a new socket after a close, or None if the client has ended."""
        protocol, route = self.streams.protocol, self.route
        if protocol.final_error is not None:
            return None
        if protocol.redirect is not None and self._is_redirected:
            return await self._follow(protocol.redirect)
        if route.at_worker and not route.admitted:
            self._give_up_worker(f"{route.address} refused: {reason or code}")
            return await self._dial_until_connected()
        lost = ConnectionLost(f"the connection was lost; {EFFECT_UNKNOWN}")
        # A worker that no longer admits this client has lost the session; only the front refuses finally.
        is_unknown = route.at_worker and code in REFUSALS
        verdict = judge_close(
            ABNORMAL_CLOSURE if is_unknown else code,
            reason,
            role=route.front.role,
            welcomed=protocol.welcomed,
            resumable=protocol.has_resumable_session and not is_unknown,
        )
        if verdict.final or not self._reconnects:
            self.streams.end_client(verdict.error or protocol.scope.error or lost)
            return None
        if verdict.error is not None:
            self.streams.end_session(verdict.error)
        if route.at_worker and not protocol.has_resumable_session:
            route.leave(returns=code not in REGULAR_CLOSES)
        self.streams.on_connection_lost(lost)
        self._broke_at = self._broke_at or time.monotonic()
        return await self._dial_until_connected()

    async def _follow(self, redirect: Redirect) -> ClientConnection | None:
        """Continue at the worker; from the caller's view it is the same connection."""
        self.streams.on_redirected()
        try:
            self.route.follow(redirect)
        except AddressError as error:
            self._give_up_worker(error.message)
        return await self._dial_until_connected(at_once=self.route.at_worker)

    def _give_up_worker(self, reason: str) -> None:
        message = self.route.give_up(reason)
        logger.warning("%s", message)
        self.streams.on_connection_lost(ConnectionLost(message))

    async def _dial_until_connected(self, *, at_once: bool = False) -> ClientConnection | None:
        """Dial until a server accepts or the front finally refuses; end the session once it is no longer kept."""
        while True:
            if not at_once:
                await asyncio.sleep(self._retry.next_wait_s(time.monotonic()))
            at_once = False
            try:
                socket = await self._dial()
            except ConnectError as error:
                if not self._retries_after(error):
                    self.streams.end_client(error)
                    return None
                continue
            self._retry.on_connected(time.monotonic())
            self.streams.on_reconnected()
            return socket

    async def _dial(self) -> ClientConnection:
        """Make one attempt to connect to the server of the route."""
        protocol, route = self.streams.protocol, self.route
        resume = protocol.welcome.resume if protocol.has_resumable_session else None
        opening_s = OPENING_S
        if route.at_worker:
            left_s = self._grace_left_s if route.admitted else OPENING_WORKER_S
            opening_s = max(0.1, min(left_s, OPENING_WORKER_S))
        return await dial(
            route.address, route.query(resume), tls=self.tls, opening_s=opening_s, subprotocols=route.subprotocols
        )

    @property
    def _grace_left_s(self) -> float:
        """Return how long the server keeps the session of the broken connection."""
        broke_at = self._broke_at or time.monotonic()
        return broke_at + (self.streams.protocol.welcome.resume_grace_s or 0.0) - time.monotonic()

    def _retries_after(self, error: ConnectError) -> bool:
        """Choose the server of the next attempt after one that failed; return false for none."""
        protocol, route = self.streams.protocol, self.route
        if route.at_worker and not route.admitted:
            self._give_up_worker(error.message)
            return True
        is_refused = is_final(error)
        if not self._reconnects or (is_refused and not route.at_worker):
            return False
        logger.debug("not reconnected yet: %s", error)
        if protocol.has_resumable_session and (is_refused or self._grace_left_s < 0):
            self.streams.end_session(ConnectionLost(f"the connection was not restored in time: {error.message}"))
            route.leave(returns=True)
        return True


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
