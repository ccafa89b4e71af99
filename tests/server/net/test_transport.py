from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop

from reactor_runtime.server.net.transport import write_pieces

MOST = 100


class Pausing(asyncio.Protocol):
    paused = False

    def pause_writing(self) -> None:
        self.paused = True


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_writing_to_a_peer_that_reads_nothing_pauses_the_protocol(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def write() -> int:
        ours, theirs = socket.socketpair()
        with theirs:
            transport, protocol = await asyncio.get_running_loop().create_connection(Pausing, sock=ours)
            transport.set_write_buffer_limits(high=0)
            written = 0
            while not protocol.paused and written < MOST:
                write_pieces(transport, b"header", bytes(1 << 20))
                written += 1
                await asyncio.sleep(0)
            transport.abort()
            return written

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(write()) < MOST
