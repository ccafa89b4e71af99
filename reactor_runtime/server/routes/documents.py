"""Documents that are made of the contract: the bytes of each are made once, and have an ETag."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from reactor_runtime.server.security.middleware import NO_CACHE, NO_STORE

# A document contains the host by which it was requested, and clients may use any address as one.
MOST = 16


@dataclass(slots=True)
class Documents:
    """Keep the documents of one route, up to 16 of the current contract."""

    media_type: str
    _contract: object = None
    _made: dict[Hashable, tuple[bytes, str]] = field(default_factory=dict)

    def response(self, request: Request, contract: object, key: Hashable, make: Callable[[], str]) -> Response:
        """Return a document, made if there is none with this key, or 304 if the client has it already."""
        if contract is not self._contract:
            self._contract = contract
            self._made.clear()
        key = key, request.state.guarded
        if key not in self._made:
            if len(self._made) >= MOST:
                del self._made[next(iter(self._made))]
            content = make().encode()
            self._made[key] = content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        content, etag = self._made[key]
        headers = {"ETag": etag, **(NO_STORE if request.state.guarded else NO_CACHE)}
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=self.media_type, headers=headers)
