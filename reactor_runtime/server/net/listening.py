"""The listening socket, which is bound before the model is started, and its errors."""

from __future__ import annotations

import errno
import ipaddress
import socket

from reactor_runtime.errors import BindError, UsageError

# The kernel may lower it. Connections that wait there hold no descriptor.
BACKLOG = 2048


def bind(host: str, port: int) -> socket.socket:
    """Listen on an address. Raises UsageError if it is not an address, BindError if it is not available."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except (socket.gaierror, UnicodeError) as error:
        raise UsageError(
            f'the host "{host}" is not an address',
            hint="--host 127.0.0.1 is for this machine only, --host 0.0.0.0 accepts others",
        ) from error
    except (OSError, OverflowError) as error:
        raise BindError(f"can't listen on {host}: {error}", hint="--host takes an address of this machine") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise _bind_error(host, port, error) from error
    return sock


def is_loopback(host: str) -> bool:
    """Return whether a host is reached only from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_private(host: str) -> bool:
    """Return whether a host shows by its name that it is reached only from this machine or its network."""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local"))


def is_global(address: str) -> bool:
    """Return whether a client's address is one of the internet."""
    try:
        return ipaddress.ip_address(address).is_global
    except ValueError:
        return False


def _bind_error(host: str, port: int, error: OSError) -> BindError:
    if error.errno == errno.EADDRINUSE:
        return BindError(
            f"port {port} on {host} is in use",
            hint=f"stop the program that uses it, or choose another: --port {port + 1}",
        )
    if error.errno == errno.EACCES:
        return BindError(
            f"no permission to listen on port {port}",
            hint="ports below 1024 are reserved for root; choose another: --port 8080",
        )
    return BindError(f"can't listen on {host}:{port}: {error.strerror}", hint="--host takes an address of this machine")
