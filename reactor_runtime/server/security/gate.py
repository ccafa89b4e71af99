"""What admits requests: the one token of a server, or the tickets of a worker."""

from __future__ import annotations

from typing import Protocol

from starlette.requests import HTTPConnection


class RequestGate(Protocol):
    """Admits requests by what they carry."""

    def admits(self, request: HTTPConnection) -> bool:
        """Return whether a request is admitted; called once for each request."""

    def why_refused(self, request: HTTPConnection) -> str:
        """Return the reason for the client of a request that was not admitted."""

    def cookie(self, request: HTTPConnection) -> str | None:
        """Return a Set-Cookie header for the response to an admitted request, if the browser should keep one."""
