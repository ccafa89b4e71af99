"""Reactor serves a real-time, interactive video model: write one class, get frames and controls in the browser.

The public names are those of `reactor_runtime.interface`, imported on first use, so importing the package is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reactor_runtime.interface import *  # noqa: F403  # its `__all__` is the list
    from reactor_runtime.interface import __all__ as __all__
else:

    def __getattr__(name: str) -> object:
        from importlib.util import find_spec

        # `from reactor_runtime import wire` asks here first; an answer from `interface` would import all of authoring.
        is_private = name.startswith("_") and name not in ("__all__", "__version__")
        if not is_private and find_spec(f"{__name__}.{name}") is None:
            from reactor_runtime import interface

            if name == "__all__" or name in interface.__all__:
                value = getattr(interface, name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        from reactor_runtime import interface

        return sorted({*globals(), *interface.__all__})
