"""Who may reach the server, under which names, and how much one address may take of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What the operator decides about strangers; the defaults are for a model on its author's machine.

    `proxies` are the addresses whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed, `per_address` how many
    connections one address may hold, `expose_errors` whether clients anywhere are told what exceptions say.
    """

    token: str | None = None
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    per_address: int = 244
    certificate: Path | None = None
    key: Path | None = None
    root_path: str = ""
    proxies: tuple[str, ...] = ()
    expose_errors: bool = False
