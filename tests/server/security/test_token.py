from __future__ import annotations

import re

import pytest
from starlette.requests import HTTPConnection

from reactor_runtime.errors import UsageError
from reactor_runtime.server.security.token import Token, parse_token

SECRET = "correct-horse"


def request(query: str = "", scheme: str = "http", root_path: str = "", **headers: str) -> HTTPConnection:
    raw = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    return HTTPConnection(
        {"type": "http", "scheme": scheme, "path": "/", "root_path": root_path, "query_string": query.encode(),
         "headers": [*raw, (b"host", b"a")]}
    )  # fmt: skip


@pytest.mark.parametrize(
    "carrying",
    [
        request(f"token={SECRET}"),
        request(f"role=viewer&token=wrong&token={SECRET}"),
        request(authorization=f"Bearer {SECRET}"),
        request(authorization=f"bearer  {SECRET} "),
        request(x_reactor_token=SECRET),
        request("token=wrong", x_reactor_token=SECRET),
    ],
    ids=["query", "query twice", "bearer", "bearer with spaces", "header", "one of two"],
)
def test_the_token_is_found_in_header_query_and_cookie(carrying: HTTPConnection) -> None:
    assert Token(SECRET, 8080).admits(carrying)


@pytest.mark.parametrize(
    "carrying",
    [
        request("token=wrong"),
        request(f"token={SECRET[:-1]}"),
        request(f"token={SECRET}%00"),
        request("token=%FF%FE"),
        request(f"TOKEN={SECRET}&token=wrong"),
        request(authorization=f"Basic {SECRET}", x_reactor_token="caf\xe9"),
    ],
)
def test_a_wrong_token_is_not_admitted(carrying: HTTPConnection) -> None:
    assert not Token(SECRET, 8080).admits(carrying)
    assert Token(SECRET, 8080).why_refused(carrying) == "the token is wrong"


@pytest.mark.parametrize("carrying", [request(), request("token="), request(cookie="a=b"), request(authorization="x")])
def test_a_request_without_a_token_has_given_none(carrying: HTTPConnection) -> None:
    assert not Token(SECRET, 8080).admits(carrying)
    assert Token(SECRET, 8080).why_refused(carrying) == "this server requires a token"


def cookie(token: Token, opened: HTTPConnection) -> str:
    header = token.cookie(opened)
    assert header is not None
    return header


def test_the_cookie_does_not_contain_the_token() -> None:
    token = Token(SECRET, 8080)
    pair, *attributes = cookie(token, request("token=x")).split("; ")
    assert SECRET not in pair
    assert {"HttpOnly", "SameSite=strict", "Path=/"} == set(attributes)
    assert token.admits(request(cookie=f"other=1; {pair}"))
    assert not token.admits(request(cookie=pair[:-1]))
    assert not token.admits(request(f"token={pair.partition('=')[2]}"))


def test_the_cookie_of_another_port_or_token_is_not_admitted() -> None:
    pair = cookie(Token(SECRET, 8080), request("token=x")).partition(";")[0]
    assert not Token(SECRET, 8081).admits(request(cookie=pair))
    assert not Token("another-horse", 8080).admits(request(cookie=pair))


def test_the_cookie_is_limited_to_tls_and_the_root_path() -> None:
    attributes = cookie(Token(SECRET, 8080), request("token=x", scheme="https", root_path="/demo")).split("; ")[1:]
    assert {"Secure", "Path=/demo"} <= set(attributes)


def test_a_generated_token_can_be_read_aloud() -> None:
    assert re.fullmatch(r"([bdfgklmnprstvz][aeiou]){2}(-([bdfgklmnprstvz][aeiou]){2}){4}", parse_token("auto"))


def test_auto_generates_a_new_token_each_time() -> None:
    made = {parse_token("auto") for _ in range(10)}
    assert len(made) == 10
    assert all(len(token) >= 22 and parse_token(token) == token for token in made)


@pytest.mark.parametrize("given", ["", "short12", "with a space", "caf\xe9caf\xe9", "x" * 257, "line\nbreak"])
def test_an_invalid_token_is_a_usage_error_that_does_not_repeat_it(given: str) -> None:
    with pytest.raises(UsageError, match="8 to 256 characters") as raised:
        parse_token(given)
    assert not given or given not in str(raised.value)
