"""TLS from bytes to bytes, against the client of Python's own library."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactor_runtime.server.net.limits import TokenBucket
from reactor_runtime.server.net.reading import RECEIVED_S, Reading
from reactor_runtime.server.net.shares import MOST_UNREAD_BYTES, Accounts, Share
from reactor_runtime.server.net.tls import STEP_S, Encryption, Handshakes, TlsConnection
from tests.fakes import settle
from tests.server.security.test_certificate import make_certificate
from tests.server.test_leftovers import until
from tests.timeouts import TIMEOUT_S


class Client:
    """The other end, in memory."""

    def __init__(self, certificate: Path, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=str(certificate))
        context.maximum_version = version
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")

    def shake(self, received: bytes = b"") -> bytes:
        """Continue the handshake; return what is to be sent."""
        self._incoming.write(received)
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self._outgoing.read()

    def receive(self, data: bytes) -> bytes:
        self._incoming.write(data)
        received = b""
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            while piece := self.tls.read(1 << 16):
                received += piece
        return received

    def say(self, *pieces: bytes) -> bytes:
        """Return a record, or several if it is long, for each piece."""
        for piece in pieces:
            self.tls.write(piece)
        return self._outgoing.read()

    def end(self) -> bytes:
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.unwrap()
        return self._outgoing.read()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def context(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


Pair = tuple[Encryption, Client]


def paired(context: ssl.SSLContext, client: Client) -> Pair:
    """Return both ends after a handshake."""
    server = Encryption(context)
    server.feed(client.shake())
    assert not server.handshake()
    server.feed(client.shake(server.to_send()))
    assert server.handshake()
    client.receive(client.shake(server.to_send()) or server.to_send())
    return server, client


@pytest.fixture
def pair(context: ssl.SSLContext, certificate: tuple[Path, Path]) -> Pair:
    return paired(context, Client(certificate[0]))


def decrypted(server: Encryption, *received: bytes) -> list[bytes]:
    """Return what the client sent, record by record."""
    records = []
    for each in received:
        server.feed(each)
        while server.has_record:
            records.append(server.decrypt())
    return records


def test_bytes_go_both_ways_however_large(pair: Pair) -> None:
    server, client = pair
    assert decrypted(server, client.say(b"hello")) == [b"hello"]
    assert b"".join(decrypted(server, client.say(bytes(200_000)))) == bytes(200_000)
    server.encrypt([b"head", bytes(200_000), b""])
    assert client.receive(server.to_send()) == b"head" + bytes(200_000)


def test_one_record_is_decrypted_at_a_time(pair: Pair) -> None:
    server, client = pair
    assert decrypted(server, client.say(*(b"x" for _ in range(1000)))) == [b"x"] * 1000


def test_a_record_in_many_parts_is_used_in_two(pair: Pair) -> None:
    server, client = pair
    sent = client.say(bytes(1000))
    assert decrypted(server, *(sent[at : at + 1] for at in range(len(sent)))) == [b"", bytes(1000)]


def parts_of(sent: bytes, cuts: list[int]) -> list[bytes]:
    bounds = sorted({0, len(sent), *(cut for cut in cuts if cut < len(sent))})
    return [sent[begin:end] for begin, end in itertools.pairwise(bounds)]


PIECES = st.lists(st.binary(min_size=1, max_size=40) | st.integers(16_000, 40_000).map(bytes), max_size=8)
CUTS = st.lists(st.integers(0, 80) | st.integers(0, 1 << 18), max_size=12)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
@given(pieces=PIECES, cuts=CUTS)
def test_what_a_client_sends_may_arrive_in_any_parts(
    context: ssl.SSLContext,
    certificate: tuple[Path, Path],
    version: ssl.TLSVersion,
    pieces: list[bytes],
    cuts: list[int],
) -> None:
    server, client = paired(context, Client(certificate[0], version))
    sent = client.say(*pieces)
    assert b"".join(decrypted(server, *parts_of(sent, cuts))) == b"".join(pieces)
    assert not server.is_over
    assert decrypted(server, *parts_of(client.end(), cuts))[-1] == b""
    assert server.is_over


@given(
    pieces=PIECES.filter(bool), cuts=CUTS, at=st.integers(0, 80) | st.integers(0, 1 << 18), flipped=st.integers(1, 255)
)
def test_nothing_is_received_from_a_damaged_record_on(
    context: ssl.SSLContext, certificate: tuple[Path, Path], pieces: list[bytes], cuts: list[int], at: int, flipped: int
) -> None:
    server, client = paired(context, Client(certificate[0]))
    sent = bytearray(client.say(*pieces))
    sent[at % len(sent)] ^= flipped
    received = b"".join(decrypted(server, *parts_of(bytes(sent), cuts)))
    assert received != b"".join(pieces)
    assert b"".join(pieces).startswith(received)


def test_a_handshake_may_arrive_in_any_parts_and_before_the_first_bytes(
    context: ssl.SSLContext, certificate: tuple[Path, Path]
) -> None:
    server, client = Encryption(context), Client(certificate[0])
    hello = client.shake()
    for at in range(len(hello)):
        assert not server.handshake()
        server.feed(hello[at : at + 1])
    assert not server.handshake()
    server.feed(client.shake(server.to_send()) + client.say(b"a", b"b"))
    assert server.handshake()
    assert decrypted(server, b"") == [b"a", b"b"]


def test_a_goodbye_ends_what_the_client_sends(pair: Pair) -> None:
    server, client = pair
    assert decrypted(server, client.say(b"last") + client.end() + b"more bytes") == [b"last", b""]
    assert server.is_over
    server.encrypt([b"still heard"])
    server.end()
    assert client.receive(server.to_send()) == b"still heard"


def test_what_is_no_tls_ends_the_connection(pair: Pair) -> None:
    server, _ = pair
    assert decrypted(server, b"GET / HTTP/1.1\r\n\r\n") == [b""]
    assert server.is_over


def test_a_handshake_that_is_none_fails_with_an_alert(context: ssl.SSLContext) -> None:
    server = Encryption(context)
    server.feed(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(ssl.SSLError):
        server.handshake()


class Below(asyncio.Transport):
    """The connection below TLS: what it was asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.reads, self.closed, self.ended = bytearray(), True, False, False

    def write(self, data: Any) -> None:
        assert not self.ended
        self.written += data

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def write_eof(self) -> None:
        self.ended = True

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


