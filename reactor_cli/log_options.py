"""The options of `reactor run` on what it writes down: the log, and a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from reactor_cli.options import one_of
from reactor_runtime.verbosity import FORMATS, LEVELS

LogLevel: TypeAlias = Annotated[
    str, typer.Option(parser=one_of(LEVELS), metavar="|".join(LEVELS), help="Log lines of at least this level.")
]
LogFormat: TypeAlias = Annotated[
    str,
    typer.Option(parser=one_of(FORMATS), metavar="|".join(FORMATS), help="Log lines for people or for programs."),
]
Trace: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write when each frame and event was where; Perfetto opens it.")
]
