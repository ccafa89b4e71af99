"""Computes the build of a worker: a hash of what it runs, by which a front finds workers that run something else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reactor_runtime.manifest import FILE_NAME
from reactor_runtime.server.workers.watch import folders_and_modules


def build_of(project: Path, options: Mapping[str, Any]) -> str:
    """Return a hash of the Python files and the `reactor.yaml` of a project, and of options for JSON.

    Other files are left out: weights may have gigabytes, and a model may write into its project.
    """
    _, modules = folders_and_modules(project, ())
    files = {path.relative_to(project).as_posix(): _hash_file(path) for path in modules | {project / FILE_NAME}}
    return _hash(json.dumps([files, options], sort_keys=True).encode())


def _hash_file(path: Path) -> str | None:
    try:
        return _hash(path.read_bytes())
    # A link to nothing, or a file that an editor replaces.
    except OSError:
        return None


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()
