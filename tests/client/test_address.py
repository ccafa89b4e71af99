from __future__ import annotations

import pytest

from reactor_runtime.client import AddressError, ClientError
from reactor_runtime.client.address import Address
from reactor_runtime.errors import UsageError


@pytest.mark.parametrize(
    ("url", "socket", "token"),
    [
        ("http://127.0.0.1:8080", "ws://127.0.0.1:8080/ws?role=controller", ""),
        ("http://127.0.0.1:8080/", "ws://127.0.0.1:8080/ws?role=controller", ""),
        ("127.0.0.1:8080", "ws://127.0.0.1:8080/ws?role=controller", ""),
        ("localhost", "ws://localhost/ws?role=controller", ""),
        ("ws://host:1/ws", "ws://host:1/ws?role=controller", ""),
        ("wss://host/models/a/ws", "wss://host/models/a/ws?role=controller", ""),
        ("https://host/models/a/", "wss://host/models/a/ws?role=controller", ""),
        ("https://host/?token=a%26b&role=viewer#x", "wss://host/ws?role=viewer", "a&b"),
        ("http://h?role=viewer&session=s-1", "ws://h/ws?role=viewer&session=s-1", ""),
        ("http://h?watch=1", "ws://h/ws?role=controller&watch=1", ""),
        ("http://[::1]:8080", "ws://[::1]:8080/ws?role=controller", ""),
    ],
)
def test_page_socket_and_host_addresses_give_the_socket_url(url: str, socket: str, token: str) -> None:
    address = Address.parse(url)
    assert (address.socket(), address.token) == (socket, token)


def test_arguments_win_over_the_query() -> None:
    address = Address.parse("http://h?token=a&role=viewer&session=s", token="b", role="controller", session="")
    assert (address.role, address.token) == ("controller", "b")
    assert Address.parse("http://h?session=a", session="b", watch=True).socket().endswith("&session=b&watch=1")
    assert address.socket(resume="s e") == "ws://h/ws?role=controller&resume=s+e"


def test_the_token_is_only_in_the_headers() -> None:
    address = Address.parse("http://h?token=secret")
    assert address.headers == {"Authorization": "Bearer secret"}
    assert "secret" not in f"{address} {address!r} {address.socket()}"


@pytest.mark.parametrize(
    "url", ["", "ftp://h", "http://", "http://h:99999", "http://h:0", "http://user@h", "http://[", "http://h?role=king"]
)
def test_a_malformed_address_is_an_error(url: str) -> None:
    with pytest.raises(UsageError):
        Address.parse(url)


def test_an_address_error_is_a_client_error_and_a_usage_error() -> None:
    assert issubclass(AddressError, ClientError)
    assert issubclass(AddressError, UsageError)
    assert AddressError.exit_code == UsageError.exit_code
