"""The first connection: what `connect` refuses at once, and how long it tries."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from reactor_runtime.client import AddressError, ConnectError, Refused, connect
from tests.client.fake_server import FakeServer
from tests.timeouts import TIMEOUT_S


def test_an_address_that_is_not_set_is_refused_with_an_example() -> None:
    with pytest.raises(AddressError) as caught:
        connect(os.environ.get("NOT_SET"))  # type: ignore[arg-type]
    assert caught.value.message == "the address is None, not text"
    assert "http://127.0.0.1:8080" in caught.value.hint


async def test_a_server_that_is_starting_is_tried_again() -> None:
    server = FakeServer(refusals=[503, 502])
    async with asyncio.timeout(TIMEOUT_S), server.open() as url, connect(url, wait_s=TIMEOUT_S) as session:
        assert session.model == "fake"
    assert not server.refusals


async def test_without_wait_s_there_is_one_attempt() -> None:
    server = FakeServer(refusals=[503, 503])
    async with asyncio.timeout(TIMEOUT_S), server.open() as url:
        with pytest.raises(Refused):
            await connect(url)
    assert server.refusals == [503]


async def test_a_wrong_token_is_not_tried_again() -> None:
    server = FakeServer(refusals=[401, 401])
    async with asyncio.timeout(TIMEOUT_S), server.open() as url:
        with pytest.raises(Refused):
            await connect(url, wait_s=TIMEOUT_S)
    assert server.refusals == [401]


def test_after_wait_s_the_last_reason_is_raised() -> None:
    # Bound, and nothing listens.
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(ConnectError, match="nothing listens there"), connect(url, wait_s=0.3):
            pass
