"""The names of 1.x and 2.10 under their import path; those of `reactor_runtime.interface`, imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reactor_runtime.interface import *  # noqa: F403  # its `__all__` is the list
    from reactor_runtime.interface import __all__ as __all__
else:
    from reactor_runtime.interface import __all__ as __all__

    def __getattr__(name: str) -> object:
        from reactor_runtime import interface

        if name in interface.__all__:
            return getattr(interface, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
