from __future__ import annotations

from typing import Any

import pytest

from reactor_runtime.errors import UsageError
from reactor_runtime.options.hosting import host_of, in_space, port_of, space_access
from reactor_runtime.server.net.application import Application, Peer
from reactor_runtime.server.net.http_reader import Request
from reactor_runtime.server.net.shares import Accounts
from reactor_runtime.server.options import Access
from reactor_runtime.server.security.hosts import Hosts
from reactor_runtime.server.security.proxies import Proxies
from reactor_runtime.server.telemetry.metrics import LabelledCounter

SPACE = {"SPACE_ID": "me/my-space", "SPACE_HOST": "Me-My-Space.hf.space"}


@pytest.mark.parametrize(
    ("given", "environment", "host"),
    [
        (None, {}, "127.0.0.1"),
        (None, {"HOST": "0.0.0.0"}, "0.0.0.0"),
        (None, {"HOST": "localhost"}, "localhost"),
        (None, {"HOST": "x86_64-conda-linux-gnu"}, "127.0.0.1"),
        (None, SPACE, "0.0.0.0"),
        (None, {**SPACE, "HOST": "::"}, "::"),
        ("10.0.0.1", {**SPACE, "HOST": "::"}, "10.0.0.1"),
    ],
)
def test_the_host_is_that_of_the_option_the_variable_or_the_space(
    given: str | None, environment: dict[str, str], host: str
) -> None:
    assert host_of(given, environment) == host


@pytest.mark.parametrize(
    ("given", "environment", "port"),
    [
        (None, {}, 8080),
        (None, {"PORT": ""}, 8080),
        (None, {"PORT": "9000"}, 9000),
        (None, SPACE, 7860),
        (None, {**SPACE, "PORT": "9000"}, 9000),
        (0, {**SPACE, "PORT": "9000"}, 0),
    ],
)
def test_the_port_is_that_of_the_option_the_variable_or_the_space(
    given: int | None, environment: dict[str, str], port: int
) -> None:
    assert port_of(given, environment) == port


@pytest.mark.parametrize("port", ["http", "-1", "65536", "80.5", "tcp://10.0.0.1:80"])
def test_a_variable_that_is_no_port_is_an_error(port: str) -> None:
    with pytest.raises(UsageError, match="the environment variable PORT"):
        port_of(None, {"PORT": port})


def test_a_space_answers_to_its_names_and_may_be_shown_by_the_hub() -> None:
    assert in_space(SPACE)
    assert not in_space({})
    access = space_access(Access(), SPACE)
    hosts = Hosts("0.0.0.0", access.hosts)
    assert hosts.allows("me-my-space.hf.space")
    assert not hosts.allows("hf.space.example")
    assert access.origins == ("https://huggingface.co",)


def test_in_a_space_a_client_cannot_forge_its_address() -> None:
    forged = (b"x-forwarded-for", b"203.0.113.1, 198.51.100.7, 10.0.0.4")
    proxies = Proxies(space_access(Access(), SPACE).proxies)

    async def app(*_: Any) -> None: ...

    application = Application(app, LabelledCounter(), proxies, Accounts())
    client = application.client_of(Peer("10.16.1.2", 80, secure=False), Request(headers=[forged]))
    assert client.address == "198.51.100.7"


def test_in_a_space_the_option_on_proxies_comes_first() -> None:
    assert space_access(Access(proxies=("10.0.0.0/8",)), SPACE).proxies == ("10.0.0.0/8",)
