"""The public names and where each is defined; `reactor_runtime` exports the same names, imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

# Imported later, this package would replace the decorator `model`.
import reactor_runtime.interface.model  # noqa: F401  # for the order
from reactor_runtime.authoring.events.events import (
    connected,
    disconnected,
    event,
    file_uploaded,
    joined,
    left,
    session_ended,
    session_started,
)
from reactor_runtime.authoring.events.messages import ClientInfo, CommandError, ModelMessage
from reactor_runtime.authoring.events.state import InputState
from reactor_runtime.authoring.styles.app import ApplicationError, ReactorApp, StepCompleted, StepOutcome
from reactor_runtime.authoring.styles.async_model import OutputQueue as OutputBuffer
from reactor_runtime.authoring.styles.async_model import OutputQueue as OutputStream
from reactor_runtime.authoring.styles.block import VideoModel, command, model
from reactor_runtime.authoring.styles.context import get_ctx
from reactor_runtime.authoring.styles.pipeline import (
    Idle,
    ReactorPipeline,
    _IdleType,  # noqa: F401  # programs for 3.x annotate with it
)
from reactor_runtime.authoring.styles.reactor_model import ReactorModel
from reactor_runtime.authoring.styles.seat import Seat
from reactor_runtime.authoring.tracks.backlog import BufferClosed, ReadMode
from reactor_runtime.authoring.tracks.input_buffer import InputBuffer
from reactor_runtime.authoring.tracks.input_frame import InputFrame
from reactor_runtime.authoring.tracks.inputs import Input
from reactor_runtime.authoring.tracks.inputs import Input as MediaInput
from reactor_runtime.authoring.tracks.track_payload import TrackPayload
from reactor_runtime.authoring.tracks.tracks import Audio, Output, Video
from reactor_runtime.authoring.tracks.tracks import TrackSpec as Track
from reactor_runtime.authoring.values.bindings import Button, Key, Keys, Look, Pointer, Stick, Tap, Wheel
from reactor_runtime.authoring.values.fields import InputDeclaration as FieldInfo
from reactor_runtime.authoring.values.fields import InputField, MessageField
from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.logs.logger import get_logger
from reactor_runtime.paths import get_weights_path
from reactor_runtime.serving import asgi, serve

# Sorted by code points, as Python's own `sorted` does.
__all__ = [  # noqa: RUF022
    "ApplicationError",
    "Audio",
    "BufferClosed",
    "Button",
    "ClientInfo",
    "Command",
    "CommandError",
    "DistributedRunner",
    "DistributedWorker",
    "EVENT_REGISTRY",
    "FieldInfo",
    "INPUT_REGISTRY",
    "Idle",
    "Input",
    "InputBuffer",
    "InputField",
    "InputFrame",
    "InputState",
    "Key",
    "Keys",
    "Look",
    "MESSAGE_REGISTRY",
    "MediaInput",
    "MessageField",
    "Metadata",
    "ModelMessage",
    "OUTPUT_REGISTRY",
    "Output",
    "OutputBuffer",
    "OutputStream",
    "PipelineExecutor",
    "Pointer",
    "RankDesync",
    "ReactorApp",
    "ReactorModel",
    "ReactorPipeline",
    "ReadMode",
    "Seat",
    "SharedSlotAllocationFailed",
    "StepCompleted",
    "StepOutcome",
    "StepResult",
    "Stick",
    "Tap",
    "Track",
    "TrackPayload",
    "UploadedFile",
    "Video",
    "VideoModel",
    "Wheel",
    "WorkerCrashed",
    "WorkerTimeout",
    "__version__",
    "all_input_tracks",
    "all_output_tracks",
    "asgi",
    "command",
    "connected",
    "disconnected",
    "event",
    "file_uploaded",
    "get_ctx",
    "get_logger",
    "get_weights_path",
    "joined",
    "left",
    "model",
    "serve",
    "session_ended",
    "session_started",
]

# The metadata of a frame.
Metadata = dict | bytes  # type: ignore[type-arg]  # for isinstance too

if TYPE_CHECKING:
    from reactor_runtime.distributed import (
        DistributedRunner,
        DistributedWorker,
        RankDesync,
        SharedSlotAllocationFailed,
        WorkerCrashed,
        WorkerTimeout,
    )
    from reactor_runtime.interface.model.contract import Command
    from reactor_runtime.interface.registries import (
        EVENT_REGISTRY,
        INPUT_REGISTRY,
        MESSAGE_REGISTRY,
        OUTPUT_REGISTRY,
        all_input_tracks,
        all_output_tracks,
    )
    from reactor_runtime.testing.executor import PipelineExecutor, StepResult

    __version__: str
else:
    # Modules that most models do not need, such as the engine, and the names they define.
    _LATER = {
        "reactor_runtime.testing.executor": ("PipelineExecutor", "StepResult"),
        "reactor_runtime.distributed": (
            "DistributedRunner",
            "DistributedWorker",
            "RankDesync",
            "SharedSlotAllocationFailed",
            "WorkerCrashed",
            "WorkerTimeout",
        ),
        "reactor_runtime.interface.model.contract": ("Command",),
        "reactor_runtime.interface.registries": (
            "EVENT_REGISTRY",
            "INPUT_REGISTRY",
            "MESSAGE_REGISTRY",
            "OUTPUT_REGISTRY",
            "all_input_tracks",
            "all_output_tracks",
        ),
    }

    def __getattr__(name: str) -> object:
        # It is read from the files of the installation.
        if name == "__version__":
            from reactor_runtime.version import version

            return globals().setdefault(name, version())
        for module, names in _LATER.items():
            if name in names:
                from importlib import import_module

                return getattr(import_module(module), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
