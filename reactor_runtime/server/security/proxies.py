"""The reverse proxies in front of the server, whose headers on the address of a client are trusted."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from reactor_runtime.errors import UsageError

ANY = "*"


class Proxies:
    """Hold the addresses and networks of proxies."""

    def __init__(self, given: Sequence[str] = ()) -> None:
        self._any = ANY in given
        self._networks = [ipaddress.ip_network(each, strict=False) for each in given if each != ANY]

    def __contains__(self, address: object) -> bool:
        if self._any or not self._networks:
            return self._any
        try:
            found = ipaddress.ip_address(str(address).partition("%")[0])
        except ValueError:
            return False
        return any(found in network for network in self._networks)

    def __bool__(self) -> bool:
        return self._any or bool(self._networks)


def parse_proxies(given: str) -> tuple[str, ...]:
    """Return the parts of --forwarded-allow-ips. Raises UsageError for one that is no address and no network."""
    proxies = tuple(part.strip() for part in given.split(",") if part.strip())
    for proxy in proxies:
        try:
            if proxy != ANY:
                ipaddress.ip_network(proxy, strict=False)
        except ValueError:
            raise UsageError(
                f'--forwarded-allow-ips "{proxy}" is neither an address nor a network',
                hint="addresses of proxies, separated by commas: 127.0.0.1,10.0.0.0/8; * trusts all",
            ) from None
    return proxies
