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
from collections.abc import Callable, Iterator
from functools import partial

from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from reactor_runtime.clock import SystemClock
from reactor_runtime.errors import ModelFailed, ReactorError
from reactor_runtime.server.app import guarded, http_config
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.encoding.encoder import Encoder
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
    ReloadReport,
    ServeOptions,
    ServerListening,
    ServerReady,
)
from reactor_runtime.server.preload import preload
from reactor_runtime.server.routes.docs_page import docs_route
from reactor_runtime.server.routes.health import status_routes
from reactor_runtime.server.routes.metrics import metrics_route
from reactor_runtime.server.routes.pages import own_page_route, page_routes
from reactor_runtime.server.routes.streams import watch_routes
from reactor_runtime.server.routes.uploads import UploadRoute
from reactor_runtime.server.routes.websocket import Services, socket_routes
from reactor_runtime.server.security.certificate import tls_context
from reactor_runtime.server.security.proxies import Proxies
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.engine_pool import EnginePool
from reactor_runtime.server.sessions.engine_slot import EngineSlot
from reactor_runtime.server.sessions.inbound import Inbound
from reactor_runtime.server.sessions.project_reload import ProjectReload
from reactor_runtime.server.sessions.slot import SlotSettings
from reactor_runtime.server.sessions.summary import Summary
from reactor_runtime.server.telemetry.metrics import Metrics
from reactor_runtime.server.telemetry.trace import Trace
from reactor_runtime.server.workers.engine import EnginePhase

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


def serve(options: ServeOptions, operator: Operator) -> None:
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
        runner.run(Service(options, operator, tls).run(sock))


