"""`python -m benchmarks.front_process URL COUNT MOST`: a front whose workers are simulated by whatever serves URL.

It listens on any port of this machine, which it prints, and lets MOST controllers wait for one of COUNT workers.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import sys
from collections.abc import Callable

from benchmarks.serving import MODEL
from reactor_runtime import manifest
from reactor_runtime.cluster.front.fleet import WorkerFleet
from reactor_runtime.cluster.front.scaling import Scaling
from reactor_runtime.cluster.front.worker_slot import WorkerSlot
from reactor_runtime.cluster.messages import FrontIdentity
from reactor_runtime.cluster.placement.placement import PlacementConnected, PlacementEvent, WorkerPlaced
from reactor_runtime.cluster.tickets import TicketIssuer
from reactor_runtime.server.options import Operator, ServeOptions, ServerListening, TurnLimits
from reactor_runtime.server.run import Service, serve
from reactor_runtime.server.sessions.slot import SlotSettings
from tests.cluster.simulation import SilentOperator

SECRET = "5" * 64
# No session lasts that long; the front computes the limits of turns all the same.
LONG_S = 3600.0


class _Operator(SilentOperator):
    def on_listening(self, listening: ServerListening) -> None:
        sys.stdout.write(f"{listening.port}\n")
        sys.stdout.flush()


class _Placement:
    """Report each worker as placed at once, at its id below a URL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._on_event: Callable[[PlacementEvent], None] = lambda _: None

    def start(self, worker: str) -> None:
        url = f"{self._url}/{worker}"
        asyncio.get_running_loop().call_soon(lambda: self._on_event(WorkerPlaced(worker, url, url, "simulated")))

    def stop(self, worker: str) -> None: ...

    async def run(self, on_event: Callable[[PlacementEvent], None]) -> None:
        self._on_event = on_event
        on_event(PlacementConnected((), SECRET))
        await asyncio.Event().wait()

    async def aclose(self) -> None: ...

    def kill(self) -> None: ...


def main() -> None:
    url, count, most = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    logging.disable(logging.CRITICAL)
    limits = TurnLimits(max_session_s=LONG_S)
    options = ServeOptions(manifest=manifest.load(MODEL), config={}, port=0, max_waiting=most, limits=limits)

    def service(options: ServeOptions, operator: Operator, _tls: ssl.SSLContext | None) -> Service[WorkerSlot]:
        front = FrontIdentity.of_this_process()
        fleet = WorkerFleet(
            SlotSettings.of(options),
            operator,
            placement=_Placement(url),
            scaling=Scaling(least=count, most=count),
            front=front,
            build="",
            make_tickets=lambda secret: TicketIssuer(secret, "benchmark", front.id),
        )
        return Service(fleet, operator)

    serve(options, _Operator(), service)


if __name__ == "__main__":
    main()
