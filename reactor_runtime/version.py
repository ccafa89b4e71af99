"""The version of Reactor."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Return the installed version; "0+unknown" for a source tree that isn't installed."""
    try:
        return metadata.version("reactor-live")
    except metadata.PackageNotFoundError:
        return "0+unknown"
