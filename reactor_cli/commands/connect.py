"""`reactor connect`: control or watch a model from the terminal or from a script."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from reactor_cli import console
from reactor_cli.common_options import (
    LOCAL_URL,
    TOKEN_HINT,
    UNAUTHORIZED,
    ServerUrl,
    Token,
    Verbose,
    server_token,
    typer_parser,
)
from reactor_runtime.options.option import duration, one_of

if TYPE_CHECKING:
    from reactor_cli.terminal_client import ConnectOptions
    from reactor_runtime.client.address import Role

STDIN = 0

EPILOG = """
\b
Examples:
  reactor connect                                      the server on this machine
  reactor connect 'https://host/?token=…' --role viewer
  reactor connect --send 'set_prompt prompt="a fox"' --seconds 10 --save out.mp4
  reactor connect --json --send 'set_speed speed=2' --seconds 0
  echo 'set_speed 2' | reactor connect

\b
Exit codes: 0 done, also by Ctrl-C; 1 an event of --send or of the input was
refused, or the server ended the session; 2 an error in the command; 3 no
server at the address, or it requires a token; 5 the server is full, or the
turn did not come within --seconds; 130 interrupted before the turn came.
"""


def connect(
    context: typer.Context,
    url: ServerUrl = LOCAL_URL,
    token: Token = None,
    role: Annotated[
        str | None,
        typer.Option(
            "--role",
            parser=typer_parser(one_of(("controller", "viewer"))),
            metavar="ROLE",
            help="controller or viewer.",
        ),
    ] = None,
    sends: Annotated[
        list[str] | None,
        typer.Option("--send", metavar="EVENT", help="Send an event, as 'set_x x=1'; may be repeated."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            parser=typer_parser(duration),
            metavar="TIME",
            help="Leave after TIME, also while waiting; 0: when all events are answered.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="DIR|FILE",
            help="Save frames and sound to DIR, or to FILE.mp4. Needs an extra for files: "
            "pip install 'reactor-live[video]'.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, for programs.")] = False,
    draw: Annotated[
        bool | None,
        typer.Option("--draw/--no-draw", help="Draw frames as text; the default in a terminal with colours."),
    ] = None,
    verbose: Verbose = False,
) -> int:
    """Control or watch a model from the terminal.

    Shows metrics, messages and, in a terminal with colours, frames. Type events at the prompt; tab completes them,
    Ctrl-D leaves. Without --send, each line of piped input is an event.
    """
    from reactor_cli.terminal_client import ConnectOptions

    context.ensure_object(console.Settings).verbose = verbose
    is_screen = _is_screen() and not as_json
    options = ConnectOptions(
        url=url,
        token=server_token(url, token),
        role=cast("Role | None", role),
        events=tuple(sends or ()),
        seconds=seconds,
        save=save,
        show_frames=is_screen and (not os.environ.get("NO_COLOR") if draw is None else draw),
        prompt=is_screen and _is_terminal(),
        input=None if sends or _is_terminal() else STDIN,
    )
    return _run_client(options, as_json=as_json, is_screen=is_screen)


def _is_terminal() -> bool:
    return sys.stdin is None or sys.stdin.isatty()


def _is_screen() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _run_client(options: ConnectOptions, *, as_json: bool, is_screen: bool) -> int:
    import asyncio

    from reactor_cli.report import ConnectReport, legible
    from reactor_cli.terminal import TerminalScreen
    from reactor_cli.terminal_client import TerminalClient
    from reactor_runtime.client import ClientError, Refused

    screen = TerminalScreen() if is_screen else None
    client = TerminalClient(options, ConnectReport(as_json=as_json, screen=screen), screen)
    try:
        asyncio.run(client.run())
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 0 if client.began else 130
    except ClientError as error:
        # The message may quote the server.
        error.message = legible(error.message)
        if isinstance(error, Refused) and error.status == UNAUTHORIZED:
            error.hint = TOKEN_HINT
        raise
    finally:
        if screen is not None:
            screen.close()
    return 0
