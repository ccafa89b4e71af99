"""Startup, main loop and shutdown of the server process, top to bottom."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import logging
import os
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, NoReturn

from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from reactor_runtime.errors import ReactorError
from reactor_runtime.server.app import guarded, http_config
from reactor_runtime.server.backend import Backend, EngineBackend
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.housekeeping import keep_running
from reactor_runtime.server.net.acceptor import Acceptor
from reactor_runtime.server.net.descriptors import descriptor_limit, descriptors_for_clients, raise_descriptor_limit
from reactor_runtime.server.net.http_server import HttpServer
from reactor_runtime.server.net.limits import ConnectionLimiter
from reactor_runtime.server.net.listening import bind
from reactor_runtime.server.net.other_server import NoServer
from reactor_runtime.server.options import (
    LoadingProgress,
    Operator,
    ServeOptions,
    ServerListening,
)
from reactor_runtime.server.preload import preload
from reactor_runtime.server.routes.docs_page import docs_route
from reactor_runtime.server.routes.health import status_routes
from reactor_runtime.server.routes.metrics import metrics_route
from reactor_runtime.server.routes.pages import own_page_route, page_routes
from reactor_runtime.server.routes.streams import watch_routes
from reactor_runtime.server.routes.websocket import Services, socket_routes
from reactor_runtime.server.security.certificate import tls_context
from reactor_runtime.server.security.gate import RequestGate
from reactor_runtime.server.security.proxies import Proxies
from reactor_runtime.server.sessions.engine_slot import EngineSlot
from reactor_runtime.server.sessions.slot import S, SlotSettings
from reactor_runtime.server.workers.engine import EnginePhase, EngineStatus

logger = logging.getLogger(__name__)

# How long clients may take to answer the close of their socket, and other peers then to read the rest of a response.
CLOSE_S = 1.5
ABORT_S = 0.3
TICK_S = 0.5
REPORT_S = 5.0
EXIT_KILLED = 130
# Encoder threads need the interpreter's lock a few times for each frame. With Python's own interval of 5 ms, an event
# loop that is busy with messages delays a frame by 10 ms.
THREAD_SWITCH_INTERVAL_S = 0.001


def engine_service(options: ServeOptions, operator: Operator, tls: ssl.SSLContext | None) -> Service[EngineSlot]:
    """Return a service with engines of this machine."""
    return Service(EngineBackend(SlotSettings.of(options), operator), operator, tls)


def serve(
    options: ServeOptions,
    operator: Operator,
    make_service: Callable[[ServeOptions, Operator, ssl.SSLContext | None], Service[Any]] = engine_service,
) -> None:
    """Serve the model until a signal; use on the main thread.

    Returns after SIGINT or SIGTERM, and after SIGHUP unless that is ignored, as with nohup. A second SIGINT or SIGTERM
    kills the engines and exits with 130. Raises UsageError if the certificate can't be used, BindError if the address
    is not available, and ClassError, LoadError or ModelFailed if the model can't be served.
    """
    access = options.access
    tls = None if access.certificate is None else tls_context(access.certificate, access.key)
    raise_descriptor_limit()
    sys.setswitchinterval(THREAD_SWITCH_INTERVAL_S)
    with bind(options.host, options.port) as sock, asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(make_service(options, operator, tls).run(sock))


class Service(Generic[S]):
    """Serve the slots of a backend: run it and the HTTP server, and stop them in order.

    `gate` admits requests in place of the token, and `routes` are served too. With `breaks_on_signal` a signal breaks
    the connections of clients, so that their sessions count as lost, instead of closing them.
    """

    def __init__(
        self,
        backend: Backend[S],
        operator: Operator,
        tls: ssl.SSLContext | None = None,
        *,
        gate: RequestGate | None = None,
        routes: Sequence[BaseRoute] = (),
        breaks_on_signal: bool = False,
    ) -> None:
        settings = backend.admission.settings
        self._backend = backend
        self._admission = backend.admission
        self._options = settings.options
        self._clock = settings.clock
        self._trace = settings.metrics.trace
        self._operator = operator
        self._tls = tls
        self._gate = gate
        self._more_routes = routes
        self._breaks_on_signal = breaks_on_signal
        self._breaks = False
        self._stop = asyncio.Event()
        self._drain = asyncio.Event()
        self._clients: set[Client] = set()

    async def run(self, sock: socket.socket) -> None:
        """Serve on `sock` until a signal; raise the reason if the model can't be served."""
        address = sock.getsockname()
        refusals = self._admission.settings.metrics.refusals
        config = http_config(self._routes(), self._options, port=address[1], refusals=refusals, gate=self._gate)
        server = HttpServer(config, self._acceptor(sock))
        with self._signals():
            loop = asyncio.get_running_loop()
            reload = partial(loop.call_soon_threadsafe, self._backend.reload) if self._backend.reloads else None
            stop, kill = (partial(loop.call_soon_threadsafe, end) for end in (self.stop, self._kill_unless_stopping))
            self._operator.on_listening(ServerListening(address[0], address[1], reload, stop, kill))
            await self._run(server, freeze=True)

    async def run_mounted(self) -> None:
        """Run what `application` serves until `stop`; raise the reason if the model can't be served.

        Changes nothing that belongs to the whole process: neither its signals nor its garbage collection.
        """
        await self._run(NoServer(), freeze=False)

    def application(self) -> ASGIApp:
        """Return the routes as an application for another ASGI server."""
        refusals = self._admission.settings.metrics.refusals
        return guarded(self._routes(), self._options, port=0, refusals=refusals, counts_requests=True)

    def drain(self, *, breaks: bool = False) -> None:
        """Stop the server when its sessions are over, as SIGTERM does; on its event loop, may be called twice."""
        if self._options.drain_timeout_s:
            self._breaks = breaks
            self._drain.set()
        else:
            self.stop(breaks=breaks)

    def stop(self, *, breaks: bool = False) -> None:
        """Stop the server, as a first signal does; on its event loop, may be called twice.

        With `breaks` it breaks the connections of clients instead of closing them.
        """
        if self._stop.is_set():
            return
        logger.info("stopping")
        self._breaks = breaks
        # The signal may have ended them as well.
        self._backend.expect_end()
        self._stop.set()

    def _kill_unless_stopping(self) -> None:
        if not self._stop.is_set():
            self._kill()

    def _kill(self) -> NoReturn:
        """Kill the engines and end the process at once: clients see that their connections break."""
        self._backend.kill()
        self._operator.on_exit()
        os._exit(EXIT_KILLED)

    async def _run(self, server: HttpServer | NoServer, *, freeze: bool) -> None:
        http = asyncio.create_task(server.serve(sockets=[]))
        backend = asyncio.create_task(self._backend.run())
        tick = asyncio.create_task(keep_running(self._tick, "sending progress and statistics"))
        drained = asyncio.create_task(keep_running(self._drained, "draining"))
        preloading = asyncio.create_task(keep_running(partial(self._preload, freeze), "importing modules ahead"))
        others = [tick, drained, preloading]
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait([http, backend, stop], return_when=asyncio.FIRST_COMPLETED)
        failure = backend.exception() if backend.done() and not backend.cancelled() else None
        await asyncio.gather(self._close_sockets(failure, server), self._backend.stop())
        for slot in self._admission.slots:
            slot.close_session()
        for task in (stop, backend, *others):
            task.cancel()
        ended = await asyncio.gather(http, stop, backend, *others, return_exceptions=True)
        await self._backend.aclose()
        self._clock.close()
        if self._trace is not None:
            await asyncio.to_thread(self._trace.close)
        for result in (failure, *ended):
            if isinstance(result, Exception):
                raise result

    def _acceptor(self, sock: socket.socket) -> Acceptor:
        """Return the acceptor; an address may use at most half of the descriptors, whatever the option is."""
        access, descriptors = self._options.access, descriptors_for_clients()
        per_address = min(access.per_address, descriptors // 2)
        if per_address < access.per_address:
            logger.warning(
                "the limit of open files is %d: an address may have %d connections, not %d; ulimit -n sets the limit",
                descriptor_limit(),
                per_address,
                access.per_address,
            )
        return Acceptor(
            sock,
            ConnectionLimiter(per_address, exempt=Proxies(access.proxies)),
            self._admission.settings.metrics.refusals,
            most_descriptors=descriptors,
            tls=self._tls,
        )

    def _routes(self) -> list[BaseRoute]:
        services = Services(self._admission, self._backend.inbound, self._clock, self._clients, self._backend.reload)
        page = self._options.manifest.page
        own = [] if page is None else [own_page_route(page, self._options.access.origins)]
        return [
            *page_routes(self._admission),
            docs_route(self._admission),
            *status_routes(self._admission, time.monotonic()),
            metrics_route(self._admission),
            *watch_routes(services),
            *self._backend.routes(),
            *self._more_routes,
            *socket_routes(services),
            *own,
        ]

    async def _tick(self) -> None:
        """Send clients statistics once a second, and the progress of loading twice a second."""
        reported_s: dict[EngineStatus, float] = {}
        for count in itertools.count(1):
            await asyncio.sleep(TICK_S)
            if self._stop.is_set():
                return
            if count % 2 == 0:
                self._operator.on_tick(self._backend.statistics)
            self._admission.send_loading()
            for slot in self._admission.slots:
                slot.send_progress()
                if slot.engine.phase is EnginePhase.LOADING:
                    reported_s[slot.engine] = self._report_loading(slot, reported_s.get(slot.engine, 0.0))
                elif count % 2 == 0:
                    slot.send_statistics(self._clock.now())

    def _report_loading(self, slot: S, reported_s: float) -> float:
        """Report the progress of an engine every 5 s; return at which second of loading that was last."""
        elapsed_s = slot.engine.loading_s
        if elapsed_s < reported_s:
            reported_s = 0.0
        if elapsed_s - reported_s < REPORT_S:
            return reported_s
        engine, engines = slot.engine, len(self._admission.slots)
        self._operator.on_loading(LoadingProgress(elapsed_s, engine.detail, slot.number, engines, engine.progress))
        return elapsed_s

    async def _preload(self, freeze: bool) -> None:
        """Import modules that are needed later; with `freeze` exclude all objects made so far from garbage collection.

        A collection would traverse all modules for 25 ms each time that clients have come and gone, and block the loop.
        """
        await asyncio.to_thread(preload)
        if freeze:
            gc.collect()
            gc.freeze()

    async def _drained(self) -> None:
        """After SIGTERM with a drain timeout, wait until the running sessions are over, and stop the server."""
        await self._drain.wait()
        timeout_s = self._options.drain_timeout_s
        self._backend.drain()
        self._admission.drain(timeout_s)
        sessions = [slot.session for slot in self._admission.slots if slot.session is not None]
        if sessions:
            which = "the session is" if len(sessions) == 1 else f"{len(sessions)} sessions are"
            ids = ",".join(session.id for session in sessions)
            logger.info("stopping when %s over, in %.0f s at the latest id=%s", which, timeout_s, ids)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    for session in sessions:
                        await session.over.wait()
        self.stop(breaks=self._breaks)

    async def _close_sockets(self, failure: BaseException | None, server: HttpServer | NoServer) -> None:
        """Close every client with the reason, wait until they have answered, and accept no more connections."""
        if self._breaks:
            server.abort()
        if failure is None:
            self._admission.close()
        else:
            message = "the model can't be served; the log has the reason"
            if isinstance(failure, ReactorError) and self._options.exposes_errors:
                message = failure.message
            self._admission.fail(message)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                for client in tuple(self._clients):
                    await client.gone.wait()
                await server.wait_sockets_closed()
        for client in self._clients:
            client.given_up.set()
        server.stop()
        asyncio.get_running_loop().call_later(ABORT_S, server.abort)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Stop the server on the first signal, and kill it on a second SIGINT or SIGTERM.

        With a drain timeout, a first SIGTERM drains the server, and counts as none.
        """
        loop = asyncio.get_running_loop()

        def on_signal(number: signal.Signals) -> None:
            # A shell and the kernel send one each.
            if self._stop.is_set() and number is signal.SIGHUP:
                return
            if self._stop.is_set():
                self._kill()
            if number is signal.SIGTERM and not self._drain.is_set():
                self.drain(breaks=self._breaks_on_signal)
            else:
                self.stop(breaks=self._breaks_on_signal)

        signals = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signals.append(signal.SIGHUP)
        for number in signals:
            loop.add_signal_handler(number, on_signal, number)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    # Some platforms have no wheels of it, and asyncio's loop works as well.
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
