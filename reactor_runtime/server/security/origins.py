"""The pages that may use the server: its own, and those that the operator allows."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from reactor_runtime.errors import UsageError

ANY = "*"


class Origins:
    """Check the `Origin` header, which browsers send and pages can't change; `*` in `allowed` allows all."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self.allowed = tuple(allowed)

    def allows(self, origin: str | None, host: str | None) -> bool:
        """Return whether a page of this origin may use `host`; a request without an origin, not from a browser, may.

        Behind a proxy the schemes may differ, so only names and ports are compared.
        """
        if origin is None or ANY in self.allowed:
            return True
        origin = origin.strip().lower()
        return origin in self.allowed or (host is not None and origin.partition("://")[2] == host.strip().lower() != "")


def parse_origin(given: str) -> str:
    """Return a value of --allow-origin, normalised. Raises UsageError if it is not an origin."""
    origin = given.strip().lower().removesuffix("/")
    parts = urlsplit(origin)
    plain = not (parts.path or parts.query or parts.fragment or "@" in parts.netloc)
    if origin in (ANY, "null") or (parts.scheme in ("http", "https") and parts.hostname and plain):
        return origin
    raise UsageError(
        f'--allow-origin "{given}" is not an origin',
        hint="the scheme and host of the page, and its port if it has one: https://example.org; * for any",
    )
