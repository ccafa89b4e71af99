"""Which Reactor this is."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Return the installed version; a source tree that isn't installed has none."""
    try:
        return metadata.version("reactor-live")
    except metadata.PackageNotFoundError:
        return "0+unknown"
