"""The options of a server, in one value that every part of it gets whole, and the reports that it makes.

A new option is a field here, which `reactor_runtime/options/run_options.py` sets; the part that needs it reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from reactor_runtime.config import Override
from reactor_runtime.errors import ReactorError
from reactor_runtime.manifest import Manifest
from reactor_runtime.server.net.listening import is_loopback

MAX_NOTICE_S = 60.0
MAX_ANSWER_S = 30.0
OUTLIVES_S = 60.0


# For `Access.connects_to`.
ANY_SERVER = ("http:", "https:", "ws:", "wss:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Limit hosts, origins and connections, and require a token; the defaults are for a model on its author's machine.

    The headers `X-Forwarded-For` and `X-Forwarded-Proto` of the `proxies` are trusted. An address may hold
    `per_address` connections. With `expose_errors` clients on other machines get the messages of exceptions too.
    The page may connect to the sources `connects_to` of a content security policy, besides this server; those of a
    server that redirects its clients are `ANY_SERVER`.
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
    connects_to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """The limits of a turn, in seconds; 0 is no limit, and for `resume_grace_s` that sessions can't be resumed.

    A session of a model that follows its clients outlives its last client by `outlives_s`; with 0 it ends with its
    controller, as every other session does.
    """

    max_session_s: float = 0.0
    idle_timeout_s: float = 0.0
    resume_grace_s: float = 0.0
    outlives_s: float = OUTLIVES_S

    @property
    def notice_s(self) -> float:
        """Return how long before the end of a turn the first notice is sent."""
        return min(MAX_NOTICE_S, self.max_session_s / 4)

    @property
    def answer_s(self) -> float:
        """Return how long an idle controller has to answer the notice."""
        return min(MAX_ANSWER_S, self.idle_timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadOptions:
    """Choose how saved files are applied: with `full` by a restart of the engine; `overrides` are those of `--set`."""

    full: bool = False
    overrides: tuple[Override, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """The project to serve, and all options of `reactor run` that the server needs.

    `config` is None if only the model reads the config file. `merged_config` is where engines write a config that is
    not that of the file; it is removed at the end.
    """

    manifest: Manifest
    config: dict[str, Any] | None
    merged_config: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8080
    access: Access = field(default_factory=Access)
    max_waiting: int = 16
    max_viewers: int = 100
    limits: TurnLimits = field(default_factory=TurnLimits)
    # How often the model is loaded, and how many sessions share it each time; 0: as many as its class says.
    sessions: int = 1
    sessions_per_model: int = 0
    shared: bool = False
    # Video for clients that can decode it: "auto", "always" or "never".
    codec: str = "auto"
    gpus: tuple[str, ...] = ()
    step_timeout_s: float = 0.0
    load_timeout_s: float = 0.0
    drain_timeout_s: float = 0.0
    log_level: str = "info"
    log_format: str = "text"
    trace: Path | None = None
    record: Path | None = None
    # How frames are recorded: "" for not, "jpeg" or "lossless".
    record_video: str = ""
    reload: ReloadOptions | None = None

    @property
    def exposes_errors(self) -> bool:
        """Return whether clients get the messages of exceptions: with `--dev`, or where all are on this machine."""
        return self.access.expose_errors or self.is_private

    @property
    def is_private(self) -> bool:
        """Return whether only clients of this machine can connect.

        With hosts, proxies or a root path, clients on other machines may reach a loopback address.
        """
        access = self.access
        return is_loopback(self.host) and not (access.hosts or access.proxies or access.root_path)


@dataclass(frozen=True, slots=True)
class ServerListening:
    """The address that the server listens on; the port is the actual one, also where port 0 was requested."""

    host: str
    port: int
    # Reloads the project by hand, from any thread; None without --reload.
    reload: Callable[[], object] | None = None
    # Stops the server as Ctrl-C does, from any thread; does nothing if it stops already.
    stop: Callable[[], object] = lambda: None
    # Ends the process at once, from any thread, so that connections break; does nothing if the server stops already.
    kill: Callable[[], object] = lambda: None


@dataclass(frozen=True, slots=True)
class LoadingProgress:
    """How long engine number `engine` of `engines` has been loading, and the last line that it logged or printed.

    `progress` is how far the load is, from 0 to 1; None if it is unknown.
    """

    elapsed_s: float
    detail: str
    engine: int = 1
    engines: int = 1
    progress: float | None = None


@dataclass(frozen=True, slots=True)
class ServerReady:
    """How long an engine took to load the model, how many of `engines` are ready, and the GPU of this one.

    So many `sessions` share the loaded model.
    """

    load_s: float
    ready: int = 1
    engines: int = 1
    gpu: str = ""
    sessions: int = 1


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """Report the status of a reload, as `wire.reload` lists them; `error` is the cause if it failed."""

    status: str
    reason: str = ""
    error: ReactorError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatistics:
    """The state of a server now, and the time of the steps since the last statistics.

    `loading` is the progress of loading while no engine is ready. `fps` is None without a session, the times without
    frames, and `memory_bytes`, that of the engines and their processes, where it is unknown. `session` is "" unless
    exactly one runs.
    """

    loading: LoadingProgress | None
    fps: float | None
    step_ms: float | None
    late_ms: float | None
    clients: int
    sessions: int
    slots: int
    session: str
    session_s: float
    memory_bytes: int | None


class Operator(Protocol):
    """Receives the progress of a server; each method is called on the server's loop and has to return at once."""

    def on_listening(self, listening: ServerListening) -> None: ...

    def on_loading(self, loading: LoadingProgress) -> None: ...

    def on_ready(self, ready: ServerReady) -> None: ...

    def on_reload(self, report: ReloadReport) -> None: ...

    def on_tick(self, statistics: Callable[[], ServerStatistics]) -> None:
        """Called once a second, with a function that makes the statistics."""

    def on_exit(self) -> None:
        """Called before a second signal ends the process at once."""
