"""An upload to a server that reads nothing: a cancelled one returns, and its thread ends."""

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
from reactor_runtime.client.messages import NO_WELCOME
from reactor_runtime.client.session import Session
from reactor_runtime.client.upload import TIMEOUT_S as UPLOAD_TIMEOUT_S
from reactor_runtime.client.upload import File, Upload

MORE_THAN_SOCKETS_HOLD = bytes(20_000_000)


@pytest.fixture
def deaf() -> Iterator[str]:
    """Return the address of a server that accepts and reads nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def uploading(url: str) -> Upload:
    return Upload(Address.parse(url), "key", File.from_content(MORE_THAN_SOCKETS_HOLD, "a.bin", None))


async def test_cancel_ends_the_sending_thread(deaf: str) -> None:
    upload = uploading(deaf)
    sending = asyncio.create_task(asyncio.to_thread(upload.send))
    # The upload may be at any point by then; `cancel` has to end it from each.
    await asyncio.sleep(0.1)
    upload.cancel()
    with pytest.raises(UploadError, match=r"a\.bin was not sent: (?!timed out)"):
        await sending


def test_an_upload_cancelled_before_it_starts_sends_nothing(deaf: str) -> None:
    upload = uploading(deaf)
    upload.cancel()
    with pytest.raises(UploadError, match="it was cancelled"):
        upload.send()


def test_an_upload_does_not_delay_the_end_of_a_program(deaf: str) -> None:
    connection = Connection(Address.parse(deaf))
    connection.streams.protocol.welcome = replace(NO_WELCOME, upload_key="key")

    async def program() -> None:
        uploading = asyncio.create_task(Session(connection).upload(MORE_THAN_SOCKETS_HOLD))
        await asyncio.sleep(0.1)
        assert not uploading.done()

    began = time.monotonic()
    asyncio.run(program())
    assert time.monotonic() - began < UPLOAD_TIMEOUT_S
