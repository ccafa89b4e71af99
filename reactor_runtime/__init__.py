"""Reactor serves a real-time, interactive video model: write one class, get frames and controls in the browser.

The public names are those of `reactor_runtime.interface`, loaded when first used, so importing the package is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from reactor_runtime.authoring.events import connected, disconnected, event
    from reactor_runtime.authoring.fields import InputField, MessageField
    from reactor_runtime.authoring.messages import ClientInfo, CommandError, ModelMessage
    from reactor_runtime.authoring.pipeline import Idle, ReactorPipeline
    from reactor_runtime.authoring.state import InputState
    from reactor_runtime.authoring.tracks import Audio, Output, Video

    __version__: str
else:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name == "__version__":
            value: object = _version()
        else:
            from reactor_runtime import interface

            value = getattr(interface, name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


def _version() -> str:
    """Return the installed version; a source tree that isn't installed has none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("reactor-live")
    except PackageNotFoundError:
        return "0+unknown"
