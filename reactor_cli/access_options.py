"""The options of `reactor run` that decide about strangers, and what they say together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from reactor_cli.options import whole_number
from reactor_runtime.errors import UsageError

if TYPE_CHECKING:
    from reactor_runtime.server.security.access import Access

TOKEN_VARIABLE = "REACTOR_TOKEN"

TokenOption: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="TOKEN", help=f"What clients have to know; auto makes one up. Also {TOKEN_VARIABLE}."),
]
Hosts: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="NAME", help="Another name the server answers to; may be repeated."),
]
Origins: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--allow-origin", metavar="ORIGIN", help="Another site whose pages may use it; may be repeated."),
]
PerAddress: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--max-per-address",
        parser=whole_number(1),
        metavar="N",
        help="How many connections one address may have; all clients and 128 more by default.",
    ),
]
Certificate: TypeAlias = Annotated[
    Path | None, typer.Option("--ssl-certfile", metavar="FILE", help="Serve https with this certificate, in PEM.")
]
Key: TypeAlias = Annotated[
    Path | None, typer.Option("--ssl-keyfile", metavar="FILE", help="Its key, where that is another file.")
]
RootPath: TypeAlias = Annotated[
    str, typer.Option("--root-path", metavar="PATH", help="The path a proxy serves it under, as /demo.")
]
Proxies: TypeAlias = Annotated[
    str,
    typer.Option("--forwarded-allow-ips", metavar="ADDRESSES", help="Proxies whose X-Forwarded headers are believed."),
]
Dev: TypeAlias = Annotated[
    bool, typer.Option("--dev", help="Tell clients what the model's exceptions say, wherever they are.")
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
    """Read the options together; raises UsageError for what can't be meant."""
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


def _root_path(given: str) -> str:
    path = given.rstrip("/")
    if path and (not path.startswith("/") or path.startswith("//") or set(path) & set("?#%\\ ") or not path.isascii()):
        raise UsageError(f'--root-path "{given}" is not a path', hint="it starts with a slash, as /demo")
    return path
