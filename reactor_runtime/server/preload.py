"""Imports that need not be there when the server starts, and must not be missing later, when descriptors are short."""

from __future__ import annotations

MODULES = (
    "anyio._backends._asyncio",  # with it the rest of anyio, which Starlette uses to send files
    "anyio._core._fileio",
    "reactor_runtime.server.routes.exposition",  # with prometheus-client
)


def preload() -> None:
    """Import what would be imported while the server serves; any thread. A test finds what is missing here."""
    for module in MODULES:
        __import__(module)
