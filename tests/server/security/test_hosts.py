from __future__ import annotations

import pytest

from reactor_runtime.errors import UsageError
from reactor_runtime.server.security.hosts import Hosts, name_in, parse_host

LOOPBACK = ["localhost", "localhost:8080", "LOCALHOST.", "127.0.0.1:80", "127.1.2.3", "[::1]:8080", "my.localhost:1"]
ADDRESSES = ["10.0.0.7:8080", "[2001:db8::7]:80", "192.0.2.4"]
FOREIGN = ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "a b", "", ":80",
           "[evil]:80", "evillocalhost", "2130706433", "0x7f.1", "localhost:80@evil.example"]  # fmt: skip


@pytest.mark.parametrize("header", LOOPBACK)
@pytest.mark.parametrize("bound", ["127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "10.0.0.7"])
def test_loopback_names_are_accepted(bound: str, header: str) -> None:
    assert Hosts(bound, machine="box").allows(header)


@pytest.mark.parametrize("header", FOREIGN)
@pytest.mark.parametrize("bound", ["127.0.0.1", "0.0.0.0"])
def test_other_names_are_refused(bound: str, header: str) -> None:
    assert not Hosts(bound, machine="box").allows(header)


@pytest.mark.parametrize("header", [*ADDRESSES, "box:8080", "box.local", "box.lan.example"])
def test_addresses_and_the_machine_s_name_are_accepted_unless_bound_to_loopback(header: str) -> None:
    assert Hosts("0.0.0.0", machine="box.lan.example").allows(header)
    assert not Hosts("127.0.0.1", machine="box.lan.example").allows(header)


def test_the_name_that_the_server_is_bound_to_is_accepted() -> None:
    assert Hosts("reactor.example", machine="box").allows("Reactor.Example:80")


@pytest.mark.parametrize(
    ("allowed", "header", "answer"),
    [
        ("demo.example", "demo.example:443", True),
        ("demo.example", "a.demo.example", False),
        ("*.demo.example", "a.b.demo.example", True),
        ("*.demo.example", "demo.example", False),
        ("*.demo.example", "evildemo.example", False),
        ("10.0.0.7", "10.0.0.7:80", True),
        ("*", "whatever", True),
    ],
)
def test_allowed_names_are_accepted(allowed: str, header: str, answer: bool) -> None:
    assert Hosts("127.0.0.1", [parse_host(allowed)], machine="box").allows(header) is answer


def test_a_request_without_the_header_is_accepted() -> None:
    assert Hosts("127.0.0.1", machine="box").allows(None)


@pytest.mark.parametrize(
    ("header", "name"), [("A.b:80", "a.b"), ("[::1]", "::1"), ("[::1]:80", "::1"), ("a;b", ""), ("a.", "a")]
)
def test_the_name_is_parsed_from_the_header(header: str, name: str) -> None:
    assert name_in(header) == name


@pytest.mark.parametrize("given", ["http://a.example", "a.example:80", "a/b", "", "a.*.b", "**", "a b"])
def test_an_invalid_host_name_is_a_usage_error(given: str) -> None:
    with pytest.raises(UsageError, match="is not a host name"):
        parse_host(given)


@pytest.mark.parametrize(("given", "read"), [("Demo.Example.", "demo.example"), ("[::1]", "::1"), ("*", "*")])
def test_a_host_name_is_normalised(given: str, read: str) -> None:
    assert parse_host(given) == read
