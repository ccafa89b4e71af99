from __future__ import annotations

import re
import time

import pytest
from starlette.requests import HTTPConnection

from reactor_runtime.cluster.tickets import TicketGate, TicketIssuer
from reactor_runtime.cluster.worker_process.worker_gate import WorkerGate

SECRET = "5" * 64


@pytest.mark.parametrize(("age_s", "admitted"), [(5.0, True), (60.0, False)])
def test_the_age_of_a_ticket_that_has_expired_is_logged(
    caplog: pytest.LogCaptureFixture, age_s: float, admitted: bool
) -> None:
    issuer = TicketIssuer(SECRET, "one", "f-1")
    ticket = issuer.issue("w-1", role="controller", session="", client="c-1", now=time.time() - age_s)
    gate = WorkerGate(
        TicketGate(SECRET, "one", "w-1"), SECRET, is_resumed_by=lambda _: False, is_running=lambda _: False
    )
    query = f"ticket={ticket.text}".encode()
    request = HTTPConnection({"type": "websocket", "path": "/ws", "query_string": query, "headers": [], "state": {}})
    assert gate.admits(request) is admitted
    logged = [record.getMessage() for record in caplog.records]
    assert len(logged) == (not admitted)
    for line in logged:
        assert re.search(r"valid for 10 s, and 6\d s old; if the front has sent it just now, the clock of", line)