class Above(asyncio.Protocol):
    """The protocol above TLS, which reads only when it is asked to if `pauses`."""

    def __init__(self, *, pauses: bool) -> None:
        self.received = b""
        self._pauses = pauses

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        self._pause()

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._pause()

    def _pause(self) -> None:
        if self._pauses:
            self.transport.pause_reading()


class Connected:
    """A TLS connection without a socket, whose handshake is complete."""

    def __init__(self, context: ssl.SSLContext, certificate: Path, *, pauses: bool) -> None:
        self.below, self.above, self.client = Below(), Above(pauses=pauses), Client(certificate)
        self.share = Share(0.05, TokenBucket(0, 0), time.monotonic(), 1.0)
        self._handshakes = Handshakes(context)
        self.tls = TlsConnection(self._handshakes, Reading(), self.share, "a", lambda: self.above, TIMEOUT_S)

    async def shake(self, *first: bytes) -> None:
        """Complete the handshake; `first` arrives with its last bytes."""
        self.tls.connection_made(self.below)
        self.tls.data_received(self.client.shake())
        await until(lambda: self.below.reads)
        rest = self.client.shake(bytes(self.below.written))
        self.tls.data_received(rest + self.client.say(*first))
        await until(lambda: hasattr(self.above, "transport"))

    def close(self) -> None:
        self.tls.connection_lost(None)
        self._handshakes.close()


Connect = Callable[..., Connected]


@pytest.fixture
async def connect(context: ssl.SSLContext, certificate: tuple[Path, Path]) -> AsyncIterator[Connect]:
    with contextlib.ExitStack() as stack:

        def connect(*, pauses: bool) -> Connected:
            connected = Connected(context, certificate[0], pauses=pauses)
            stack.callback(connected.close)
            return connected

        yield connect


async def test_nothing_is_decrypted_or_received_while_the_protocol_above_does_not_read(connect: Connect) -> None:
    tls = connect(pauses=True)
    await tls.shake(b"a", b"b")
    await settle()
    assert (tls.above.received, tls.below.reads) == (b"", False)
    tls.above.transport.resume_reading()
    assert tls.above.received == b""
    await until(lambda: tls.above.received == b"ab")
    assert not tls.below.reads
    tls.above.transport.resume_reading()
    await until(lambda: tls.below.reads)


async def test_many_records_are_decrypted_in_slices_and_nothing_is_received_until_then(connect: Connect) -> None:
    tls = connect(pauses=True)
    await tls.shake()
    tls.above.transport.resume_reading()
    await until(lambda: tls.below.reads)
    tls.tls.data_received(tls.client.say(*(b"x" for _ in range(20_000))))
    slices = 0
    while len(tls.above.received) < 20_000:
        await settle()
        assert not tls.below.reads
        tls.above.transport.resume_reading()
        slices += 1
    # A record takes more than a microsecond, and a slice ends after half a millisecond.
    assert slices > 5
    await until(lambda: tls.below.reads)


