"""Watches the files of a project for `--reload`: Python files, `reactor.yaml` and the config."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import watchfiles

T = TypeVar("T")

IGNORED = frozenset({"__pycache__", "node_modules", "site-packages", "venv"})
# How long files have to be unchanged: an editor writes in several parts, and git checks out one file after the other.
QUIET_MS = 40
LONGEST_MS = 400
# watchfiles looks for changes each time this has passed, and reports them when it has passed once or twice more.
STEP_MS = 10


async def saved_files(project: Path, files: Callable[[], Collection[Path]]) -> AsyncIterator[frozenset[Path]]:
    """Yield all watched files when they have been read, then each time those whose content has changed.

    These are the Python files of a project, and those of `files()`. Folders that begin with a dot, virtual
    environments and `node_modules` are left out. Folders may be deleted and made again, also that of the project.
    """
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    folders: set[str] = set()
    # No digest is empty: the first comparison finds all files.
    digests: dict[Path, bytes | None] = dict.fromkeys(files(), b"")

    def concerns(_: watchfiles.Change, path: str) -> bool:
        # A watched folder, also after its deletion, or one around the project or a file.
        if path in folders or any(each.is_relative_to(path) for each in (project, *files())):
            return True
        may_matter = path.endswith(".py") or (os.path.isdir(path) and not _is_ignored(path))
        return may_matter and Path(path).is_relative_to(project)

    def changed(paths: Collection[Path]) -> frozenset[Path]:
        contents = {path: _digest(path) for path in paths}
        found = frozenset(path for path, each in contents.items() if path not in digests or digests[path] != each)
        digests.update(contents)
        return found

    while True:
        folders, _ = await asyncio.to_thread(folders_and_modules, project, files())
        async with contextlib.aclosing(_changes(folders, concerns)) as changes:
            async for paths in changes:
                _, modules = await asyncio.to_thread(folders_and_modules, project, files())
                known = digests.keys() | modules | set(files())
                if saved := await asyncio.to_thread(changed, known if paths is None else known & paths):
                    yield saved
                # After the yield, which may have changed `files()`.
                if (await asyncio.to_thread(folders_and_modules, project, files()))[0] != folders:
                    break


async def _changes(
    folders: Collection[str], concerns: Callable[[watchfiles.Change, str], bool]
) -> AsyncGenerator[set[Path] | None]:
    """Yield None when the folders are watched, then the paths of changes; end when one of the folders is deleted."""
    # Imported here: only --reload needs it.
    import watchfiles

    watched = watchfiles.awatch(*folders, watch_filter=concerns, step=STEP_MS, debounce=STEP_MS, recursive=False)
    try:
        async with contextlib.aclosing(merged(watched)) as merged_changes:
            async for changes in merged_changes:
                yield None if changes is None else {Path(path) for _, path in changes}
                # The watch ends with its folder, of whose name there may be a new one.
                if any(change is watchfiles.Change.deleted and path in folders for change, path in changes or ()):
                    return
    # A folder was deleted before it was watched.
    except FileNotFoundError:
        return


async def merged(reports: AsyncIterator[set[T]]) -> AsyncGenerator[set[T] | None]:
    """Yield None when the first report is awaited, then sets of changes that are less than QUIET_MS apart.

    A set has the changes of at most LONGEST_MS.
    """
    coming = asyncio.ensure_future(anext(reports))
    now = asyncio.get_running_loop().time
    quiet_s = (QUIET_MS + 2 * STEP_MS) / 1000
    try:
        # This pass of the loop begins `anext`.
        await asyncio.sleep(0)
        yield None
        while True:
            changes = set(await coming)
            coming = asyncio.ensure_future(anext(reports))
            end = now() + LONGEST_MS / 1000
            while (left_s := end - now()) > 0 and await _is_done(coming, min(quiet_s, left_s)):
                changes |= coming.result()
                coming = asyncio.ensure_future(anext(reports))
            yield changes
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


async def _is_done(future: asyncio.Future[Any], timeout_s: float) -> bool:
    done, _ = await asyncio.wait([future], timeout=timeout_s)
    return bool(done)


def folders_and_modules(project: Path, files: Collection[Path]) -> tuple[set[str], set[Path]]:
    """Return the folders to watch for a project and `files`, and the Python files of the project.

    The folders are those that may have modules, and the nearest existing one around the project and around each file.
    A virtual environment has a `pyvenv.cfg`.
    """
    # A folder in which a process works, such as the server, does not report its own end.
    folders = {str(next(filter(Path.is_dir, path.parents), path)) for path in (project, *files)}
    modules: set[Path] = set()
    for folder, inside, names in os.walk(project):
        if "pyvenv.cfg" in names:
            inside.clear()
            continue
        folders.add(folder)
        modules.update(Path(folder, name) for name in names if name.endswith(".py"))
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
