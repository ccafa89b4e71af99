"""`reactor status`: the state of a server, of its workers and their sessions."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reactor_cli import console
from reactor_cli.common_options import LOCAL_URL, TOKEN_HINT, UNAUTHORIZED, ServerUrl, Token, Verbose, server_token

if TYPE_CHECKING:
    from rich.console import RenderableType

    from reactor_runtime.client.address import Address

WATCH_S = 1.0
EPILOG = """
\b
Examples:
  reactor status                                       the server on this machine
  reactor status https://host/ --token TOKEN --watch
  reactor status --json | jq '.engines[].fps'

\b
Exit codes: 0 the server has answered, in whatever state it is, also by Ctrl-C;
2 an error in the command; 3 no server at the address, or it requires a token.
"""


def status(
    context: typer.Context,
    url: ServerUrl = LOCAL_URL,
    token: Token = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the state as JSON, one object per line.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show it once a second until Ctrl-C.")] = False,
    verbose: Verbose = False,
) -> None:
    """Show the state of a server: its workers, their sessions, rates and memory."""
    from reactor_runtime.client.address import Address
    from reactor_runtime.client.errors import Refused

    context.ensure_object(console.Settings).verbose = verbose
    address = Address.parse(url, token=server_token(url, token))
    try:
        if watch:
            _watch(address, as_json=as_json)
        else:
            console.out(_content(_read(address), as_json=as_json))
    except Refused as error:
        if error.status == UNAUTHORIZED:
            error.hint = TOKEN_HINT
        raise


def _watch(address: Address, *, as_json: bool) -> None:
    """Show the state once a second until Ctrl-C, and after the first one also why the server can't be reached."""
    from rich.console import Console
    from rich.live import Live

    content = _content(_read(address), as_json=as_json)
    try:
        if as_json or not sys.stdout.isatty():
            while True:
                console.out(content)
                content = _next_content(address, as_json=as_json)
        with Live(content, console=Console(highlight=False, emoji=False, markup=False), auto_refresh=False) as live:
            while True:
                live.update(_next_content(address, as_json=as_json), refresh=True)
    except KeyboardInterrupt:
        return


def _next_content(address: Address, *, as_json: bool) -> RenderableType:
    from reactor_runtime.client.errors import ConnectError, Refused

    time.sleep(WATCH_S)
    try:
        return _content(_read(address), as_json=as_json)
    except Refused:
        raise
    except ConnectError as error:
        return json.dumps({"status": "unreachable", "message": error.message}) if as_json else error.message


def _read(address: Address) -> dict[str, Any]:
    from reactor_runtime.client.health import read_health

    return read_health(address)


def _content(health: dict[str, Any], *, as_json: bool) -> RenderableType:
    from reactor_cli.status_table import status_table

    return json.dumps(health) if as_json else status_table(health)
