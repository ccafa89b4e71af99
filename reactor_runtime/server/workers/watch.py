"""Watches the files of a project for `--reload`: Python files, `reactor.yaml` and the config."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path

IGNORED = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
# How long files have to be unchanged: an editor writes in several parts, and git checks out one file after the other.
QUIET_MS = 40
LONGEST_MS = 400


async def saved_files(project: Path, files: Callable[[], Collection[Path]]) -> AsyncIterator[frozenset[Path]]:
    """Yield the watched files, once they have been read, then each time those that have other content.

    Watched are the Python files of a project, and those of `files()`. Folders that begin with a dot, virtual
    environments and `node_modules` are left out.
    """
    # Imported here: only --reload needs it.
    import watchfiles

    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    folders: set[str] = set()
    # No digest is empty: the first comparison finds all files.
    digests: dict[Path, bytes | None] = dict.fromkeys(files(), b"")

    def concerns(_: watchfiles.Change, path: str) -> bool:
        # A watched folder that has gone is no directory any more.
        is_folder = path in folders or os.path.isdir(path)
        return path.endswith(".py") or Path(path) in files() or (is_folder and not _is_ignored(path))

    def changed(paths: Collection[Path]) -> frozenset[Path]:
        contents = {path: _digest(path) for path in paths}
        found = frozenset(path for path, each in contents.items() if path not in digests or digests[path] != each)
        digests.update(contents)
        return found

    while True:
        before = folders
        folders, modules = await asyncio.to_thread(_folders_and_modules, project)
        # Files in folders that have come or gone, and those that changed while none were watched.
        others = {file for file in files() if str(file.parent) in folders ^ before}
        if saved := await asyncio.to_thread(changed, digests.keys() | modules | others):
            yield saved
        parents = {str(file.parent) for file in files() if file.parent.is_dir()}
        watched = watchfiles.awatch(
            *folders | parents, watch_filter=concerns, step=QUIET_MS, debounce=LONGEST_MS, recursive=False
        )
        async for changes in watched:
            paths = {Path(path) for _, path in changes}
            files_saved = {path for path in paths if path.suffix == ".py" or path in files()}
            if saved := await asyncio.to_thread(changed, files_saved):
                yield saved
            if (await asyncio.to_thread(_folders_and_modules, project))[0] != folders:
                break


def _folders_and_modules(project: Path) -> tuple[set[str], set[Path]]:
    """Return the folders of a project that may have modules, and the Python files in them.

    A virtual environment is known by its `pyvenv.cfg`.
    """
    folders: set[str] = set()
    modules: set[Path] = set()
    for folder, inside, files in os.walk(project):
        if "pyvenv.cfg" in files:
            inside.clear()
            continue
        folders.add(folder)
        modules.update(Path(folder, name) for name in files if name.endswith(".py"))
        inside[:] = [name for name in inside if not _is_ignored(name)]
    return folders, modules


def _is_ignored(path: str) -> bool:
    name = os.path.basename(path)
    return name.startswith(".") or name in IGNORED


def _digest(path: Path) -> bytes | None:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    # It was deleted, or an editor is about to replace it.
    except OSError:
        return None
