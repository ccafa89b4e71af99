"""The state of the sessions of one model: made for each session, and sent when its public fields change."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from reactor_runtime.authoring.events.state import InputState, StateSpec
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.engine.session import ModelSession
from reactor_runtime.ipc.messages import StateChanged, ToServer


class SessionState:
    """Make `model.state` for each session and send its changes; do nothing for a model that declares no state.

    Any thread may call `send_changes`; the rest belongs to the model's thread.
    """

    def __init__(self, served: ServedModel, send: Callable[[ToServer], None]) -> None:
        self._served = served
        self._send = send
        self._session = ""
        # Clients have these values.
        self._sent: dict[str, Any] = {}
        # Without it, one thread could send an older value after another thread has sent a newer one.
        self._lock = threading.Lock()
        self.clear()

    def begin(self, session: ModelSession) -> dict[str, Any]:
        """Make the state of a session and return its public fields."""
        self.reset()
        with self._lock:
            self._session = session.id
            self._sent = {} if self._spec is None else self._spec.to_json(self._model.state)
            return dict(self._sent)

    def send_changes(self) -> None:
        """Send the public fields that changed since the last call; do nothing outside of sessions.

        Raises TypeError that names the field if JSON can't express its value.
        """
        with self._lock:
            if self._spec is None or not self._session:
                return
            changes = self._spec.changes(self._model.state, self._sent)
            if changes:
                self._send(StateChanged(self._session, changes))

    def serve(self, version: Version, state: InputState | None = None) -> InputState | None:
        """Replace the version of the model that is served; return the state that there was.

        In a session the new version gets a state with the values of the former one that are still valid; or it gets
        `state`, from which the former one was made, with what has changed since.
        """
        with self._lock:
            former, old = (None if self._spec is None else self._model.state), self._spec
            spec = version.contract.state
            if spec is not None:
                if state is not None and old is not None and former is not None:
                    spec.set_changes(state, old, former)
                if state is None and self._session:
                    state = spec.fresh() if old is None or former is None else spec.carry_over(old, former)
                version.model.state = state
            self._served.version = version
            return former

    @property
    def _model(self) -> Model:
        return self._served.model

    @property
    def _spec(self) -> StateSpec | None:
        return self._served.contract.state

    def clear(self) -> None:
        """End the session and set the state to None."""
        with self._lock:
            self._session = ""
        if self._spec is not None:
            self._model.state = None

    def reset(self) -> None:
        """End the session and set a fresh state, for code that also runs without a session."""
        self.clear()
        if self._spec is not None:
            self._model.state = self._spec.fresh()