class Service:
    """Make the parts of a server, run them, and stop them in order."""

    def __init__(self, options: ServeOptions, operator: Operator, tls: ssl.SSLContext | None = None) -> None:
        self._options = options
        self._operator = operator
        self._tls = tls
        self._clock = SystemClock()
        self._encoder = Encoder()
        self._stop = asyncio.Event()
        self._drain = asyncio.Event()
        self._clients: set[Client] = set()
        self._trace = None if options.trace is None else Trace(options.trace)
        settings = SlotSettings(options=options, clock=self._clock, metrics=Metrics(self._trace))
        self._admission = Admission[EngineSlot](settings, on_slot_ready=self._on_ready)
        self._engines = EnginePool(self._admission, self._encoder, on_reload=self._on_reload)
        self._reload = None if options.reload is None else ProjectReload(options, options.reload, self._engines)
        self._reloading: set[asyncio.Task[None]] = set()
        self._uploads = UploadRoute(self._admission)
        self._summary = Summary(self._admission, self._clock, memory_bytes=self._engines.memory_bytes)

    async def run(self, sock: socket.socket) -> None:
        """Serve on `sock` until a signal; raise the reason if the model can't be served."""
        address = sock.getsockname()
        refusals = self._admission.settings.metrics.refusals
        config = http_config(self._routes(), self._options, port=address[1], refusals=refusals)
        server = HttpServer(config, self._acceptor(sock))
        with self._signals():
            loop = asyncio.get_running_loop()
            reload = None if self._reload is None else partial(loop.call_soon_threadsafe, self.reload)
            self._operator.on_listening(ServerListening(address[0], address[1], reload))
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

    def stop(self) -> None:
        """Stop the server, as a signal does; on its event loop."""
        logger.info("stopping")
        # The signal may have ended them as well.
        self._engines.expect_end()
        self._stop.set()

    async def _run(self, server: HttpServer | NoServer, *, freeze: bool) -> None:
        http = asyncio.create_task(server.serve(sockets=[]))
        engines = asyncio.create_task(self._engines.run())
        tick = asyncio.create_task(keep_running(self._tick, "sending progress and statistics"))
        drained = asyncio.create_task(keep_running(self._drained, "draining"))
        cleaning = asyncio.create_task(keep_running(self._clean, "removing files of killed servers"))
        preloading = asyncio.create_task(keep_running(partial(self._preload, freeze), "importing modules ahead"))
        others = [tick, drained, cleaning, preloading]
        if self._reload is not None:
            others.append(asyncio.create_task(keep_running(self._reload.run, "watching the project's files")))
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait([http, engines, stop], return_when=asyncio.FIRST_COMPLETED)
        failure = engines.exception() if engines.done() and not engines.cancelled() else None
        await asyncio.gather(self._close_sockets(failure, server), self._engines.stop())
        for slot in self._admission.slots:
            slot.close_session()
        others += self._reloading
        for task in (stop, engines, *others):
            task.cancel()
        ended = await asyncio.gather(http, stop, engines, *others, return_exceptions=True)
        await self._uploads.aclose()
        await asyncio.to_thread(self._encoder.close)
        self._clock.close()
        if self._trace is not None:
            await asyncio.to_thread(self._trace.close)
        await self._engines.aclose()
        for result in (failure, *ended):
            if isinstance(result, Exception):
                raise result

    def reload(self) -> None:
        """Execute all modules of the project again; on the server's loop. Does nothing without --reload."""
        if self._reload is not None:
            task = asyncio.create_task(self._reload.reload(everything=True))
            self._reloading.add(task)
            task.add_done_callback(self._reloading.discard)

    def _on_reload(self, slot: EngineSlot, report: ReloadReport) -> None:
        # All engines run the same code. An exception of a running model is in the log already, with its traceback.
        if slot.number == 1 and not isinstance(report.error, ModelFailed):
            self._operator.on_reload(report)

    def _on_ready(self, slot: EngineSlot, load_s: float) -> None:
        slots = self._admission.slots
        self._operator.on_ready(ServerReady(load_s, slots.ready_count, len(slots), self._engines.gpu_of(slot.number)))

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
        services = Services(self._admission, Inbound(self._admission), self._clock, self._clients, self.reload)
        page = self._options.manifest.page
        own = [] if page is None else [own_page_route(page, self._options.access.origins)]
        return [
            *page_routes(self._admission),
            docs_route(self._admission),
            *status_routes(self._admission, time.monotonic()),
            metrics_route(self._admission),
            *watch_routes(services),
            self._uploads.route(),
            *socket_routes(services),
            *own,
        ]

    async def _tick(self) -> None:
        """Send clients statistics once a second, and the progress of loading twice a second."""
        reported_s = dict.fromkeys(self._admission.slots, 0.0)
        for count in itertools.count(1):
            await asyncio.sleep(TICK_S)
            if self._stop.is_set():
                return
            if count % 2 == 0:
                self._operator.on_tick(self._summary.read)
            loading = self._admission.slots.loading_message()
            if loading is not None:
                for client in self._admission.all_clients():
                    client.send_message("reactor.session", loading)
            for slot in self._admission.slots:
                slot.send_progress()
                if slot.engine.phase is EnginePhase.LOADING:
                    reported_s[slot] = self._report_loading(slot, reported_s[slot])
                elif count % 2 == 0:
                    slot.send_statistics(self._clock.now())

    def _report_loading(self, slot: EngineSlot, reported_s: float) -> float:
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

    async def _clean(self) -> None:
        await asyncio.to_thread(self._uploads.clean)

    async def _drained(self) -> None:
        """After SIGTERM with a drain timeout, wait until the running sessions are over, and stop the server."""
        await self._drain.wait()
        timeout_s = self._options.drain_timeout_s
        self._engines.drain()
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
        self.stop()

    async def _close_sockets(self, failure: BaseException | None, server: HttpServer | NoServer) -> None:
        """Close every client with the reason, wait until they have answered, and accept no more connections."""
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
                self._engines.kill()
                self._operator.on_exit()
                os._exit(EXIT_KILLED)
            if number is signal.SIGTERM and self._options.drain_timeout_s and not self._drain.is_set():
                self._drain.set()
            else:
                self.stop()

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
