"""Which URLs lead to a listening server, from this machine and from others."""

from __future__ import annotations

import ipaddress
import socket

# Addresses set aside for documentation: a route to them exists where there is a network, and nobody answers.
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


def is_loopback(host: str) -> bool:
    """Tell whether only programs on this machine reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def local_url(host: str, port: int, *, scheme: str = "http") -> str:
    """Write the URL for a browser on this machine; a wildcard host is reached through loopback."""
    return _url({"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host), port, scheme)


def lan_url(host: str, port: int, *, scheme: str = "http") -> str | None:
    """Write the URL for other machines, None where there is no network to be reached from."""
    if host not in ("0.0.0.0", "::", ""):
        return None if is_loopback(host) else _url(host, port, scheme)
    address = _lan_address()
    return _url(address, port, scheme) if address else None


def _url(host: str, port: int, scheme: str) -> str:
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _lan_address() -> str | None:
    """Ask the system which of our addresses it would send from. Connecting a UDP socket sends nothing."""
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
