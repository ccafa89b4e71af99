"""The route of a client: which server is next, with which query, and what a worker may not learn."""

from __future__ import annotations

import pytest

from reactor_runtime.client import AddressError
from reactor_runtime.client.address import Address
from reactor_runtime.client.messages import Redirect
from reactor_runtime.client.route import Route

REDIRECT = Redirect("http://worker:9/a/", "t-1", returning="t-1.secret")
WITHOUT_SECRET = ["reactor.v1"]
WITH_SECRET = ["reactor.v1", "reactor.return.t-1.secret"]


def next_socket(route: Route, resume: str | None = None) -> str:
    return route.address.socket(**route.query(resume))


def test_a_redirected_client_goes_to_the_worker_and_after_a_loss_back_to_the_front() -> None:
    route = Route(Address.parse("http://front?token=secret&watch=1"))
    assert next_socket(route) == "ws://front/ws?role=controller&watch=1&redirect=1"
    route.follow(REDIRECT)
    assert next_socket(route) == "ws://worker:9/a/ws?role=controller&ticket=t-1"
    assert (route.address.headers, route.accepts_redirect) == ({}, False)
    assert route.subprotocols == WITHOUT_SECRET
    route.on_welcome()
    assert next_socket(route, "kept") == "ws://worker:9/a/ws?role=controller&resume=kept"
    route.leave(returns=True)
    assert next_socket(route) == "ws://front/ws?role=controller&watch=1&redirect=1"
    assert route.subprotocols == WITH_SECRET
    assert route.address.headers
    route.on_welcome()
    assert route.subprotocols == WITHOUT_SECRET


def test_a_session_that_ended_returns_no_secret() -> None:
    route = Route(Address.parse("http://front"))
    route.follow(REDIRECT)
    route.on_welcome()
    route.leave(returns=False)
    assert next_socket(route) == "ws://front/ws?role=controller&redirect=1"
    assert route.subprotocols == WITHOUT_SECRET


def test_a_worker_that_does_not_admit_the_client_ends_redirects() -> None:
    route = Route(Address.parse("http://front"))
    route.follow(REDIRECT)
    assert "--relay" in route.give_up("http://worker:9 can't be reached")
    assert next_socket(route) == "ws://front/ws?role=controller"
    assert route.subprotocols == WITH_SECRET
    assert not route.accepts_redirect


@pytest.mark.parametrize("url", ["ftp://w", "ws://w", "worker:9", "file:///etc/passwd", "http://me@w", "", "http://["])
def test_a_redirect_to_another_kind_of_address_is_not_followed(url: str) -> None:
    route = Route(Address.parse("http://front"))
    with pytest.raises(AddressError):
        route.follow(Redirect(url, "t-1"))
    assert not route.at_worker


def test_a_redirect_from_https_to_http_is_not_followed() -> None:
    route = Route(Address.parse("https://front"))
    with pytest.raises(AddressError, match="http://worker:9/a/ is not the address of a worker of https://front"):
        route.follow(REDIRECT)
    route.follow(Redirect("https://worker", "t-2", "s-1"))
    assert next_socket(route) == "wss://worker/ws?role=controller&session=s-1&ticket=t-2"
