"""The public names and where each is defined; `reactor_runtime` exports the same names, imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

# Imported later, this package would replace the decorator `model`.
import reactor_runtime.interface.model  # noqa: F401  # for the order
from reactor_runtime.authoring.events.events import connected, disconnected, event
from reactor_runtime.authoring.events.messages import ClientInfo, CommandError, ModelMessage
from reactor_runtime.authoring.events.state import InputState
from reactor_runtime.authoring.styles.block import VideoModel, command, model
from reactor_runtime.authoring.styles.context import get_ctx
from reactor_runtime.authoring.styles.pipeline import Idle, ReactorPipeline
from reactor_runtime.authoring.styles.reactor_model import ReactorModel
from reactor_runtime.authoring.tracks.backlog import BufferClosed, ReadMode
from reactor_runtime.authoring.tracks.inputs import Input
from reactor_runtime.authoring.tracks.tracks import Audio, Output, Video
from reactor_runtime.authoring.values.bindings import Button, Key, Keys, Look, Pointer, Stick, Tap, Wheel
from reactor_runtime.authoring.values.fields import InputField, MessageField
from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.log import get_logger
from reactor_runtime.paths import get_weights_path
from reactor_runtime.serving import asgi, serve
from reactor_runtime.version import version

__all__ = [
    "Audio",
    "BufferClosed",
    "Button",
    "ClientInfo",
    "CommandError",
    "Idle",
    "Input",
    "InputField",
    "InputState",
    "Key",
    "Keys",
    "Look",
    "MessageField",
    "ModelMessage",
    "Output",
    "PipelineExecutor",
    "Pointer",
    "ReactorModel",
    "ReactorPipeline",
    "ReadMode",
    "StepResult",
    "Stick",
    "Tap",
    "UploadedFile",
    "Video",
    "VideoModel",
    "Wheel",
    "__version__",
    "asgi",
    "command",
    "connected",
    "disconnected",
    "event",
    "get_ctx",
    "get_logger",
    "get_weights_path",
    "model",
    "serve",
]

__version__ = version()

if TYPE_CHECKING:
    from reactor_runtime.testing.executor import PipelineExecutor, StepResult
else:

    def __getattr__(name: str) -> object:
        if name not in ("PipelineExecutor", "StepResult"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # Imports the engine, which importing a model does not need.
        from reactor_runtime.testing import executor

        return getattr(executor, name)
