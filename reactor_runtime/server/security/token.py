"""The token: made up, checked, found in a request, and kept by a browser as a cookie."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from starlette.requests import HTTPConnection
from starlette.responses import Response

from reactor_runtime.errors import UsageError

AUTO = "auto"
HEADER = "x-reactor-token"
QUERY = "token"
_FORM = re.compile(r"[!-~]{8,256}")


class Token:
    """Check requests against one secret, in a time that says nothing of it.

    The cookie holds a digest, which stands for the token here and nowhere else: cookies of a host are sent to every
    port of it. Its name has our port in it, so that two servers on one machine do not overwrite each other's.
    """

    def __init__(self, secret: str, port: int) -> None:
        self._expected = _digest(secret)
        self._cookie = f"reactor_token_{port}"

    def admits(self, request: HTTPConnection) -> bool:
        """Tell whether a request carries the token: as header, in the query or as cookie."""
        if hmac.compare_digest(request.cookies.get(self._cookie, "").encode(), self._cookie_value.encode()):
            return True
        return any(hmac.compare_digest(_digest(each), self._expected) for each in _given(request))

    def remember(self, response: Response, request: HTTPConnection) -> None:
        """Have the browser keep the token, out of reach of scripts and of requests that other sites cause."""
        response.set_cookie(
            self._cookie,
            self._cookie_value,
            path=request.scope.get("root_path") or "/",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )

    @property
    def _cookie_value(self) -> str:
        return hashlib.sha256(b"reactor cookie " + self._expected).hexdigest()


def was_given(request: HTTPConnection) -> bool:
    """Tell whether a request carries any token, right or wrong."""
    return bool(_given(request))


def parse_token(given: str) -> str:
    """Read a value of --token, of which `auto` makes one up; raises UsageError for what can't be one."""
    if given == AUTO:
        return secrets.token_urlsafe(16)
    if _FORM.fullmatch(given) is None:
        raise UsageError(
            "the token has to have 8 to 256 characters: letters, digits and signs of ASCII, no space",
            hint="--token auto makes one up",
        )
    return given


def _given(request: HTTPConnection) -> list[str]:
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    values = [bearer.strip() if scheme.lower() == "bearer" else "", request.headers.get(HEADER, "")]
    return [value for value in (*values, *request.query_params.getlist(QUERY)) if value]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogateescape")).digest()
