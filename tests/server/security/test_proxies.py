from __future__ import annotations

import pytest

from reactor_runtime.errors import UsageError
from reactor_runtime.server.security.proxies import Proxies, parse_proxies


@pytest.mark.parametrize(
    ("given", "address", "answer"),
    [
        ("", "127.0.0.1", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("10.0.0.0/8, ::1", "10.9.8.7", True),
        ("10.0.0.0/8, ::1", "::1", True),
        ("10.0.0.0/8", "a socket", False),
        ("*", "192.0.2.1", True),
    ],
)
def test_addresses_are_matched_with_proxies(given: str, address: str, answer: bool) -> None:
    proxies = Proxies(parse_proxies(given))
    assert (address in proxies) is answer
    assert bool(proxies) is bool(given)


@pytest.mark.parametrize("given", ["nginx", "10.0.0.0/33", "10.0.0.1;10.0.0.2"])
def test_an_invalid_proxy_is_a_usage_error(given: str) -> None:
    with pytest.raises(UsageError, match="neither an address nor a network"):
        parse_proxies(given)
