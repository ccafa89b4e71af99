"""Floods of requests: what an attacker sends to a route, and a process that sends it.

`python -m benchmarks.hostile.floods PORT ROUTE WAY SECONDS plain|tls ADDRESS …` sends, and prints how many requests or
handshakes it has sent a second.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

CONNECTIONS = 20
PIPELINED = 200
CHUNKS = 5000
HEADERS = 120
REFUSED_S = 0.02
PATIENCE_S = 5.0
# The attacker must not take the cores of the servers that are compared.
NICE = 5
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Route:
    """A request of an attacker, of the method and path; one with a body ends with it."""

    method: str
    path: str
    headers: tuple[str, ...] = ()
    body: str = ""
    host: str = "127.0.0.1"

    def request(self, *more: str) -> bytes:
        """Return the request, with more headers."""
        length = (f"Content-Length: {len(self.body)}",) if self.body else ()
        lines = (
            f"{self.method} {self.path} HTTP/1.1",
            f"Host: {self.host}",
            *self.headers,
            *length,
            *more,
            "",
            self.body,
        )
        return "\r\n".join(lines).encode()


ROUTES = {
    "live": Route("GET", "/live"),
    "ready": Route("GET", "/ready"),
    "health": Route("GET", "/health"),
    "metrics": Route("GET", "/metrics"),
    "schema": Route("GET", "/schema"),
    "docs": Route("GET", "/docs"),
    "page": Route("GET", "/"),
    "client": Route("GET", "/reactor.js"),
    "socket": Route("GET", "/ws"),
    "snapshot": Route("GET", "/snapshot/main_video.jpg"),
    "upload": Route("POST", "/uploads", ("X-Upload-Key: wrong",), "x"),
    "missing": Route("GET", "/missing"),
    "method": Route("POST", "/live", (), "x"),
    "host": Route("GET", "/", host="example.org"),
}
Send = Callable[["Connection"], None]


class Connection:
    """A blocking connection from one address until a time; `sent` counts requests."""

    def __init__(self, port: int, address: str, tls: ssl.SSLContext | None, until: float) -> None:
        self.sent = 0
        self._until = until
        self._received = b""
        raw = socket.create_connection(("127.0.0.1", port), PATIENCE_S, (address, 0))
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = raw if tls is None else tls.wrap_socket(raw, server_hostname="127.0.0.1")

    def send(self, data: bytes, requests: int = 1) -> None:
        self.socket.sendall(data)
        self.sent += requests

    def skip_received(self) -> None:
        """Read what has arrived; raise ConnectionError when the server has closed."""
        self.socket.settimeout(0)
        try:
            while data := self.socket.recv(1 << 16):
                del data
            raise ConnectionError
        except (BlockingIOError, ssl.SSLWantReadError):
            self.socket.settimeout(PATIENCE_S)

    def skip_response(self) -> None:
        """Read one response, of any length; raise ConnectionError when the server closes."""
        while (end := self._received.find(b"\r\n\r\n")) < 0:
            self._receive()
        length = _LENGTH.search(self._received, 0, end)
        whole = end + 4 + (int(length[1]) if length else 0)
        while len(self._received) < whole:
            self._receive()
        self._received = self._received[whole:]

    def _receive(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data or time.monotonic() > self._until:
            raise ConnectionError
        self._received += data


def _chunks(route: Route) -> Send:
    head = Route("POST", route.path, route.headers, host=route.host).request("Transfer-Encoding: chunked")
    data = head + b"1\r\nx\r\n" * CHUNKS + b"0\r\n\r\n"

    def send(connection: Connection) -> None:
        connection.send(data)
        connection.skip_received()

    return send


def _kept_alive(route: Route, *headers: str) -> Send:
    request = route.request(*headers)

    def send(connection: Connection) -> None:
        connection.send(request)
        connection.skip_response()

    return send


def _headers(route: Route) -> Send:
    return _kept_alive(route, *(f"X-Header-{number}: {number:040}" for number in range(HEADERS)))


def _pipelines(route: Route) -> Send:
    requests = route.request() * PIPELINED

    def send(connection: Connection) -> None:
        connection.send(requests, PIPELINED)
        for _ in range(PIPELINED):
            connection.skip_response()

    return send


def _records(route: Route) -> Send:
    """Send pipelined requests, over TLS with a record for each byte."""
    requests = route.request() * PIPELINED

    def send(connection: Connection) -> None:
        # Many records arrive at once.
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        for at in range(len(requests)):
            connection.socket.sendall(requests[at : at + 1])
        connection.sent += PIPELINED
        connection.skip_received()

    return send


def _connections(route: Route) -> Send:
    request = route.request("Connection: close")

    def send(connection: Connection) -> None:
        connection.send(request)
        connection.skip_response()
        raise ConnectionError

    return send


def _handshakes(_: Route) -> Send:
    def send(connection: Connection) -> None:
        connection.sent += 1
        raise ConnectionError

    return send


WAYS: dict[str, Callable[[Route], Send]] = {
    "chunks": _chunks,
    "headers": _headers,
    "pipelines": _pipelines,
    "keep-alive": _kept_alive,
    "connections": _connections,
    "handshakes": _handshakes,
    "records": _records,
}
# These are something else without TLS.
OF_TLS = ("handshakes", "records")


class Flood:
    """Send to a server on 20 connections from each address until a time, each on a thread."""

    def __init__(self, port: int, send: Send, until: float, tls: ssl.SSLContext | None) -> None:
        self._port = port
        self._send = send
        self._until = until
        self._tls = tls
        self._sent: list[int] = []

    def run(self, addresses: list[str]) -> int:
        """Return how many requests were sent."""
        threads = [
            threading.Thread(target=self._flood, args=(address,)) for address in addresses for _ in range(CONNECTIONS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(self._sent)

    def _flood(self, address: str) -> None:
        while time.monotonic() < self._until:
            try:
                connection = Connection(self._port, address, self._tls, self._until)
            except OSError:
                time.sleep(REFUSED_S)
                continue
            with contextlib.suppress(OSError), connection.socket:
                while time.monotonic() < self._until:
                    self._send(connection)
            self._sent.append(connection.sent)


def main() -> int:
    port, route, way, seconds, tls, *addresses = sys.argv[1:]
    os.nice(NICE)
    context = None
    if tls == "tls":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    until = time.monotonic() + float(seconds)
    sent = Flood(int(port), WAYS[way](ROUTES[route]), until, context).run(addresses)
    sys.stdout.write(f"{sent / float(seconds):.0f}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
