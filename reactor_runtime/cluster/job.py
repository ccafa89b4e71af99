"""The job of a worker process, and its answers.

The job is a line of JSON on its standard input, which stays open for as long as the worker should run. The answer is a
line of JSON on its standard output: `WorkerListening`, and `WorkerFailed` if it ends with an error.
"""

from __future__ import annotations

import json
import socket
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from reactor_runtime import manifest
from reactor_runtime.server.options import Access, ServeOptions, TurnLimits
from reactor_runtime.version import version

# The model prints to the same standard output.
_MARK = "\x01reactor-worker "


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerJob:
    """Describe a worker: its id and cluster, the project on its machine, and its options of `reactor run`.

    `version` is that of Reactor at the front, `build` a hash of the project and of these options. `url` is the worker's
    URL for clients, with {host}, {node} and {port}; "" is the worker's address.
    """

    cluster: str
    worker: str
    secret: str
    project: str
    config: dict[str, Any]
    version: str = ""
    build: str = ""
    host: str = "127.0.0.1"
    ports: tuple[int, int] = (0, 0)
    url: str = ""
    max_viewers: int = 100
    max_session_s: float = 0.0
    idle_timeout_s: float = 0.0
    resume_grace_s: float = 0.0
    step_timeout_s: float = 0.0
    load_timeout_s: float = 0.0
    drain_timeout_s: float = 0.0
    expose_errors: bool = False
    certificate: str = ""
    key: str = ""
    log_level: str = "info"
    log_format: str = "text"

    @classmethod
    def of(cls, options: ServeOptions, **others: Any) -> Self:
        """Return the job of a worker that serves with the options of its front."""
        access, limits = options.access, options.limits
        return cls(
            version=version(),
            config=options.config,
            max_viewers=options.max_viewers,
            max_session_s=limits.max_session_s,
            idle_timeout_s=limits.idle_timeout_s,
            resume_grace_s=limits.resume_grace_s,
            step_timeout_s=options.step_timeout_s,
            load_timeout_s=options.load_timeout_s,
            drain_timeout_s=options.drain_timeout_s,
            expose_errors=options.exposes_errors,
            certificate="" if access.certificate is None else str(access.certificate),
            key="" if access.key is None else str(access.key),
            log_level=options.log_level,
            log_format=options.log_format,
            **others,
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return a job. Raises ValueError for a text that another version wrote."""
        values = json.loads(text)
        if (at_front := values.get("version", "")) != version():
            raise ValueError(
                f"the node {socket.gethostname()} has Reactor {version()}, and the front "
                f"{at_front or 'another version'}: "
                "install the same version on all machines"
            )
        return cls(**{**values, "ports": tuple(values["ports"])})

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def serve_options(self, port: int) -> ServeOptions:
        """Return the options of the worker's server: one session, no queue of its own."""
        return ServeOptions(
            manifest=manifest.load(Path(self.project)),
            config=self.config,
            host=self.host,
            port=port,
            access=Access(
                # Tickets admit clients, so origin and host are not checked.
                origins=("*",),
                hosts=("*",),
                per_address=self.max_viewers + 128,
                certificate=Path(self.certificate) if self.certificate else None,
                key=Path(self.key) if self.key else None,
                expose_errors=self.expose_errors,
            ),
            max_waiting=0,
            max_viewers=self.max_viewers,
            limits=TurnLimits(
                max_session_s=self.max_session_s,
                idle_timeout_s=self.idle_timeout_s,
                resume_grace_s=self.resume_grace_s,
            ),
            step_timeout_s=self.step_timeout_s,
            load_timeout_s=self.load_timeout_s,
            drain_timeout_s=self.drain_timeout_s,
            log_level=self.log_level,
            log_format=self.log_format,
        )


@dataclass(frozen=True, slots=True)
class WorkerListening:
    """Report the port that the worker listens on, and its certificate in PEM; "" without one."""

    port: int
    certificate: str = ""


@dataclass(frozen=True, slots=True)
class WorkerFailed:
    """Report why the worker ends, and the exit code of `reactor run` for that."""

    error: str
    exit_code: int


def answer_line(answer: WorkerListening | WorkerFailed) -> str:
    """Return the line of an answer."""
    return f"{_MARK}{json.dumps(asdict(answer))}\n"


def parse_answer(line: str) -> WorkerListening | WorkerFailed | None:
    """Return the answer in a line; None for a line that the model has printed."""
    if not line.startswith(_MARK):
        return None
    values = json.loads(line[len(_MARK) :])
    return WorkerListening(**values) if "port" in values else WorkerFailed(**values)
