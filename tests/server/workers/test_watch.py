"""`saved_files()`: the files of a project whose content changes on disk."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reactor_runtime.server.workers.watch import saved_files


class Saves:
    """What is saved, once the files are watched."""

    def __init__(self, saves: AsyncIterator[frozenset[Path]]) -> None:
        self._saves = saves
        self._next: asyncio.Future[frozenset[Path]] = asyncio.ensure_future(anext(saves))

    async def next(self) -> set[str]:
        paths = await self._next
        self._next = asyncio.ensure_future(anext(self._saves))
        # The files are watched from the first step of this task on.
        await asyncio.sleep(0)
        return {path.name for path in paths}

    async def aclose(self) -> None:
        self._next.cancel()
        await asyncio.gather(self._next, return_exceptions=True)


@pytest.fixture
async def saves(tmp_path: Path) -> AsyncIterator[Saves]:
    for name in ("reactor.yaml", "model.py", "part.py"):
        (tmp_path / name).write_text("")
    saves = Saves(saved_files(tmp_path, lambda: {tmp_path / "reactor.yaml"}))
    assert await saves.next() == {"reactor.yaml", "model.py", "part.py"}
    yield saves
    await saves.aclose()


async def test_a_new_folder_without_modules_is_no_save(tmp_path: Path, saves: Saves) -> None:
    (tmp_path / "recordings").mkdir()
    (tmp_path / "recordings" / "kept.mcap").write_text("")
    (tmp_path / "part.py").write_text("LEVEL = 1")
    assert await saves.next() == {"part.py"}
    (tmp_path / "model.py").write_text("LEVEL = 2")
    assert await saves.next() == {"model.py"}


async def test_modules_of_folders_that_come_and_go_are_saves(tmp_path: Path, saves: Saves) -> None:
    outside = tmp_path / ".outside"
    outside.mkdir()
    (outside / "inside.py").write_text("")
    outside.rename(tmp_path / "package")
    assert await saves.next() == {"inside.py"}
    (tmp_path / "package").rename(outside)
    assert await saves.next() == {"inside.py"}
    shutil.move(outside, tmp_path / "package")
    assert await saves.next() == {"inside.py"}


async def test_a_file_that_is_written_without_a_change_is_no_save(tmp_path: Path, saves: Saves) -> None:
    (tmp_path / "part.py").write_text("")
    (tmp_path / "reactor.yaml").write_text("name: other")
    assert await saves.next() == {"reactor.yaml"}
