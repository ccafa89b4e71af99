"""`reactor connect`: control or watch a model from the terminal, or have a program do it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from reactor_cli import console
from reactor_cli.options import Verbose, duration, one_of

if TYPE_CHECKING:
    from reactor_cli.connection import ConnectOptions
    from reactor_runtime.client.address import Role

UNAUTHORIZED = 401
LOCAL = "http://127.0.0.1:8080"
STDIN = 0

EPILOG = """
\b
Examples:
  reactor connect                                      the server of this machine
  reactor connect 'https://host/?token=…' --role viewer
  reactor connect --send 'set_prompt prompt="a fox"' --seconds 10 --save out.mp4
  reactor connect --json --send 'set_speed speed=2' --seconds 0
  echo 'set_speed 2' | reactor connect

\b
Exit codes: 0 done, also by Ctrl-C; 1 an event of --send or of the input was refused,
or the session ended otherwise than by this client or the model; 2 the command has to
be corrected; 3 no server there, or it lets nobody in without a token; 5 its line is
full, or the turn did not come within --seconds; 130 interrupted before the turn came.
"""


def connect(
    context: typer.Context,
    url: Annotated[str, typer.Argument(metavar="URL", help="The address of the page or of the socket.")] = LOCAL,
    token: Annotated[str | None, typer.Option("--token", metavar="TOKEN", help="Else REACTOR_TOKEN.")] = None,
    role: Annotated[
        str | None,
        typer.Option("--role", parser=one_of(("controller", "viewer")), metavar="ROLE", help="controller or viewer."),
    ] = None,
    sends: Annotated[
        list[str] | None,
        typer.Option("--send", metavar="EVENT", help="Send an event, as 'set_x x=1'; may be repeated."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            parser=duration,
            metavar="TIME",
            help="Leave after TIME, in line too; 0: when all was answered.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="DIR|FILE", help="Keep pictures and sound in DIR, or as FILE.mp4."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print an object a line, for programs.")] = False,
    picture: Annotated[
        bool | None,
        typer.Option("--picture/--no-picture", help="Draw the picture as text; where colours are, by default."),
    ] = None,
    verbose: Verbose = False,
) -> int:
    """Control or watch a model from the terminal.

    Shows figures, messages and, in a terminal with colours, the picture. Type events at the prompt; tab completes them,
    Ctrl-D leaves. Without --send, lines of an input that is no terminal are events.
    """
    from reactor_cli.connection import ConnectOptions

    context.ensure_object(console.Settings).verbose = verbose
    is_screen = _is_screen() and not as_json
    wish = ConnectOptions(
        url=url,
        token=token or (None if "token=" in url else os.environ.get("REACTOR_TOKEN")),
        role=cast("Role | None", role),
        sends=tuple(sends or ()),
        seconds=seconds,
        save=save,
        picture=is_screen and (not os.environ.get("NO_COLOR") if picture is None else picture),
        prompt=is_screen and _is_terminal(),
        input=None if sends or _is_terminal() else STDIN,
    )
    return _visit(wish, as_json=as_json, is_screen=is_screen)


def _is_terminal() -> bool:
    return sys.stdin is None or sys.stdin.isatty()


def _is_screen() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _visit(wish: ConnectOptions, *, as_json: bool, is_screen: bool) -> int:
    import asyncio

    from reactor_cli.connection import TerminalClient
    from reactor_cli.report import ConnectReport, legible
    from reactor_cli.screen import TerminalScreen
    from reactor_runtime.client import ClientError, Refused

    screen = TerminalScreen() if is_screen else None
    visit = TerminalClient(wish, ConnectReport(as_json=as_json, screen=screen), screen)
    try:
        asyncio.run(visit.run())
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 0 if visit.began else 130
    except ClientError as error:
        error.message = legible(error.message)  # it may quote the server
        if isinstance(error, Refused) and error.status == UNAUTHORIZED:
            error.hint = "give its token with --token, or as ?token= in the address"
        raise
    finally:
        if screen is not None:
            screen.close()
    return 0
