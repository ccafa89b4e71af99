"""The network that counts as one address of clients, for limits and for the log."""

from __future__ import annotations

import ipaddress

# Providers assign each customer a network of this size.
IPV6_NETWORK_BITS = 64


def network_of(address: str) -> str:
    """Return the IPv4 address, also of one written as IPv6, or the IPv6 network."""
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, IPV6_NETWORK_BITS), strict=False))
