"""Drive a model without server, browser or wall clock: `Studio` for any style, `PipelineExecutor` step by step."""

from __future__ import annotations

from reactor_runtime.testing.comparison import Difference, Replay
from reactor_runtime.testing.executor import PipelineExecutor, StepResult, StepsResult
from reactor_runtime.testing.recorder import Frame, Message
from reactor_runtime.testing.seats import SeatedClient
from reactor_runtime.testing.session_replay import replay
from reactor_runtime.testing.studio import Studio

__all__ = [
    "Difference",
    "Frame",
    "Message",
    "PipelineExecutor",
    "Replay",
    "SeatedClient",
    "StepResult",
    "StepsResult",
    "Studio",
    "replay",
]
