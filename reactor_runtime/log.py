"""The import path of 3.x for `get_logger`."""

from __future__ import annotations

from reactor_runtime.logs.logger import get_logger as get_logger