async def test_one_record_is_decrypted_while_the_share_has_a_debt(connect: Connect) -> None:
    tls = connect(pauses=False)
    await tls.shake()
    await until(lambda: tls.below.reads)
    tls.share.left_s = -1e6
    tls.tls.data_received(tls.client.say(b"a", b"b", b"c"))
    await settle()
    assert (tls.above.received, tls.below.reads) == (b"a", False)
    tls.tls.resume_reading()
    await settle()
    assert (tls.above.received, tls.below.reads) == (b"a", False)
    tls.share.left_s = 1.0
    await until(lambda: tls.below.reads)
    assert tls.above.received == b"abc"


async def test_parts_of_a_record_are_paid_for_and_wait_for_a_debt(connect: Connect) -> None:
    tls = connect(pauses=False)
    await tls.shake()
    await until(lambda: tls.below.reads)
    record = tls.client.say(bytes(1000))
    tls.share.left_s = -1e6
    spent_s = tls.share.spent_s
    tls.tls.data_received(record[:500])
    assert tls.share.spent_s - spent_s >= RECEIVED_S
    assert not tls.below.reads


async def test_parts_of_a_handshake_are_paid_for_and_wait_for_a_debt(connect: Connect) -> None:
    tls = connect(pauses=False)
    tls.tls.connection_made(tls.below)
    hello = tls.client.shake()
    for at in range(100):
        tls.tls.data_received(hello[at : at + 1])
        await until(lambda: tls.below.reads)
    assert tls.share.spent_s >= 100 * RECEIVED_S
    tls.share.left_s = -1e6
    tls.tls.data_received(hello[100:101])
    assert not tls.below.reads
    tls.share.left_s = 1.0
    await until(lambda: tls.below.reads)


async def test_an_address_that_leaves_responses_unread_holds_up_no_handshake_of_another(
    context: ssl.SSLContext, certificate: tuple[Path, Path]
) -> None:
    handshakes, accounts = Handshakes(context), Accounts()
    connections = []
    for address in ("192.0.2.1", "192.0.2.2"):
        share, below = accounts.of(address, time.monotonic()), Below()
        tls = TlsConnection(handshakes, Reading(), share, address, partial(Above, pauses=False), TIMEOUT_S)
        tls.connection_made(below)
        connections.append((tls, share, below))
    (unread, its_share, its_below), (other, _, below) = connections
    its_share.unread_bytes = MOST_UNREAD_BYTES + 1
    unread.data_received(Client(certificate[0]).shake())
    other.data_received(Client(certificate[0]).shake())
    await until(lambda: bool(below.written))
    assert not its_below.written
    its_share.unread_bytes = 0
    await until(lambda: bool(its_below.written))
    for tls, _, _ in connections:
        tls.connection_lost(None)
    handshakes.close()


async def test_each_step_of_a_handshake_is_paid_for(connect: Connect) -> None:
    tls = connect(pauses=False)
    tls.tls.connection_made(tls.below)
    # A record for each byte of the first message.
    for byte in tls.client.shake()[5:105]:
        tls.tls.data_received(bytes((22, 3, 1, 0, 1, byte)))
        await until(lambda: tls.below.reads)
    assert tls.share.spent_s >= 100 * STEP_S


@pytest.mark.parametrize("ended", [False, True])
async def test_an_alert_is_sent_unless_the_output_has_ended(connect: Connect, ended: bool) -> None:
    tls = connect(pauses=False)
    await tls.shake()
    if ended:
        tls.tls.write_eof()
    written = len(tls.below.written)
    tls.tls.data_received(b"GET / HTTP/1.1\r\n\r\n")
    await until(lambda: tls.below.closed)
    assert (len(tls.below.written) > written) == (not ended)


async def test_what_waits_to_be_sent_is_counted_encrypted(connect: Connect) -> None:
    tls = connect(pauses=False)
    await tls.shake()
    before = tls.tls.get_write_buffer_size()
    tls.tls.write(bytes(1000))
    assert before + 1000 < tls.tls.get_write_buffer_size() < before + 1100


async def test_a_connection_is_closed_when_the_last_bytes_of_its_client_were_read(connect: Connect) -> None:
    tls = connect(pauses=True)
    await tls.shake()
    tls.tls.data_received(tls.client.say(b"last") + tls.client.end())
    tls.above.transport.resume_reading()
    await until(lambda: tls.above.received == b"last")
    await settle()
    assert not tls.below.closed
    tls.above.transport.resume_reading()
    await until(lambda: tls.below.closed)


async def test_a_connection_that_is_lost_gives_its_protocol_no_more_bytes(connect: Connect) -> None:
    tls = connect(pauses=True)
    await tls.shake(b"a")
    tls.above.transport.resume_reading()
    tls.below.close()
    tls.tls.connection_lost(None)
    await settle()
    assert tls.above.received == b""
