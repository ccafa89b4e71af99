"""The options of `reactor run` on who may come, and how long turns, steps and the last sessions may take."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from reactor_cli.options import duration, whole_number

MaxWaiting: TypeAlias = Annotated[
    int, typer.Option(parser=whole_number(0), metavar="N", help="How many may wait in line for the model.")
]
MaxViewers: TypeAlias = Annotated[int, typer.Option(parser=whole_number(0), metavar="N", help="How many may watch.")]
MaxSession: TypeAlias = Annotated[
    float,
    typer.Option(
        parser=duration,
        metavar="TIME",
        show_default="none",
        help="How long a turn lasts while others wait, such as 5m.",
    ),
]
IdleTimeout: TypeAlias = Annotated[
    float,
    typer.Option(
        parser=duration,
        metavar="TIME",
        show_default="none",
        help="How long a controller may be silent before it is asked.",
    ),
]
ResumeGrace: TypeAlias = Annotated[
    float,
    typer.Option(
        parser=duration,
        metavar="TIME",
        show_default="none",
        help="How long a controller whose network broke may take to return.",
    ),
]
StepTimeout: TypeAlias = Annotated[
    int,
    typer.Option(
        parser=whole_number(0),
        metavar="SECONDS",
        help="Start the model again when one step takes longer; 0: only warn.",
    ),
]
LoadTimeout: TypeAlias = Annotated[
    float,
    typer.Option(
        parser=duration,
        metavar="TIME",
        show_default="none",
        help="How long loading the model may take, such as 10m.",
    ),
]
DrainTimeout: TypeAlias = Annotated[
    int,
    typer.Option(
        parser=whole_number(0), metavar="SECONDS", help="After SIGTERM, how long a running session may go on."
    ),
]
