"""The front's connection to a control socket, with servers that fall silent or do not read."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from websockets.asyncio.server import ServerConnection, serve

from reactor_runtime.cluster.front import link
from reactor_runtime.cluster.front.link import WorkerLink
from reactor_runtime.cluster.messages import FROM_WORKER, FrontIdentity, Release, WorkerStatus
from tests.cluster.simulation import STATUS
from tests.timeouts import TIMEOUT_S

LOST = 1006


class Contact:
    """A link to a server, and what it has reported."""

    def __init__(self, url: str) -> None:
        self.connected = asyncio.Event()
        self.broken = asyncio.Event()
        self.link = WorkerLink(
            url,
            "secret",
            front=FrontIdentity.of_this_process(),
            on_status=lambda _: self.connected.set(),
            on_contract=lambda _: None,
            on_broken=lambda _: self.broken.set(),
            on_refused=lambda _: None,
        )


@contextlib.asynccontextmanager
async def contact_with(handler: Callable[[ServerConnection], Awaitable[None]]) -> AsyncIterator[Contact]:
    """Connect to a server for the block, from when it has sent a status."""
    async with serve(handler, "127.0.0.1", 0, ping_interval=None) as server:
        contact = Contact(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        try:
            await asyncio.wait_for(contact.connected.wait(), TIMEOUT_S)
            yield contact
        finally:
            contact.link.close()


async def send_status(worker: ServerConnection) -> None:
    await worker.send(FROM_WORKER.encode(STATUS))


async def test_a_link_uses_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")

    async def serve_worker(worker: ServerConnection) -> None:
        await send_status(worker)
        await worker.wait_closed()

    async with contact_with(serve_worker) as contact:
        assert not contact.broken.is_set()


async def test_a_silent_connection_is_broken_without_a_close() -> None:
    asked, close_codes = asyncio.Event(), asyncio.Queue[int | None]()

    async def fall_silent(worker: ServerConnection) -> None:
        await send_status(worker)
        worker.transport.pause_reading()
        await asked.wait()
        worker.transport.resume_reading()
        await worker.wait_closed()
        close_codes.put_nowait(worker.close_code)

    async with contact_with(fall_silent) as contact:
        await asyncio.wait_for(contact.broken.wait(), TIMEOUT_S)
        asked.set()
        assert await asyncio.wait_for(close_codes.get(), TIMEOUT_S) == LOST


async def test_a_front_that_stalls_takes_no_worker_for_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "SILENCE_S", 1.0)

    async def serve_worker(worker: ServerConnection) -> None:
        await send_status(worker)
        assert await asyncio.wait_for(worker.recv(), TIMEOUT_S)
        await send_status(worker)
        # Both ends are in this process: the status has been sent, and is read after the stall.
        time.sleep(2 * link.SILENCE_S)  # noqa: ASYNC251
        await worker.recv()

    async with contact_with(serve_worker) as contact:
        contact.connected.clear()
        contact.link.send(Release("a"))
        await asyncio.wait_for(contact.connected.wait(), TIMEOUT_S)
        assert not contact.broken.is_set()


async def test_closing_does_not_wait_for_a_worker_that_reads_nothing() -> None:
    async def read_nothing(worker: ServerConnection) -> None:
        worker.transport.pause_reading()
        while True:
            await send_status(worker)
            await asyncio.sleep(0.1)

    async with contact_with(read_nothing) as contact:
        # More than the kernel keeps.
        for _ in range(2000):
            contact.link.send(Release("x" * 20_000))
        await asyncio.wait_for(contact.link.aclose(), TIMEOUT_S)
        assert not contact.broken.is_set()


async def test_a_status_that_can_not_be_used_breaks_the_connection_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = asyncio.Queue[str]()

    def fail(_: WorkerStatus) -> None:
        raise ValueError("no such phase")

    async def serve_worker(worker: ServerConnection) -> None:
        await send_status(worker)
        await worker.wait_closed()

    async with serve(serve_worker, "127.0.0.1", 0, ping_interval=None) as server:
        link = WorkerLink(
            f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}",
            "secret",
            front=FrontIdentity.of_this_process(),
            on_status=fail,
            on_contract=lambda _: None,
            on_broken=broken.put_nowait,
            on_refused=lambda _: None,
        )
        # It connects again.
        reasons = [await asyncio.wait_for(broken.get(), TIMEOUT_S) for _ in range(2)]
        link.close()
    assert all("can't be used: the log has the reason" in reason for reason in reasons)
    assert "no such phase" in caplog.text
