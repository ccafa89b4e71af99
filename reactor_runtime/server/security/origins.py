"""The pages that may talk to this server: those it serves itself, and those the operator names."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from reactor_runtime.errors import UsageError

ANY = "*"


class Origins:
    """Decide by the `Origin` header, which browsers send and pages can't change; `allowed` may hold `*`."""

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self.allowed = tuple(allowed)

    def allows(self, origin: str | None, host: str | None) -> bool:
        """Tell whether a page of this origin may talk to `host`; what is no browser has no origin, and may.

        Behind a proxy the scheme may be another than ours, so names and ports are compared as they were sent.
        """
        if origin is None or ANY in self.allowed:
            return True
        origin = origin.strip().lower()
        return origin in self.allowed or (host is not None and origin.partition("://")[2] == host.strip().lower() != "")


def parse_origin(given: str) -> str:
    """Read a value of --allow-origin; raises UsageError for what is no origin."""
    origin = given.strip().lower().removesuffix("/")
    parts = urlsplit(origin)
    plain = not (parts.path or parts.query or parts.fragment or "@" in parts.netloc)
    if origin in (ANY, "null") or (parts.scheme in ("http", "https") and parts.hostname and plain):
        return origin
    raise UsageError(
        f'--allow-origin "{given}" is not an origin',
        hint="scheme and host of the page, and its port if it has one, as https://example.org; * for any",
    )
