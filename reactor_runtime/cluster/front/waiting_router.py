"""Answers what clients of the front send while no worker has them; the relay takes the messages of the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactor_runtime.errors.codes import ErrorCode
from reactor_runtime.server.delivery.client import Client
from reactor_runtime.server.sessions.admission import Admission
from reactor_runtime.server.sessions.inbound import why_not
from reactor_runtime.wire.messages import Event, Keep, Step

if TYPE_CHECKING:
    from reactor_runtime.cluster.front.worker_slot import WorkerSlot


class WaitingRouter:
    """Refuse what waiting clients send to the model; use on the front's loop."""

    # A relay skips frames, and a client that is redirected connects to another server.
    has_stepped_sessions = False

    def __init__(self, admission: Admission[WorkerSlot]) -> None:
        self._admission = admission

    def controls(self, client: Client) -> bool:
        """Return whether a client is relayed to a session of its own."""
        return self._admission.slots.controlled_by(client) is not None

    def may_send(self, client: Client) -> bool:
        """Return whether a client is relayed to a session that takes what it sends."""
        contract = self._admission.slots.contract
        shared = self._admission.settings.options.shared or (contract is not None and contract.get("shared", False))
        return self.controls(client) or (client.upstream is not None and bool(shared))

    def route_event(self, client: Client, event: Event) -> None:
        message = f"{why_not(client, self._admission.slots)}: {event.type} changed nothing"
        client.send_error(ErrorCode.NOT_CONTROLLER, message, message_id=event.id, event=event.type)

    def route_step(self, client: Client, step: Step) -> None:
        client.send_error(ErrorCode.NOT_READY, "a cluster has no stepped sessions", message_id=step.id)

    def route_media(self, client: Client, data: bytes) -> None:  # noqa: ARG002  (what `MessageRouter` declares)
        self.refuse_dropped(client)

    def refuse_dropped(self, client: Client) -> None:
        client.send_error(
            ErrorCode.NOT_CONTROLLER, f"{why_not(client, self._admission.slots)}: the message was dropped"
        )

    def record_activity(self, client: Client) -> None:
        """Do nothing: a client that waits has no idle timeout."""

    def keep_recording(self, client: Client, keep: Keep) -> None:
        """Do nothing: a front has no recordings."""
