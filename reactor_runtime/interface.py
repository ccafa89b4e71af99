"""The names an author uses; `reactor_runtime` gives the very same ones."""

from __future__ import annotations

from reactor_runtime import __version__
from reactor_runtime.authoring.events import connected, disconnected, event
from reactor_runtime.authoring.fields import InputField, MessageField
from reactor_runtime.authoring.messages import ClientInfo, CommandError, ModelMessage
from reactor_runtime.authoring.pipeline import Idle, ReactorPipeline
from reactor_runtime.authoring.state import InputState
from reactor_runtime.authoring.tracks import Audio, Output, Video

__all__ = [
    "Audio",
    "ClientInfo",
    "CommandError",
    "Idle",
    "InputField",
    "InputState",
    "MessageField",
    "ModelMessage",
    "Output",
    "ReactorPipeline",
    "Video",
    "__version__",
    "connected",
    "disconnected",
    "event",
]
