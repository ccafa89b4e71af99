"""`Idle` and its type, under the import path of 3.x."""

from __future__ import annotations

from reactor_runtime.authoring.styles.pipeline import Idle, _IdleType

__all__ = ["Idle", "_IdleType"]
