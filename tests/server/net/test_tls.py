"""TLS from bytes to bytes, against the client of Python's own library."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path

import pytest

from reactor_runtime.server.net.tls import Encryption
from tests.server.security.test_certificate import make_certificate


class Client:
    """The other end, in memory."""

    def __init__(self, certificate: Path) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=str(certificate))
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

    def say(self, data: bytes) -> bytes:
        self.tls.write(data)
        return self._outgoing.read()

    def end(self) -> bytes:
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.unwrap()
        return self._outgoing.read()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def pair(certificate: tuple[Path, Path]) -> tuple[Encryption, Client]:
    """Return both ends after a handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server, client = Encryption(context), Client(certificate[0])
    assert not server.handshake(client.shake())
    assert server.handshake(client.shake(server.to_send()))
    client.receive(server.to_send())
    return server, client


def test_bytes_go_both_ways_however_large(pair: tuple[Encryption, Client]) -> None:
    server, client = pair
    assert server.decrypt(client.say(b"hello")) == (b"hello", False)
    server.encrypt([b"head", bytes(200_000), b""])
    assert client.receive(server.to_send()) == b"head" + bytes(200_000)


def test_a_record_may_come_in_two_parts(pair: tuple[Encryption, Client]) -> None:
    server, client = pair
    said = client.say(b"hello")
    assert server.decrypt(said[:9]) == (b"", False)
    assert server.decrypt(said[9:]) == (b"hello", False)


def test_a_goodbye_ends_what_the_client_sends(pair: tuple[Encryption, Client]) -> None:
    server, client = pair
    assert server.decrypt(client.say(b"last") + client.end()) == (b"last", True)
    server.encrypt([b"still heard"])
    server.end()
    assert client.receive(server.to_send()) == b"still heard"


def test_what_is_no_tls_ends_the_connection(pair: tuple[Encryption, Client]) -> None:
    server, _ = pair
    assert server.decrypt(b"GET / HTTP/1.1\r\n\r\n") == (b"", True)


def test_a_handshake_that_is_none_fails_with_an_alert(certificate: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server = Encryption(context)
    with pytest.raises(ssl.SSLError):
        server.handshake(b"GET / HTTP/1.1\r\n\r\n")
