"""What a server is told by who starts it, and what it tells: where it listens, how loading goes, that it serves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reactor_runtime.manifest import Manifest
from reactor_runtime.server.net.listening import is_loopback
from reactor_runtime.server.security.access import Access
from reactor_runtime.server.sessions.turn import TurnLimits


@dataclass(frozen=True, slots=True)
class ServerListening:
    """Where the server listens; the port is a real one even if 0 was asked for."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class LoadingProgress:
    """How long an engine has been loading, the last line that logged or printed, and which it is of how many."""

    elapsed_s: float
    detail: str
    engine: int = 1
    engines: int = 1


@dataclass(frozen=True, slots=True)
class ServerReady:
    """How long an engine took to load the model, how many of how many serve, and which GPU it was told to use."""

    load_s: float
    ready: int = 1
    engines: int = 1
    gpu: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Everything `serve` needs to know; the callbacks tell the operator how far it is and are called on its thread."""

    manifest: Manifest
    config: dict[str, Any]
    host: str = "127.0.0.1"
    port: int = 8080
    access: Access = field(default_factory=Access)
    max_waiting: int = 16
    max_viewers: int = 100
    limits: TurnLimits = field(default_factory=TurnLimits)
    sessions: int = 1
    gpus: tuple[str, ...] = ()
    step_timeout_s: float = 0.0
    load_timeout_s: float = 0.0
    drain_timeout_s: float = 0.0
    log_level: str = "info"
    log_format: str = "text"
    trace: Path | None = None
    on_listening: Callable[[ServerListening], None]
    on_loading: Callable[[LoadingProgress], None]
    on_ready: Callable[[ServerReady], None]

    @property
    def exposes_errors(self) -> bool:
        """Tell whether clients are told what exceptions say: where asked for, and where all are this machine's own.

        Who names hosts or proxies has a loopback address that others reach.
        """
        access = self.access
        led_here = access.hosts or access.proxies or access.root_path
        return access.expose_errors or (is_loopback(self.host) and not led_here)
