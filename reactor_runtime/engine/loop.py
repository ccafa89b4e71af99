"""The driver of the loop style: `run()` for the life of the model, events beside it, sessions coming and going."""

from __future__ import annotations

import asyncio
import logging

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.reactor_model import ReactorModel
from reactor_runtime.engine.dispatch import Dispatcher
from reactor_runtime.engine.hooks import call_connected, call_disconnected
from reactor_runtime.engine.inputs import Inputs
from reactor_runtime.engine.output import Emitter
from reactor_runtime.engine.presence import Presence
from reactor_runtime.engine.session import Session, SessionStopped, without_exit
from reactor_runtime.engine.sink import Sink
from reactor_runtime.errors import from_author
from reactor_runtime.seam.messages import Started

logger = logging.getLogger(__name__)


class LoopDriver:
    """Keep `run()` going and serve one session after the other beside it; belongs to the model's thread."""

    def __init__(
        self, model: ReactorModel, contract: Contract, *, emitter: Emitter, inputs: Inputs, sink: Sink
    ) -> None:
        self._model = model
        self._contract = contract
        self._emitter = emitter
        self._inputs = inputs
        self._sink = sink
        self._session: Session | None = None
        self._run: asyncio.Task[None] | None = None

    def dispatcher(self, session: Session) -> Dispatcher:
        """Make what keeps the events of `session`."""
        return Dispatcher(self._model, session, self._sink.send, _no_field, lambda: None)

    def stop(self, session: Session) -> None:
        """End a session: handlers that wait are cancelled, `run()` goes on."""
        session.stop()

    def start(self) -> None:
        """Start `run()`, if it isn't running."""
        if self._run is None:
            self._run = asyncio.create_task(without_exit(self._model.run()))
            self._run.add_done_callback(self._run_ended)

    async def aclose(self) -> None:
        """End `run()`; its `finally` runs."""
        if self._run is not None:
            self._run.cancel()
            await asyncio.gather(self._run, return_exceptions=True)

    async def serve(self, session: Session, dispatcher: Dispatcher, presence: Presence) -> None:
        """Serve one session until it is stopped; raises what `run()` or `@connected` raised to end it.

        Whatever happens, `@disconnected` follows `@connected` and the output is flushed.
        """
        self._session = session
        self._emitter.open(session)
        self._inputs.begin(session.id, reopen=False)
        self._sink.send(Started(session.id, session.started_at, {}))
        presence.arrive()
        try:
            self.start()
            await call_connected(self._model, self._contract, session)
            presence.release()
            await self._handle_events(session, dispatcher)
        except SessionStopped:
            logger.debug("session stopped while a handler was waiting id=%s", session.id)
        finally:
            self._session = None
            presence.clear()
            try:
                await call_disconnected(self._model, self._contract, session)
            finally:
                self._inputs.end()
                self._emitter.close()

    async def _handle_events(self, session: Session, dispatcher: Dispatcher) -> None:
        """Run the handlers of events as they come, until the session stops or `run()` ends."""
        while not session.stopping:
            await dispatcher.run_waiting()
            if self._run is not None and self._run.done():
                ended, self._run = self._run, None
                ended.result()
                raise RuntimeError("run() returned: it should go on for the life of the model, as `while True:` does")
            await session.alarm.wait()

    def _run_ended(self, run: asyncio.Task[None]) -> None:
        """Wake the session that `run()` ends, which raises its error; without one, log it: the next starts it anew."""
        if self._session is not None:
            self._session.alarm.ring()
            return
        self._run = None
        if not run.cancelled() and (error := run.exception()) is not None:
            logger.error(
                "run() failed with nobody connected; the next client starts it again", exc_info=from_author(error)
            )


def _no_field(name: str, value: object) -> None:
    raise AssertionError(f"events that set a field come from a state, which {name}={value!r} has none of")
