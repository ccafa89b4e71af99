"""The options of `reactor run` on where it listens, and whether it opens the page there."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from reactor_cli.options import whole_number

Host: TypeAlias = Annotated[
    str, typer.Option(metavar="ADDRESS", help="The address to listen on; 0.0.0.0 lets other machines in.")
]
Port: TypeAlias = Annotated[
    int,
    typer.Option(parser=whole_number(0, 65535), metavar="PORT", help="The port to listen on; 0 picks a free one."),
]
OpenPage: TypeAlias = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]
