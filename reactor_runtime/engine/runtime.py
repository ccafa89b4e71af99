"""The engine as a model on an event loop uses it: `self.connected`, `self.output`, `send()` and `emit()`."""

from __future__ import annotations

import asyncio
import sys

from reactor_runtime.authoring.events.messages import ModelMessage, message_to_json
from reactor_runtime.engine.drivers.connected import Connected
from reactor_runtime.engine.drivers.driver import CodeSwap, NoSwap
from reactor_runtime.engine.output.emitter import Emitter, StepTime, is_sound_alone
from reactor_runtime.engine.output.output_buffer import OutputBuffer
from reactor_runtime.engine.output.sink import Sink
from reactor_runtime.engine.session import ModelSession
from reactor_runtime.engine.session_state import SessionState
from reactor_runtime.ipc.messages import MessageSent


class ModelRuntime:
    """Implement the calls of an `AsyncModel`; any thread may call `send`, all else belongs to the model's."""

    def __init__(self, emitter: Emitter, sink: Sink, state: SessionState, swap: CodeSwap | None = None) -> None:
        self.connected = Connected()
        self.output_buffer = OutputBuffer(emitter, self.emit)
        self._emitter = emitter
        self._sink = sink
        self._state = state
        self._swap = swap or NoSwap()
        self._session: ModelSession | None = None
        # When the last emit() returned.
        self._returned_at: float | None = None
        self._emitting, self._emitting_sound = asyncio.Lock(), asyncio.Lock()

    def begin_session(self, session: ModelSession) -> None:
        """Send the model's messages to the clients of this session from now on."""
        self._session = session
        self._returned_at = None

    def end_session(self) -> None:
        """Drop the model's messages until the next session."""
        self._session = None

    def send(self, message: ModelMessage, client: str | None = None) -> None:
        """Send a message of the model to the session's clients, or to one; do nothing without a session."""
        kind, data = message_to_json(message)
        # The loop may end the session meanwhile.
        session = self._session
        if session is not None:
            self._sink.send(MessageSent(session.id, kind, data, client, session.handled_here))

    async def emit(self, output: object, *, compute_time: float | None, drop: bool) -> None:
        """Hand over output, one batch after the other even if several tasks emit.

        Sound alone and frames do not wait for each other. Output that a task made for a client that has left is
        dropped.
        """
        if self.connected.seen_another():
            await asyncio.sleep(0)
            return
        session = self._session
        if session is not None:
            session.count_step()
            if session.trace is not None and self._returned_at is not None:
                session.trace.span(session.id, "session", "between emits", self._returned_at)
        bundles = self._emitter.unpack(output)
        if self._swap.on_trial:
            self._swap.step_made()
            # The first frame of new code is shown next.
            self._emitter.drop_queued()
        if self._session is not None:
            self._emitter.first_step.check(bundles, compute_time, sys._getframe())
        self._state.send_changes()
        emitting = self._emitting_sound if is_sound_alone(bundles) else self._emitting
        if drop and emitting.locked():
            self._emitter.skip(bundles)
            return
        async with emitting:
            await self._emitter.emit_bundles(bundles, StepTime.given(compute_time), drop=drop)
        # A run() that emits without a client must not starve the loop.
        await asyncio.sleep(0)
        if session is not None and session.trace is not None:
            self._returned_at = session.trace.now()
