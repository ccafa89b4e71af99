"""What libraries import only when it is first needed: an import while the server serves would need a descriptor."""

from __future__ import annotations

import importlib

MODULES = (
    "anyio._backends._asyncio",  # with it the rest of anyio, which Starlette uses to send files
    "anyio._core._fileio",
)


def preload() -> None:
    """Import now what would be imported while the server serves; a test finds what is missing here."""
    for module in MODULES:
        importlib.import_module(module)
