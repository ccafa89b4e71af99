from __future__ import annotations

import pytest

from reactor_cli.addresses import is_loopback, lan_url, local_url


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_hosts(host: str) -> None:
    assert is_loopback(host)
    assert lan_url(host, 8080) is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.5", "example.org"])
def test_hosts_that_others_can_reach(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
        ("10.0.0.7", "http://10.0.0.7:80"),
    ],
)
def test_the_url_for_this_machine(host: str, url: str) -> None:
    assert local_url(host, 80) == url


def test_the_url_for_other_machines() -> None:
    assert lan_url("10.0.0.7", 80) == "http://10.0.0.7:80"
    found = lan_url("0.0.0.0", 80)
    assert found is None or (found.endswith(":80") and "127.0.0.1" not in found and "0.0.0.0" not in found)


def test_a_url_has_the_scheme_of_the_server() -> None:
    assert local_url("0.0.0.0", 80, scheme="https") == "https://127.0.0.1:80"
    assert lan_url("10.0.0.7", 80, scheme="https") == "https://10.0.0.7:80"
