"""A block model that runs what a test gives it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from reactor_runtime.interface import (
    InputField,
    VideoModel,
    command,
    get_ctx,
)
from reactor_runtime.testing import Studio
from tests.engine.rig import batch
from tests.timeouts import TIMEOUT_S


class Scripted(VideoModel):
    """Run what the test gives it, once a session."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.script: Callable[[Any], None] = config["script"]
        self.log: list[Any] = []
        self.level = 1

    @command("set_level")
    def set_level(self, level: int = InputField(ge=0, le=9)) -> None:
        self.level = level

    def start_session(self) -> None:
        try:
            self.script(self)
        finally:
            self.log.append("over")


def studio_of(script: Callable[[Any], None], kind: type[Scripted] = Scripted) -> Studio[Scripted]:
    return Studio(kind, {"script": script})


def paint(model: Scripted) -> None:
    """Emit blocks of two frames of the level until told to stop."""
    while not get_ctx().should_stop():
        get_ctx().emit_block(batch(model.level, model.level))


def reds(studio: Studio[Any]) -> list[int]:
    return [int(shown.array.flat[0]) for shown in studio.frames]


async def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.001)
