"""A file on its way to a server that doesn't take it: whoever waits is let go, and the thread that sends it ends."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from reactor_runtime.client.address import Address
from reactor_runtime.client.connection import Connection
from reactor_runtime.client.errors import UploadError
from reactor_runtime.client.session import Session
from reactor_runtime.client.upload import TIMEOUT_S as GIVEN_UP_AFTER_S
from reactor_runtime.client.upload import File, Upload
from reactor_runtime.client.welcome import NO_WELCOME

MORE_THAN_SOCKETS_HOLD = bytes(20_000_000)


@pytest.fixture
def deaf() -> Iterator[str]:
    """The address of a server that accepts and reads nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def uploading(url: str) -> Upload:
    return Upload(Address.parse(url), "key", File.of(MORE_THAN_SOCKETS_HOLD, "a.bin", None))


async def test_who_cancels_it_ends_the_thread_that_sends_it(deaf: str) -> None:
    upload = uploading(deaf)
    sending = asyncio.create_task(asyncio.to_thread(upload.send))
    await asyncio.sleep(0.1)  # it may be at any point by then: each has to end
    upload.cancel()
    with pytest.raises(UploadError, match=r"a\.bin was not sent: (?!timed out)"):
        await sending


def test_one_that_was_cancelled_before_it_began_sends_nothing(deaf: str) -> None:
    upload = uploading(deaf)
    upload.cancel()
    with pytest.raises(UploadError, match="it was cancelled"):
        upload.send()


def test_it_does_not_hold_up_the_end_of_a_program(deaf: str) -> None:
    connection = Connection(Address.parse(deaf))
    connection.exchange.conversation.welcome = replace(NO_WELCOME, upload_key="key")

    async def program() -> None:
        uploading = asyncio.create_task(Session(connection).upload(MORE_THAN_SOCKETS_HOLD))
        await asyncio.sleep(0.1)
        assert not uploading.done()

    began = time.monotonic()
    asyncio.run(program())
    assert time.monotonic() - began < GIVEN_UP_AFTER_S
