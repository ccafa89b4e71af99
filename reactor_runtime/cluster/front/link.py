"""The front's connection to the control socket of one worker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable
from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.http11 import Response

from reactor_runtime.cluster.codec import BadMessage
from reactor_runtime.cluster.messages import (
    FROM_WORKER,
    TO_WORKER,
    ContractChanged,
    FromWorker,
    FrontHeartbeat,
    FrontHeartbeatRequest,
    FrontIdentity,
    ToWorker,
    WorkerStatus,
)

logger = logging.getLogger(__name__)

# A worker sends its status once a second.
SILENCE_S = 3.0
OPENING_S = 3.0
RETRY_S = 0.5
STOPPING_S = 3.0
HAS_ANOTHER_FRONT = 409


class WorkerLink:
    """Connect to a worker until closed, again whenever the connection breaks; use on the front's loop.

    `on_broken` is called when a connection breaks, can't be made, or has been silent for 3 s, as a half-open one is.
    `on_refused` is called with the front that has the worker. Messages are lost while there is no connection.
    A proxy in the environment is not used: it may not reach the workers, and would see their secret.
    """

    def __init__(
        self,
        url: str,
        secret: str,
        *,
        front: FrontIdentity,
        on_status: Callable[[WorkerStatus], None],
        on_contract: Callable[[dict[str, Any]], None],
        on_broken: Callable[[str], None],
        on_refused: Callable[[FrontIdentity], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._url = f"{url.replace('http', 'ws', 1)}/worker"
        self._front = front
        self._secret = secret
        self._tls = tls
        self._on_status = on_status
        self._on_contract = on_contract
        self._on_broken = on_broken
        self._on_refused = on_refused
        self._connection: ClientConnection | None = None
        self._sending: set[asyncio.Task[None]] = set()
        self._task = asyncio.create_task(self._run())

    def send(self, message: ToWorker) -> None:
        """Send a message if there is a connection."""
        if self._connection is not None:
            task = asyncio.create_task(self._send(self._connection, TO_WORKER.encode(message)))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    def close(self) -> None:
        """End the connection; may be called twice."""
        self._task.cancel()

    async def aclose(self) -> None:
        """Wait at most 3 s until the worker, which was stopped, has ended the connection; then end it."""
        try:
            async with asyncio.timeout(STOPPING_S):
                await asyncio.gather(*self._sending)
                if self._connection is not None:
                    await self._connection.wait_closed()
        except TimeoutError:
            if self._connection is not None:
                self._connection.transport.abort()
        self.close()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _send(self, connection: ClientConnection, text: str) -> None:
        try:
            await connection.send(text)
        except ConnectionClosed:
            logger.debug("a message to a worker was lost url=%s", self._url)

    async def _run(self) -> None:
        while True:
            try:
                reason = await self._serve()
            except Exception:
                logger.exception("the connection to a worker failed url=%s", self._url)
                reason = f"a message of the worker at {self._url} can't be used: the log has the reason"
            self._on_broken(reason)
            await asyncio.sleep(RETRY_S)

    async def _serve(self) -> str:
        """Receive until the connection breaks; return why."""
        try:
            async with connect(
                f"{self._url}?{urlencode(asdict(self._front))}",
                ssl=self._tls,
                additional_headers={"Authorization": f"Bearer {self._secret}"},
                compression=None,
                open_timeout=OPENING_S,
                close_timeout=1,
                ping_interval=None,
                max_size=None,
                proxy=None,
            ) as connection:
                self._connection = connection
                try:
                    while True:
                        self._receive(FROM_WORKER.decode(await _next_text(connection)))
                except TimeoutError:
                    # A worker that is silent does not answer a close either.
                    connection.transport.abort()
                    raise
                finally:
                    self._connection = None
        except TimeoutError:
            return f"the worker at {self._url} has sent nothing for {SILENCE_S:.0f} s"
        except ConnectionClosed:
            return "the worker closed its control socket"
        except InvalidStatus as refused:
            return self._why_refused(refused.response)
        except BadMessage as error:
            return error.message
        except (OSError, WebSocketException) as error:
            return f"the worker at {self._url} can't be reached: {error}"

    def _why_refused(self, response: Response) -> str:
        if response.status_code == HAS_ANOTHER_FRONT:
            # A proxy may answer with the same status.
            with contextlib.suppress(BadMessage):
                other = FrontIdentity.from_json(bytes(response.body or b""))
                self._on_refused(other)
                return f"the worker has another front: {other}"
        return f"the worker at {self._url} answered with HTTP {response.status_code}"

    def _receive(self, message: FromWorker) -> None:
        match message:
            case ContractChanged():
                self._on_contract(message.contract)
            case FrontHeartbeatRequest():
                self.send(FrontHeartbeat())
            case WorkerStatus():
                self._on_status(message)


async def _next_text(connection: ClientConnection) -> str:
    """Return the next message; raise TimeoutError after SILENCE_S in which none has come."""
    # What came while this process did not run is read only after the first half is over.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SILENCE_S / 2):
            return await connection.recv(decode=True)
    async with asyncio.timeout(SILENCE_S / 2):
        return await connection.recv(decode=True)
