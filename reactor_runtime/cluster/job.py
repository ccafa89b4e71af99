"""The job of a worker process, and its answers.

The job is a line of JSON on its standard input, which stays open for as long as the worker should run. The answer is a
line of JSON on its standard output: `WorkerListening`, and `WorkerFailed` if it ends with an error.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from pydantic import TypeAdapter

from reactor_runtime import manifest
from reactor_runtime.config import hash_of_file, merged_path
from reactor_runtime.server.options import ServeOptions
from reactor_runtime.version import version

# The model prints to the same standard output.
_MARK = "\x01reactor-worker "


# The options of the front that no worker gets, because a worker has its own value or only the front reads them. All
# other fields of `ServeOptions` and `Access` reach the workers.
LOCAL: Mapping[str, bool | set[str]] = {
    "manifest": True,
    "merged_config": True,
    "host": True,
    "port": True,
    "max_waiting": True,
    "sessions": True,
    "gpus": True,
    "trace": True,
    "record": True,
    "record_video": True,
    "reload": True,
    "access": {"token", "hosts", "origins", "per_address", "root_path", "proxies", "connects_to"},
}
_OPTIONS = TypeAdapter(ServeOptions)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerJob:
    """Describe a worker: its id and cluster, the project on its machine, and the front's options but those in `LOCAL`.

    `is_merged` says that the config is not that of the project's file. `version` is that of Reactor at the front,
    `build` a hash of the project and of these options. `url` is the worker's URL for clients, with {host}, {node} and
    {port}; "" is the worker's address.
    """

    cluster: str
    worker: str
    secret: str
    project: str
    options: dict[str, Any]
    is_merged: bool = False
    # Of a config file that only the model reads, which is a part of the build.
    config_hash: str = ""
    version: str = ""
    build: str = ""
    host: str = "127.0.0.1"
    ports: tuple[int, int] = (0, 0)
    url: str = ""

    @classmethod
    def of(cls, options: ServeOptions, **others: Any) -> Self:
        """Return the job of a worker that serves with the options of its front."""
        # Whether errors are exposed depends on the addresses at which the front can be reached.
        access = replace(options.access, expose_errors=options.exposes_errors)
        values = _OPTIONS.dump_python(replace(options, access=access), mode="json", exclude=LOCAL)
        # Pydantic writes an infinite number as null; the config is JSON as it is.
        return cls(
            version=version(),
            options={**values, "config": options.config},
            is_merged=options.merged_config is not None,
            config_hash="" if options.config is not None else hash_of_file(options.manifest.config_path),
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
        """Return the options of the worker's server, which has one loaded model and no queue of its own."""
        # Tickets admit clients, so origin and host are not checked.
        access = {"origins": ("*",), "hosts": ("*",), "per_address": self.options["max_viewers"] + 128}
        project = manifest.load(Path(self.project))
        merged = merged_path(project.config_path) if self.is_merged and project.config_path else None
        return _OPTIONS.validate_python(
            {
                **self.options,
                "manifest": project,
                "merged_config": merged,
                "host": self.host,
                "port": port,
                "max_waiting": 0,
                "access": {**self.options["access"], **access},
            }
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
