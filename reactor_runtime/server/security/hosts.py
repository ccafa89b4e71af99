"""The host names that the server accepts: a page that uses DNS rebinding sends its own name."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence

from reactor_runtime.errors import UsageError
from reactor_runtime.server.net.listening import is_loopback

ANY = "*"
_HEADER = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(:\d{1,5})?")
_PATTERN = re.compile(r"(\*\.)?([a-z0-9_-]+\.)*[a-z0-9_-]+|\[?[0-9a-f:.]+\]?")


class Hosts:
    """Check the `Host` header; addresses are accepted, since they can't be rebound.

    A server bound to loopback accepts `localhost` and loopback addresses only, others any address and the machine's own
    name. `allowed` adds names, `*.name` for those below it, `*` for all.
    """

    def __init__(self, bound: str, allowed: Sequence[str] = (), *, machine: str | None = None) -> None:
        self._only_loopback = is_loopback(bound)
        own = (socket.gethostname() if machine is None else machine).lower()
        names = [] if self._only_loopback else [own, own.partition(".")[0], f"{own.partition('.')[0]}.local"]
        self._names = {name for name in ("localhost", bound.lower(), *names, *allowed) if name}
        self._endings = (".localhost", *(name[1:] for name in allowed if name.startswith("*.")))

    def allows(self, header: str | None) -> bool:
        """Return whether a request with this header is accepted; one without the header is not from a browser."""
        if header is None or ANY in self._names:
            return True
        name = name_in(header)
        return name in self._names or name.endswith(self._endings) or self._is_own_address(name)

    def _is_own_address(self, name: str) -> bool:
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._only_loopback


def name_in(header: str) -> str:
    """Return the name or address in a `Host` header, "" if the header is malformed."""
    found = _HEADER.fullmatch(header.strip().lower())
    return "" if found is None else found["name"].strip("[]").rstrip(".")


def parse_host(given: str) -> str:
    """Return a value of --allow-host, normalised. Raises UsageError if it is not a host name."""
    name = given.strip().lower().rstrip(".")
    if name != ANY and _PATTERN.fullmatch(name) is None:
        raise UsageError(
            f'--allow-host "{given}" is not a host name',
            hint="a name without scheme and port, as example.org; *.example.org for all below it, * for any",
        )
    return name.strip("[]")
