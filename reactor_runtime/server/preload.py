"""Imports the modules that are first needed later, when no descriptor may be left to open them."""

from __future__ import annotations

MODULES = (
    # Starlette sends files through anyio.
    "anyio._backends._asyncio",
    "anyio._core._fileio",
    # It imports prometheus-client.
    "reactor_runtime.server.routes.prometheus",
)


def preload() -> None:
    """Import the modules; any thread. A test finds modules that are missing here."""
    for module in MODULES:
        __import__(module)
