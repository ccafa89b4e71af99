"""`@file_uploaded`: its event is added for a file to which no event of a client refers in time."""

from __future__ import annotations

import json
from collections.abc import Callable

from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.clock import Clock
from reactor_runtime.engine.dispatch import HOST, CheckedEvent, Dispatcher
from reactor_runtime.engine.inputs.uploads import SessionUploads
from reactor_runtime.engine.served import ServedModel
from reactor_runtime.engine.session import ModelSession
from reactor_runtime.ipc.messages import ClientEvent, EventRefused

# An event that refers to a file comes after it; a file without one by then is for `@file_uploaded`.
REFERENCE_S = 2.0


class FileHook:
    """Call `@file_uploaded` in the session that runs; belongs to the loop of the sessions."""

    def __init__(
        self,
        served: ServedModel,
        uploads: SessionUploads,
        clock: Clock,
        check: Callable[[ClientEvent], CheckedEvent | EventRefused],
    ) -> None:
        self._served = served
        self._uploads = uploads
        self._clock = clock
        self._check = check
        self._current: tuple[ModelSession, Dispatcher] | None = None

    def begin_session(self, session: ModelSession, dispatcher: Dispatcher) -> None:
        self._current = session, dispatcher

    def end_session(self) -> None:
        self._current = None

    def await_reference(self, file: UploadedFile, client: str) -> None:
        """Call the hook for a file unless an event refers to it in time.

        If its client has left meanwhile, the hook gets the controller.
        """

        def call() -> None:
            spec = self._served.contract.on_file
            # The files of a session are dropped at its end, but not at a reset.
            if self._current is None or spec is None or self._uploads.is_used(file.id):
                return
            (parameter,) = spec.arguments.names
            (session, dispatcher), data = self._current, json.dumps({parameter: {"upload": file.id}})
            sender = session.find_client(client) or session.controller
            event = ClientEvent(session.id, sender.id, None, spec.name, data, seat=sender.seat or HOST)
            checked = self._check(event)
            # The file may have made room for newer ones.
            if isinstance(checked, CheckedEvent):
                dispatcher.accept(checked)

        wait_s = REFERENCE_S if self._served.contract.takes_files else 0.0
        self._clock.call_at(self._clock.now() + wait_s, call)
