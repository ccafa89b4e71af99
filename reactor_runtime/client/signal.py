"""Wake everybody who waits for something to change."""

from __future__ import annotations

import asyncio


class Signal:
    """Ring for all who wait; look again then at what you waited for. Belongs to one loop."""

    def __init__(self) -> None:
        self._next: asyncio.Future[None] | None = None

    def ring(self) -> None:
        """Wake all who wait by now."""
        if self._next is not None and not self._next.done():
            self._next.set_result(None)
        self._next = None

    async def wait(self) -> None:
        """Sleep until the next ring."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._next)  # one sleeper that is cancelled leaves the others asleep
