"""Calls the application for requests, and charges the time that it takes on the loop to the address of the client."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import Awaitable, Callable, Container, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar
from urllib.parse import unquote

from starlette.types import ASGIApp, Scope

from reactor_runtime.server.net.http_reader import Request
from reactor_runtime.server.net.limits import Budget
from reactor_runtime.server.net.reading import Reading
from reactor_runtime.server.net.shares import Accounts, Share
from reactor_runtime.server.net.transport import ClientConnection
from reactor_runtime.server.telemetry.metrics import LabelledCounter
from reactor_runtime.wire.protocol import MAX_MEDIA_BYTES

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=ClientConnection)

MAX_RECEIVING_BYTES = 4 * MAX_MEDIA_BYTES
ASGI = {"version": "3.0", "spec_version": "2.3"}
# The key of the connection that serves a request, in the extensions of its scope.
CONNECTION = "reactor.connection"


@dataclass(frozen=True, slots=True)
class Peer:
    """Hold the address and port (0 if only a proxy knows it) of a client, and whether its connection is encrypted."""

    address: str
    port: int
    secure: bool


@dataclass(frozen=True, slots=True)
class Application:
    """Call an ASGI application; hold what its connections share: counters, time to read, room for unfinished messages.

    The headers in which `proxies` report their clients are trusted.
    """

    app: ASGIApp
    refusals: LabelledCounter
    proxies: Container[str]
    accounts: Accounts
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    reading: Reading = field(default_factory=Reading)
    receiving: Budget = field(default_factory=lambda: Budget(MAX_RECEIVING_BYTES))

    def client_of(self, peer: Peer, request: Request) -> Peer:
        """Return the client of a request: behind proxies the last forwarded address that is not a proxy's."""
        if peer.address not in self.proxies:
            return peer
        address, secure = peer.address, peer.secure
        forwarded = request.header(b"x-forwarded-for")
        if forwarded is not None:
            hops = [hop.strip() for hop in forwarded.decode("latin-1").split(",")]
            address = next((hop for hop in reversed(hops) if hop not in self.proxies), hops[0]) or peer.address
        scheme = request.header(b"x-forwarded-proto")
        if scheme is not None:
            secure = scheme.strip() in (b"https", b"wss")
        return Peer(address, peer.port if forwarded is None else 0, secure)

    def scope(self, kind: str, request: Request, client: Peer, server: tuple[str, int], connection: object) -> Scope:
        """Return the scope of a request; the application finds the connection in it, with `serving`."""
        path, _, query = request.target.partition(b"?")
        return {
            "type": kind,
            "asgi": ASGI,
            "http_version": request.version,
            "method": request.method,
            "scheme": ("http", "https", "ws", "wss")[client.secure + 2 * (kind == "websocket")],
            "server": server,
            "client": (client.address, client.port),
            "root_path": "",
            "path": unquote(path.decode("latin-1")),
            "raw_path": path,
            "query_string": query,
            "headers": request.headers,
            "state": {},
            "extensions": {CONNECTION: {"connection": weakref.ref(connection)}},
        }

    def start(self, served: Coroutine[Any, Any, None], share: Share) -> None:
        """Run a coroutine that calls the application; the time of its steps is charged to a share."""

        def charge(seconds: float) -> None:
            share.spend(time.monotonic(), seconds)
            self.reading.count(seconds)

        task = asyncio.get_running_loop().create_task(_measured(served, charge))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


def serving(scope: Scope, kind: type[C]) -> C | None:
    """Return the connection that serves a request; None under another server."""
    extension = scope.get("extensions", {}).get(CONNECTION)
    if extension is None:
        return None
    connection = extension["connection"]()
    assert isinstance(connection, kind), "it lives as long as the application that it calls"
    return connection


async def on_thread(scope: Scope, function: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
    """Call a function on a thread, and charge its time to the client of a request: it holds the interpreter's lock."""
    connection = serving(scope, ClientConnection)

    def timed() -> tuple[R, float]:
        began_s = time.thread_time()
        return function(*args, **options), time.thread_time() - began_s

    result, spent_s = await asyncio.to_thread(timed)
    if connection is not None:
        connection.share.spend(time.monotonic(), spent_s, interruptible=True)
    return result


async def _measured(coroutine: Coroutine[Any, Any, None], charge: Callable[[float], object]) -> None:
    await _Steps(coroutine, charge)


class _Steps(Awaitable[None]):
    """Run a coroutine step by step, as its task would, and report the CPU time of each."""

    def __init__(self, coroutine: Coroutine[Any, Any, None], charge: Callable[[float], object]) -> None:
        self._coroutine = coroutine
        self._charge = charge

    def __await__(self) -> Generator[Any, Any, None]:
        step: Callable[[Any], Any] = self._coroutine.send
        value: Any = None
        while True:
            began_s = time.thread_time()
            try:
                waits_for = step(value)
            except StopIteration:
                return
            finally:
                self._charge(time.thread_time() - began_s)
            try:
                value = yield waits_for
                step = self._coroutine.send
            except GeneratorExit:
                self._coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001  (it is thrown into the coroutine)
                step, value = self._coroutine.throw, error
