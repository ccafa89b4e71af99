"""The steps of a stepped session: its controller requests them, and each request has inputs of its own before them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.engine.dispatch import CheckedEvent, Dispatcher, RequestedInput, RequestedSteps, check_event
from reactor_runtime.engine.output.emitter import Emitter
from reactor_runtime.engine.served import ServedModel
from reactor_runtime.engine.session import ModelSession
from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.ipc.messages import ClientEvent, EventRefused, Stepped, StepRequest, ToServer

MODERATED = "the model decides about this value first: send the event before the step"
NOTHING_YIELDED = "{}() ended without yielding anything"
STEP_FAILED = "the model failed in this step"


def read_request(request: StepRequest) -> RequestedSteps:
    """Return a request with its inputs in order: fields of the state, then commands."""
    data = json.loads(request.data_json)
    fields = [
        RequestedInput(f"state.{name}", name, json.dumps(value), is_field=True)
        for name, value in data.get("state", {}).items()
    ]
    commands = [
        RequestedInput(f"commands[{index}]", each["command"], json.dumps(each.get("data", {})), is_field=False)
        for index, each in enumerate(data.get("commands", ()))
    ]
    return RequestedSteps(request, (*fields, *commands))


def refuse(request: StepRequest, code: str, message: str, *, step: int = 0) -> Stepped:
    """Return the answer to a request that makes no step."""
    return Stepped(request.session, request.client, request.ticket, step, 0, 0.0, {}, code, message)


@dataclass(slots=True)
class _Progress:
    """Hold what is done of the request at the head of the queue; `seqs` are the numbers of the frames before it."""

    requested: RequestedSteps
    seqs: dict[str, int]
    made: int = 0
    elapsed_s: float = 0.0
    # The client that waits for the answer has gone.
    is_cut: bool = False


class Stepping:
    """Apply the inputs of each request, count its steps, and answer it; belongs to the model's thread.

    A request is the next item of the dispatcher's queue until its steps are made, so nothing else is handled between
    its inputs and the last of its steps. All of its inputs are checked before the first is applied. `uploads` are the
    files that they may refer to.
    """

    def __init__(
        self,
        served: ServedModel,
        session: ModelSession,
        dispatcher: Dispatcher,
        emitter: Emitter,
        send: Callable[[ToServer], None],
        uploads: Mapping[str, UploadedFile],
    ) -> None:
        self._served = served
        self._session = session
        self._dispatcher = dispatcher
        self._emitter = emitter
        self._send = send
        self._uploads = uploads
        self._current: _Progress | None = None
        # Since the last reset.
        self._steps = 0

    async def wants_step(self) -> bool:
        """Apply the inputs of the next request; return whether a step is to be made now."""
        session = self._session
        while (requested := self._dispatcher.requested) is not None and not session.paused:
            if requested.request.reset and session.reset_by is not requested.request:
                session.begin_anew(requested.request)
                return False
            if self._current is None:
                self._current = _Progress(requested, self._emitter.next_seqs)
                await self._apply_inputs(requested)
                if session.stopping:
                    return False
                continue
            if self._current.made < requested.request.steps and not self._current.is_cut:
                return True
            self._answer()
        return False

    def step_made(self, elapsed_s: float) -> None:
        """Count a step of the current request."""
        assert self._current is not None, "a step is made only where one is requested"
        self._steps += 1
        self._current.made += 1
        self._current.elapsed_s += elapsed_s

    def refuse_rest(self, reason: str) -> None:
        """Answer the current request: the model makes no step now."""
        self._answer(ErrorCode.REFUSED, reason)

    def fail(self) -> None:
        """Answer the current request, if there is one: its step has raised an exception."""
        if self._current is not None:
            self._answer(ErrorCode.FAILED, STEP_FAILED)

    def drop_requests(self) -> None:
        """Make no other requested step: the controller has gone."""
        current = self._current
        self._dispatcher.drop_requests(but=None if current is None else current.requested)
        if current is not None:
            current.is_cut = True

    def close(self) -> None:
        """Answer the current request with the steps that it has made: the session ends."""
        if self._current is not None:
            self._answer()

    async def _apply_inputs(self, requested: RequestedSteps) -> None:
        """Apply the inputs of a request, or refuse it."""
        checked: list[CheckedEvent] = []
        for each in requested.inputs:
            found = _check(self._served.contract, requested.request, each, self._uploads)
            if isinstance(found, EventRefused):
                self._answer(found.code, found.message, found.fields)
                return
            checked.append(found)
        for number, (each, event) in enumerate(zip(requested.inputs, checked, strict=True), requested.first):
            refused = await self._dispatcher.apply_input(number, event)
            if refused is not None:
                message = f"{each.path}: {refused.message}"
                self._answer(ErrorCode.COMMAND_FAILED, message, [{"path": each.path, "message": refused.code}])
                return

    def _answer(self, code: str = "", message: str = "", fields: list[dict[str, str]] | None = None) -> None:
        current, self._current = self._current, None
        assert current is not None, "it was begun"
        if self._dispatcher.requested is current.requested:
            self._dispatcher.finish_request()
        if current.is_cut:
            return
        request = current.requested.request
        shown = {name: [current.seqs.get(name, 0), seq] for name, seq in self._emitter.next_seqs.items()}
        frames = {name: [first, end - first] for name, (first, end) in shown.items() if end > first}
        self._send(
            Stepped(
                request.session,
                request.client,
                request.ticket,
                self._steps,
                current.made,
                round(current.elapsed_s, 6),
                frames,
                code,
                message,
                fields or [],
            )
        )


def _check(
    contract: Contract, request: StepRequest, each: RequestedInput, uploads: Mapping[str, UploadedFile]
) -> CheckedEvent | EventRefused:
    """Check an input of a request; the paths of a refusal begin with its place there."""

    def refused(code: str, message: str) -> EventRefused:
        fields = [{"path": each.path, "message": message}]
        return EventRefused(request.session, request.client, None, each.name, code, f"{each.path}: {message}", fields)

    name, data_json = each.name, each.data_json
    if each.is_field:
        event = next((event for event in contract.events.values() if event.field == name), None)
        if event is None:
            return refused(ErrorCode.INVALID_EVENT, f"clients can't set the state field {name!r}")
        (parameter,) = event.arguments.names
        name, data_json = event.name, f"{{{json.dumps(parameter)}:{data_json}}}"
    found = check_event(contract.events, ClientEvent(request.session, request.client, None, name, data_json), uploads)
    if isinstance(found, EventRefused):
        return _placed(found, each)
    given: dict[str, Any] = json.loads(data_json)
    if contract.moderates and any(field in given for field in found.spec.arguments.moderated):
        return refused(ErrorCode.INVALID_EVENT, MODERATED)
    return found


def _placed(refused: EventRefused, each: RequestedInput) -> EventRefused:
    """Return a refusal whose paths begin with the place of the input, in place of the event's name."""
    prefix = f"{refused.event}."
    fields = [
        {"path": _path(each, field["path"].removeprefix(prefix)), "message": field["message"]}
        for field in refused.fields
    ]
    message = "; ".join(f"{field['path']}: {field['message']}" for field in fields) or f"{each.path}: {refused.message}"
    return EventRefused(refused.session, refused.client, None, refused.event, refused.code, message, fields)


def _path(each: RequestedInput, rest: str) -> str:
    if not each.is_field:
        return f"{each.path}.data.{rest}"
    # The parameter of a setter is the field.
    _, _, deeper = rest.partition(".")
    return f"{each.path}.{deeper}" if deeper else each.path
