"""Report a server of Reactor to Agones: Ready, Allocated during a session, Ready after it, Shutdown after the server.

Runs beside a server with one session, in another container of its pod: `python3 follow.py http://127.0.0.1:8080`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

PERIOD_S = 1.0
TIMEOUT_S = 3.0
GONE, SILENT = "gone", "silent"
# The requests to Agones for each status of the server; other statuses keep the state.
STATES = {"ready": "ready", "busy": "allocate"}
# Agones replaces a game server that sends no health pings.
UNHEALTHY = {"failed", SILENT}


def follow(server: str, agones: str, period_s: float = PERIOD_S) -> None:
    """Report the server's status until it has ended; it may start later than this program."""
    state = ""
    while (status := status_of(server)) != GONE or not state:
        wanted = STATES.get(status, state)
        if wanted != state and post(f"{agones}/{wanted}"):
            state = wanted
        if status not in UNHEALTHY:
            post(f"{agones}/health")
        time.sleep(period_s)
    while not post(f"{agones}/shutdown"):
        time.sleep(period_s)


def status_of(server: str) -> str:
    """Return the status that /health reports; `gone` if nothing listens, `silent` if no answer comes in time."""
    try:
        try:
            answer = urlopen(f"{server}/health", timeout=TIMEOUT_S)
        except HTTPError as error:
            answer = error
        with answer:
            return str(json.load(answer)["status"])
    except URLError as error:
        return GONE if isinstance(error.reason, ConnectionRefusedError) else SILENT
    except (OSError, ValueError):
        return SILENT


def post(url: str) -> bool:
    """Send an empty request to the sidecar; return whether it was accepted."""
    request = Request(url, data=b"{}", headers={"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=TIMEOUT_S):
            return True
    except OSError:
        return False


if __name__ == "__main__":
    follow(sys.argv[1], f"http://127.0.0.1:{os.environ.get('AGONES_SDK_HTTP_PORT', '9358')}")
