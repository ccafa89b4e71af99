"""Watches the files of a project for `--reload`: Python files, `reactor.yaml` and the config."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path

IGNORED = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
# How long files have to be unchanged: an editor writes in several parts, and git checks out one file after the other.
QUIET_MS = 40
LONGEST_MS = 400


async def saved_files(project: Path, files: Callable[[], Collection[Path]]) -> AsyncIterator[frozenset[Path]]:
    """Yield the Python files of a project, and those of `files()`, that were written, renamed or deleted.

    Folders that begin with a dot, virtual environments and `node_modules` are left out. An empty set is yielded when
    folders have come or gone, since a file in them may have changed unseen.
    """
    # Imported here: only --reload needs it.
    import watchfiles

    logging.getLogger("watchfiles").setLevel(logging.WARNING)

    def concerns(_: watchfiles.Change, path: str) -> bool:
        return path.endswith(".py") or Path(path) in files() or (os.path.isdir(path) and not _is_ignored(path))

    while True:
        folders = await asyncio.to_thread(_folders, project)
        others = {str(file.parent) for file in files() if file.parent.is_dir()}
        watched = watchfiles.awatch(
            *folders | others, watch_filter=concerns, step=QUIET_MS, debounce=LONGEST_MS, recursive=False
        )
        yield frozenset()
        async for changes in watched:
            paths = frozenset(Path(path) for _, path in changes)
            yield frozenset(path for path in paths if path.suffix == ".py" or path in files())
            if await asyncio.to_thread(_folders, project) != folders:
                break


def _folders(project: Path) -> set[str]:
    """Return the folders of a project that may have modules; a virtual environment is known by its `pyvenv.cfg`."""
    found = set()
    for folder, inside, files in os.walk(project):
        if "pyvenv.cfg" in files:
            inside.clear()
            continue
        found.add(folder)
        inside[:] = [name for name in inside if not _is_ignored(name)]
    return found


def _is_ignored(path: str) -> bool:
    name = os.path.basename(path)
    return name.startswith(".") or name in IGNORED
