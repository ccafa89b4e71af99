"""A client's connection on an event loop: reads, writes, pings, and comes back when it breaks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import time

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from reactor_runtime.client.address import Address
from reactor_runtime.client.dial import CLOSING_S, dial
from reactor_runtime.client.errors import ConnectError, ConnectionLost, Refused, SessionEnded
from reactor_runtime.client.message import write
from reactor_runtime.client.outgoing import OutgoingFile
from reactor_runtime.client.retry import REFUSED_FOR_GOOD, UNKNOWN, Retry, judge
from reactor_runtime.client.streams import SessionStreams

logger = logging.getLogger(__name__)

PING_S = 2.0
SILENT_PINGS = 5  # a server answers each at once, whatever its model does
BROKEN = 1006
GOODBYE = 1000
LEAVING_S = 1.0  # for what waits to be sent: a connection that takes nothing holds nobody up


class Connection:
    """Keep an exchange with a server going, over one socket after the other."""

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
        self.exchange = SessionStreams(address.role)
        self._reconnects = reconnects
        self._ping_s = ping_s
        self._retry = Retry()
        self._silent_pings = 0
        self._sending = False
        self._task: asyncio.Task[None] | None = None
        self.socket: ClientConnection | None = None

    async def open(self) -> None:
        """Connect, and go on in a task. Raises what `dial` does."""
        self.socket = await dial(self.address, tls=self.tls)
        self._retry.opened(time.monotonic())
        self._task = asyncio.create_task(self._run(self.socket))

    async def aclose(self) -> None:
        """Send what waits, for a second at most, and say goodbye: the session ends. Does nothing the second time."""
        try:
            await self._finish_sending()
        finally:
            self.exchange.end(SessionEnded("closed", "this client has closed it"))
            task, self._task = self._task, None
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
            if self.socket is not None:
                await _say_goodbye(self.socket)  # a task that is cancelled before it has begun closes nothing

    async def _finish_sending(self) -> None:
        exchange = self.exchange
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVING_S):
                while (self._sending or exchange.outbox.waits) and not exchange.stuck:
                    await exchange.sent.wait()

    async def _run(self, socket: ClientConnection | None) -> None:
        try:
            while socket is not None:
                try:
                    await self._talk(socket)
                finally:
                    await _say_goodbye(socket)
                socket = self.socket = await self._come_back(socket.close_code or BROKEN, socket.close_reason or "")
        except Exception as error:
            logger.exception("the connection failed")
            self.exchange.end(ConnectionLost(f"the connection failed: {error}"))

    async def _talk(self, socket: ClientConnection) -> None:
        """Read until the connection is closed or everything is over."""
        self._silent_pings = 0
        async with asyncio.TaskGroup() as tasks:
            others = [tasks.create_task(self._write(socket)), tasks.create_task(self._ping(socket))]
            try:
                while self.exchange.conversation.over is None:
                    item = await socket.recv()
                    self._silent_pings = 0
                    self.exchange.receive(item, time.monotonic(), time.time())
            except ConnectionClosed as closed:
                logger.debug("closed: %s", closed)
            for other in others:
                other.cancel()

    async def _write(self, socket: ClientConnection) -> None:
        try:
            while True:
                item = self.exchange.outbox.next()
                self._sending = item is not None
                if item is None:
                    self.exchange.sent.ring()
                    await self.exchange.outgoing.wait()
                elif isinstance(item, OutgoingFile):
                    await _send_file(socket, item)
                else:
                    await socket.send(item)
        except ConnectionClosed as closed:
            logger.debug("closed while sending: %s", closed)  # whoever reads takes care of it
        finally:
            self._sending = False

    async def _ping(self, socket: ClientConnection) -> None:
        # Pings are counted and not seconds: a program that holds up its loop finds one late, whatever the server does.
        while True:
            self.exchange.say(write("reactor.ping", {"t": time.monotonic()}))
            await asyncio.sleep(self._ping_s)
            self._silent_pings += 1
            if self._silent_pings > SILENT_PINGS:
                socket.transport.abort()

    async def _come_back(self, code: int, reason: str) -> ClientConnection | None:
        """Return another socket, or None when all is over."""
        conversation = self.exchange.conversation
        if conversation.over is not None:
            return None
        lost = ConnectionLost(f"the connection was lost; {UNKNOWN}")
        verdict = judge(code, reason, role=self.address.role, welcomed=conversation.welcomed, kept=conversation.kept)
        if verdict.final or not self._reconnects:
            self.exchange.end(verdict.error or conversation.scope.error or lost)
            return None
        if verdict.error is not None:
            self.exchange.lose(verdict.error)
        self.exchange.broken(lost)
        return await self._redial()

    async def _redial(self) -> ClientConnection | None:
        """Try until there is a connection or the server refuses one; the session is lost when it is kept no longer."""
        conversation = self.exchange.conversation
        broke_at, grace_s = time.monotonic(), conversation.welcome.resume_grace_s or 0.0
        while True:
            await asyncio.sleep(self._retry.next_s(time.monotonic()))
            resume = conversation.welcome.resume if conversation.kept else None
            try:
                socket = await dial(self.address, tls=self.tls, resume=resume)
            except ConnectError as error:
                if isinstance(error, Refused) and error.status in REFUSED_FOR_GOOD:
                    self.exchange.end(error)
                    return None
                logger.debug("not back yet: %s", error)
                if conversation.kept and time.monotonic() - broke_at > grace_s:
                    self.exchange.lose(ConnectionLost(f"the connection did not come back in time: {error.message}"))
                continue
            self._retry.opened(time.monotonic())
            self.exchange.reopened()
            return socket


async def _say_goodbye(socket: ClientConnection) -> None:
    """Close; the library would wait for ever for a server that reads nothing to have read what was sent before."""
    try:
        async with asyncio.timeout(CLOSING_S):
            await socket.close(GOODBYE)
    except TimeoutError:
        socket.transport.abort()


async def _send_file(socket: ClientConnection, file: OutgoingFile) -> None:
    """Tell whoever published it that it has gone, or that it has not."""
    gone = False
    try:
        await socket.send(await asyncio.to_thread(file.encode))
        gone = True
    finally:
        file.told(gone)
