"""Which GPUs `reactor run` gives to the engines, and how many engines that makes."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

import typer

from reactor_cli.options import whole_number
from reactor_runtime.errors import UsageError

MOST_SESSIONS = 64
_UUID = r"[0-9a-fA-F]+(?:-[0-9a-fA-F]+)*"
_NAME = re.compile(rf"\d+|GPU-{_UUID}|MIG-{_UUID}|MIG-GPU-{_UUID}/\d+/\d+", re.ASCII)

Sessions: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--sessions",
        parser=whole_number(1, MOST_SESSIONS),
        metavar="N",
        help="How many may use the model at once, which is loaded N times: 1 by default, or one for each of --gpus.",
    ),
]
Gpus: TypeAlias = Annotated[
    str,
    typer.Option(
        "--gpus",
        metavar="LIST",
        help="GPUs such as 0,1 (or GPU-…, MIG-… of nvidia-smi -L): each session sees one; more sessions share in turn.",
    ),
]


def parse_gpus(given: str) -> tuple[str, ...]:
    """Read the names of GPUs as `CUDA_VISIBLE_DEVICES` takes them, with commas between; UsageError for what is none."""
    names = tuple(name.strip() for name in given.split(",")) if given.strip() else ()
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(
                f'--gpus: "{name}" names no GPU',
                hint="a number from 0, or GPU-… or MIG-… as `nvidia-smi -L` lists them",
            )
        if names.count(name) > 1:
            raise UsageError(
                f"--gpus: {name} is named twice", hint=f"--gpus {name} --sessions 2 has two sessions share it"
            )
    return names


def count_sessions(sessions: int | None, gpus: tuple[str, ...]) -> int:
    """Say how many sessions there are to be; UsageError when a GPU would be left without one."""
    if sessions is None:
        return len(gpus) or 1
    if sessions < len(gpus):
        raise UsageError(
            f"--sessions {sessions} leaves GPUs of --gpus {','.join(gpus)} without a session",
            hint="each session sees one GPU: name as many as there are sessions, or fewer",
        )
    return sessions
