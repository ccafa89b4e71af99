"""Responses whose bytes are made once, with an ETag: documents made of the contract, and the files of the page."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from reactor_runtime.server.security.middleware import NO_CACHE, NO_STORE

# A document contains the host name of its request, and clients may use any address as one.
MOST = 16


@dataclass(frozen=True, slots=True)
class Document:
    """Hold the body of a response, its media type and its ETag."""

    content: bytes
    media_type: str
    etag: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "etag", f'"{hashlib.sha256(self.content).hexdigest()[:32]}"')

    def response(self, request: Request, headers: Mapping[str, str] = NO_CACHE) -> Response:
        """Return the document, or 304 to a client that has it already."""
        headers = {**headers, "ETag": self.etag}
        if self.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(self.content, media_type=self.media_type, headers=headers)


@dataclass(slots=True)
class Documents:
    """Keep the documents of one route, up to 16 of the current contract."""

    media_type: str
    _contract: object = None
    _made: dict[Hashable, Document] = field(default_factory=dict)

    def response(self, request: Request, contract: object, key: Hashable, make: Callable[[], str]) -> Response:
        """Return the document with a key, made if there is none. With a token no cache but the server's keeps it."""
        guarded = request.state.guarded
        if contract is not self._contract:
            self._contract = contract
            self._made.clear()
        document = self._made.get((key, guarded))
        if document is None:
            if len(self._made) >= MOST:
                del self._made[next(iter(self._made))]
            document = self._made[key, guarded] = Document(make().encode(), self.media_type)
        return document.response(request, NO_STORE if guarded else NO_CACHE)
