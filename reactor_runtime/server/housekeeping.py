"""Background tasks, such as the playout, whose failure does not end the server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)

PAUSE_S = 0.5


async def keep_running(task: Callable[[], Awaitable[None]], what: str, pause_s: float = PAUSE_S) -> None:
    """Run a task until it returns, and again after each failure; log the first failure of each type, with traceback."""
    logged: set[type[Exception]] = set()
    while True:
        try:
            await task()
            return
        except Exception as error:
            if type(error) not in logged:
                logger.exception("%s failed, and is retried every %.1f s", what, pause_s)
            logged.add(type(error))
        await asyncio.sleep(pause_s)
