from __future__ import annotations

import pytest

from reactor_runtime.cluster.tickets import (
    LEEWAY_S,
    RELEASED_S,
    TICKET_S,
    IssuedTicket,
    TicketGate,
    TicketIssuer,
    TicketRefused,
)

NOW = 1_000_000.0
SECRET, OTHER = "a" * 64, "b" * 64


def ticket(*, secret: str = SECRET, cluster: str = "one", worker: str = "w-1", now: float = NOW) -> str:
    return TicketIssuer(secret, cluster, "f-1").issue(worker, role="viewer", session="s-1", client="c-1", now=now).text


def controllers_ticket() -> IssuedTicket:
    return TicketIssuer(SECRET, "one", "f-1").issue("w-1", role="controller", session="", client="c-1", now=NOW)


def test_a_ticket_carries_role_session_and_client() -> None:
    admitted = TicketGate(SECRET, "one", "w-1").admit(ticket(), NOW)
    assert (admitted.role, admitted.session, admitted.client) == ("viewer", "s-1", "c-1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (ticket(worker="w-2"), "for another worker"),
        (ticket(cluster="two"), "for another cluster"),
        (ticket(secret=OTHER), "not signed by this cluster"),
        (ticket(now=NOW - TICKET_S - LEEWAY_S - 1), "has expired: it is valid for 10 s, and 16 s old"),
        ("", "not a ticket"),
        ("a.b.c", "not a ticket"),
        ("é" * 5000, "not a ticket"),
        (ticket()[:-2], "not"),
        # A token without a signature.
        ("eyJhbGciOiJub25lIn0.eyJqdGkiOiIxIiwiaXNzIjoib25lIiwiYXVkIjoidy0xIiwiZXhwIjo5OTk5OTk5OTk5fQ.", "not"),
    ],
)
def test_a_ticket_that_is_not_valid_here_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(TicketRefused, match=reason):
        TicketGate(SECRET, "one", "w-1").admit(text, NOW)


def test_a_ticket_is_valid_once_until_it_expires() -> None:
    gate, text = TicketGate(SECRET, "one", "w-1"), ticket()
    gate.admit(text, NOW)
    for later in (0, TICKET_S, TICKET_S + LEEWAY_S):
        with pytest.raises(TicketRefused, match="has been used or released"):
            gate.admit(text, NOW + later)
    with pytest.raises(TicketRefused, match="expired"):
        gate.admit(text, NOW + TICKET_S + LEEWAY_S + 1)


def test_tickets_of_a_front_are_not_valid_when_another_one_has_the_worker() -> None:
    gate = TicketGate(SECRET, "one", "w-1")
    gate.front = "f-2"
    with pytest.raises(TicketRefused, match="another one has replaced"):
        gate.admit(ticket(), NOW)
    gate.front = "f-1"
    gate.admit(ticket(), NOW)


def test_a_released_ticket_is_not_valid_whenever_it_comes() -> None:
    gate, issued = TicketGate(SECRET, "one", "w-1"), controllers_ticket()
    gate.release(issued.id, NOW)
    gate.release(issued.id, NOW)
    assert (gate.released(NOW), gate.released(NOW + RELEASED_S)) == ((issued.id,), ())
    for clock_behind_s in (0.0, LEEWAY_S):
        for age_s in (0.0, TICKET_S, TICKET_S + LEEWAY_S):
            with pytest.raises(TicketRefused, match="has been used or released"):
                gate.admit(issued.text, NOW - clock_behind_s + age_s)


def test_a_lost_client_shows_a_secret_that_neither_the_ticket_nor_another_cluster_has() -> None:
    issuer, issued = TicketIssuer(SECRET, "one", "f-1"), controllers_ticket()
    assert issuer.read_return(issued.returns) == issued.id
    # A front that was started again has the same secret.
    assert TicketIssuer(SECRET, "one", "f-2").read_return(issued.returns) == issued.id
    for issuer in (TicketIssuer(OTHER, "one", "f-1"), TicketIssuer(SECRET, "two", "f-1")):
        assert issuer.read_return(issued.returns) == ""


@pytest.mark.parametrize("forge", ["{id}", "{id}.", "{id}.0", "{text}", "é", "", ".", "{returns}0", "x{returns}"])
def test_a_forged_secret_is_of_no_ticket(forge: str) -> None:
    issued = controllers_ticket()
    secret = forge.format(id=issued.id, text=issued.text, returns=issued.returns)
    assert TicketIssuer(SECRET, "one", "f-1").read_return(secret) == ""
