"""The Python client: `connect` controls or watches a model, with or without an event loop; needs no server code."""

from __future__ import annotations

from reactor_runtime.client.blocking import BlockingSession
from reactor_runtime.client.connecting import connect
from reactor_runtime.client.errors import (
    AddressError,
    Busy,
    ClientError,
    ConnectError,
    ConnectionLost,
    EventError,
    Refused,
    SessionEnded,
    UploadError,
)
from reactor_runtime.client.media import Frame, Sound
from reactor_runtime.client.messages import Message, ModelContract, ReloadNotice, Reply, Track
from reactor_runtime.client.session import Session
from reactor_runtime.client.status import Phase, Status
from reactor_runtime.client.steps import StepRefused, StepsResult

__all__ = [
    "AddressError",
    "BlockingSession",
    "Busy",
    "ClientError",
    "ConnectError",
    "ConnectionLost",
    "EventError",
    "Frame",
    "Message",
    "ModelContract",
    "Phase",
    "Refused",
    "ReloadNotice",
    "Reply",
    "Session",
    "SessionEnded",
    "Sound",
    "Status",
    "StepRefused",
    "StepsResult",
    "Track",
    "UploadError",
    "connect",
]
