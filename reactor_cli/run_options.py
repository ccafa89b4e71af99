"""The options of `reactor run`: their declarations in the order of --help, and the values that are made of several.

`commands/run.py` puts them into one `ServeOptions`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from reactor_cli.options import duration, one_of, whole_number
from reactor_runtime.errors import UsageError
from reactor_runtime.verbosity import FORMATS, LEVELS

if TYPE_CHECKING:
    from reactor_runtime.server.security.access import Access

TOKEN_VARIABLE = "REACTOR_TOKEN"
MAX_SESSIONS = 64
# Connections beyond those of the clients: requests of the page's files, and clients that are about to be refused.
EXTRA_CONNECTIONS = 128
_UUID = r"[0-9a-fA-F]+(?:-[0-9a-fA-F]+)*"
_GPU = re.compile(rf"\d+|GPU-{_UUID}|MIG-{_UUID}|MIG-GPU-{_UUID}/\d+/\d+", re.ASCII)

Host: TypeAlias = Annotated[
    str, typer.Option(metavar="ADDRESS", help="The address to listen on; 0.0.0.0 accepts other machines.")
]
Port: TypeAlias = Annotated[
    int,
    typer.Option(parser=whole_number(0, 65535), metavar="PORT", help="The port to listen on; 0 picks a free one."),
]
Open: TypeAlias = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]
MaxWaiting: TypeAlias = Annotated[
    int, typer.Option(parser=whole_number(0), metavar="N", help="Controllers that may wait for a session.")
]
MaxViewers: TypeAlias = Annotated[
    int, typer.Option(parser=whole_number(0), metavar="N", help="Viewers allowed at once.")
]
MaxSession: TypeAlias = Annotated[
    float,
    typer.Option(
        parser=duration,
        metavar="TIME",
        show_default="none",
        help="The length of a turn while others wait, such as 5m.",
    ),
]
IdleTimeout: TypeAlias = Annotated[
    float,
    typer.Option(
        parser=duration,
        metavar="TIME",
        show_default="none",
        help="Ask a controller that sends nothing for TIME whether it is still there.",
    ),
]
ResumeGrace: TypeAlias = Annotated[
    float,
    typer.Option(
        parser=duration,
        metavar="TIME",
        show_default="none",
        help="Keep the session of a controller whose connection broke for TIME.",
    ),
]
Token: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="TOKEN", help=f"The secret clients have to send; auto generates one. Also {TOKEN_VARIABLE}."),
]
AllowHost: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="Accept requests for this host name too; may be repeated."),
]
AllowOrigin: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--allow-origin", metavar="ORIGIN", help="Accept pages of this site too; may be repeated."),
]
MaxPerAddress: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--max-per-address",
        parser=whole_number(1),
        metavar="N",
        help="Connections allowed per address; by default enough for all clients, and 128 more.",
    ),
]
SslCertfile: TypeAlias = Annotated[
    Path | None, typer.Option("--ssl-certfile", metavar="FILE", help="Serve https with this certificate, in PEM.")
]
SslKeyfile: TypeAlias = Annotated[
    Path | None, typer.Option("--ssl-keyfile", metavar="FILE", help="Its key, if that is in another file.")
]
RootPath: TypeAlias = Annotated[
    str, typer.Option("--root-path", metavar="PATH", help="The path under which a proxy serves it, such as /demo.")
]
ForwardedAllowIps: TypeAlias = Annotated[
    str,
    typer.Option("--forwarded-allow-ips", metavar="ADDRESSES", help="Trust the X-Forwarded headers of these proxies."),
]
Dev: TypeAlias = Annotated[
    bool,
    typer.Option("--dev", help="Send messages of the model's exceptions to clients on other machines too."),
]
Sessions: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--sessions",
        parser=whole_number(1, MAX_SESSIONS),
        metavar="N",
        help="Sessions at once; the model is loaded N times. 1 by default, or one for each of --gpus.",
    ),
]
Gpus: TypeAlias = Annotated[
    str,
    typer.Option(
        "--gpus",
        metavar="LIST",
        help="GPUs such as 0,1 (or GPU-…, MIG-… of nvidia-smi -L): each session uses one; more sessions share them.",
    ),
]
StepTimeout: TypeAlias = Annotated[
    int,
    typer.Option(
        parser=whole_number(0),
        metavar="SECONDS",
        help="Restart the model when one step takes longer; 0 only warns.",
    ),
]
LoadTimeout: TypeAlias = Annotated[
    float,
    typer.Option(
        parser=duration,
        metavar="TIME",
        show_default="none",
        help="The time limit for loading the model, such as 10m.",
    ),
]
DrainTimeout: TypeAlias = Annotated[
    int,
    typer.Option(
        parser=whole_number(0), metavar="SECONDS", help="After SIGTERM, let running sessions continue for so long."
    ),
]
LogLevel: TypeAlias = Annotated[
    str, typer.Option(parser=one_of(LEVELS), metavar="|".join(LEVELS), help="Log lines of at least this level.")
]
LogFormat: TypeAlias = Annotated[
    str,
    typer.Option(
        parser=one_of(FORMATS),
        metavar="|".join(FORMATS),
        help="Log lines as text or as JSON.",
    ),
]
Trace: TypeAlias = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a trace of frames and events, for Perfetto.")
]


def parse_access(
    *,
    token: str | None,
    hosts: Sequence[str],
    origins: Sequence[str],
    per_address: int,
    certificate: Path | None,
    key: Path | None,
    root_path: str,
    proxies: str,
    dev: bool,
) -> Access:
    """Return the options on access as one value. Raises UsageError for a wrong value or combination."""
    from reactor_runtime.server.security.access import Access
    from reactor_runtime.server.security.hosts import parse_host
    from reactor_runtime.server.security.origins import parse_origin
    from reactor_runtime.server.security.proxies import parse_proxies
    from reactor_runtime.server.security.token import parse_token

    if key is not None and certificate is None:
        raise UsageError("--ssl-keyfile without a certificate", hint="--ssl-certfile names it")
    token = token if token is not None else os.environ.get(TOKEN_VARIABLE) or None
    return Access(
        token=None if token is None else parse_token(token),
        hosts=tuple(map(parse_host, hosts)),
        origins=tuple(map(parse_origin, origins)),
        per_address=per_address,
        certificate=certificate,
        key=key,
        root_path=_root_path(root_path),
        proxies=parse_proxies(proxies),
        expose_errors=dev,
    )


def _root_path(text: str) -> str:
    path = text.rstrip("/")
    if path and (not path.startswith("/") or path.startswith("//") or set(path) & set("?#%\\ ") or not path.isascii()):
        raise UsageError(f'--root-path "{text}" is not a path', hint="it starts with a slash, such as /demo")
    return path


def parse_gpus(text: str) -> tuple[str, ...]:
    """Return the GPU names of a list with commas, as in `CUDA_VISIBLE_DEVICES`. Raises UsageError for a wrong name."""
    names = tuple(name.strip() for name in text.split(",")) if text.strip() else ()
    for name in names:
        if not _GPU.fullmatch(name):
            raise UsageError(
                f'--gpus: "{name}" is not the name of a GPU',
                hint="a number from 0, or GPU-… or MIG-… as `nvidia-smi -L` lists them",
            )
        if names.count(name) > 1:
            raise UsageError(
                f"--gpus: {name} is named twice", hint=f"--gpus {name} --sessions 2 lets two sessions share it"
            )
    return names


def count_sessions(sessions: int | None, gpus: tuple[str, ...]) -> int:
    """Return the number of sessions. Raises UsageError if a GPU would have none."""
    if sessions is None:
        return len(gpus) or 1
    if sessions < len(gpus):
        raise UsageError(
            f"--sessions {sessions} leaves GPUs of --gpus {','.join(gpus)} without a session",
            hint="each session uses one GPU: name as many GPUs as sessions, or fewer",
        )
    return sessions
