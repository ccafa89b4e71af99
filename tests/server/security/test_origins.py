from __future__ import annotations

import pytest

from reactor_runtime.errors import UsageError
from reactor_runtime.server.security.origins import Origins, parse_origin


@pytest.mark.parametrize(
    ("allowed", "origin", "host", "answer"),
    [
        ([], None, "127.0.0.1:8080", True),
        ([], "http://127.0.0.1:8080", "127.0.0.1:8080", True),
        ([], "https://demo.example", "Demo.example", True),
        ([], "http://[::1]:8080", "[::1]:8080", True),
        ([], "http://127.0.0.1:9090", "127.0.0.1:8080", False),
        ([], "http://localhost:8080", "127.0.0.1:8080", False),
        ([], "http://evil.example", "127.0.0.1:8080", False),
        ([], "null", "127.0.0.1:8080", False),
        ([], "", "127.0.0.1:8080", False),
        ([], "", "", False),
        ([], "http://", "", False),
        ([], "http://evil.example", None, False),
        (["https://a.example"], "https://a.example", "127.0.0.1:8080", True),
        (["https://a.example"], "http://a.example", "127.0.0.1:8080", False),
        (["https://a.example"], "https://a.example:444", "127.0.0.1:8080", False),
        (["https://a.example"], "https://b.a.example", "127.0.0.1:8080", False),
        (["https://a.example", "null"], "null", "127.0.0.1:8080", True),
        (["*"], "http://evil.example", "127.0.0.1:8080", True),
    ],
)
def test_origins_are_allowed_or_refused(allowed: list[str], origin: str | None, host: str | None, answer: bool) -> None:
    assert Origins(allowed).allows(origin, host) is answer


@pytest.mark.parametrize("given", ["a.example", "ftp://a.example", "https://", "https://a.example/path", "https://u@a"])
def test_an_invalid_origin_is_a_usage_error(given: str) -> None:
    with pytest.raises(UsageError, match="is not an origin"):
        parse_origin(given)


@pytest.mark.parametrize(("given", "read"), [("HTTPS://A.example/", "https://a.example"), ("*", "*"), ("null", "null")])
def test_an_origin_is_normalised(given: str, read: str) -> None:
    assert parse_origin(given) == read
