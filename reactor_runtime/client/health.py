"""The state of a server, as `GET /health` returns it."""

from __future__ import annotations

import contextlib
import http.client
import json
from http import HTTPStatus
from typing import Any

from reactor_runtime.client.address import Address
from reactor_runtime.client.dial import connect_error, http_connection, not_a_server
from reactor_runtime.client.errors import Refused

TIMEOUT_S = 10.0


def read_health(address: Address) -> dict[str, Any]:
    """Return the state of a server and of its slots. Blocks for at most 10 s without an answer.

    Raises `Refused` if the server requires a token, `ConnectError` if there is no Reactor server.
    """
    with contextlib.closing(http_connection(address, timeout_s=TIMEOUT_S, tls=None)) as connection:
        try:
            connection.request("GET", f"{address.root}/health", headers=address.headers)
            answer = connection.getresponse()
            status, text = answer.status, answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise connect_error(address, error, TIMEOUT_S) from error
    if status == HTTPStatus.MISDIRECTED_REQUEST:
        raise Refused(f"{address} refused: {text.strip()}", status=status)
    try:
        health = json.loads(text)
    except ValueError:
        health = None
    if not isinstance(health, dict) or "status" not in health:
        raise not_a_server(address, f"it answered /health with {status}")
    if "engines" not in health:
        why = "the token is wrong" if address.token else "the server requires a token"
        raise Refused(f"{address} refused: {why}", status=HTTPStatus.UNAUTHORIZED)
    return health
