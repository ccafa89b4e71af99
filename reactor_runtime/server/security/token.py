"""The token: generated, found in a request, checked, and kept by a browser as a cookie."""

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
NO_TOKEN = "this server requires a token"
WRONG_TOKEN = "the token is wrong"
_FORM = re.compile(r"[!-~]{8,256}")
# Letters that sound different in most languages; 10 syllables of them have 61 bits.
_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"
_WORDS, _SYLLABLES = 5, 2


class Token:
    """Check requests against one secret, in constant time.

    The cookie holds a digest, which is valid for this server only: browsers send the cookies of a host to each of its
    ports. Its name contains the port, so that two servers on one machine do not overwrite each other's.
    """

    def __init__(self, secret: str, port: int) -> None:
        self._expected = _digest(secret)
        self._cookie = f"reactor_token_{port}"

    def admits(self, request: HTTPConnection) -> bool:
        """Return whether a request carries the token: as a header, in the query or as a cookie."""
        if hmac.compare_digest(request.cookies.get(self._cookie, "").encode(), self._cookie_value.encode()):
            return True
        return any(hmac.compare_digest(_digest(each), self._expected) for each in _given(request))

    def why_refused(self, request: HTTPConnection) -> str:
        """Return whether the token is wrong, or missing."""
        return WRONG_TOKEN if _given(request) else NO_TOKEN

    def cookie(self, request: HTTPConnection) -> str | None:
        """Return the cookie for a page that was opened with the token.

        Neither scripts nor requests caused by other sites can use it.
        """
        if QUERY not in request.query_params:
            return None
        response = Response()
        response.set_cookie(
            self._cookie,
            self._cookie_value,
            path=request.scope.get("root_path") or "/",
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return response.headers["set-cookie"]

    @property
    def _cookie_value(self) -> str:
        return hashlib.sha256(b"reactor cookie " + self._expected).hexdigest()


def parse_token(given: str) -> str:
    """Return a value of --token, generated for `auto`. Raises UsageError for an invalid one."""
    if given == AUTO:
        return _spoken()
    if _FORM.fullmatch(given) is None:
        raise UsageError(
            "a token has 8 to 256 characters of ASCII: letters, digits and signs, no spaces",
            hint="--token auto generates one",
        )
    return given


def _spoken() -> str:
    """Return a token that can be read aloud, such as taru-miko-suve-lona-pidu."""
    syllables = [secrets.choice(_CONSONANTS) + secrets.choice(_VOWELS) for _ in range(_WORDS * _SYLLABLES)]
    return "-".join("".join(syllables[idx : idx + _SYLLABLES]) for idx in range(0, len(syllables), _SYLLABLES))


def _given(request: HTTPConnection) -> list[str]:
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    values = [bearer.strip() if scheme.lower() == "bearer" else "", request.headers.get(HEADER, "")]
    return [value for value in (*values, *request.query_params.getlist(QUERY)) if value]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogateescape")).digest()
