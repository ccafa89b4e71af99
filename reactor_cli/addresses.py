"""The URLs of a listening server, for this machine and for others."""

from __future__ import annotations

import ipaddress
import socket

# Addresses reserved for documentation: with a network there is a route to them, and no host answers.
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def local_url(host: str, port: int, *, scheme: str = "http") -> str:
    """Return the URL for a browser on this machine; a wildcard host becomes loopback."""
    return _url({"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host), port, scheme)


def lan_url(host: str, port: int, *, scheme: str = "http") -> str | None:
    """Return the URL for other machines, None without a network."""
    if host not in ("0.0.0.0", "::", ""):
        return None if is_loopback(host) else _url(host, port, scheme)
    address = _lan_address()
    return _url(address, port, scheme) if address else None


def _url(host: str, port: int, scheme: str) -> str:
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _lan_address() -> str | None:
    """Return the address from which the system would send. Connecting a UDP socket sends nothing."""
    for family, elsewhere in _ELSEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((elsewhere, 9))
                address = str(probe.getsockname()[0])
        except OSError:
            continue
        if not is_loopback(address):
            return address
    return None
