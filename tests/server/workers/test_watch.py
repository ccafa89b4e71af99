"""`saved_files()`: the files of a project whose content changes on disk."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from reactor_runtime.server.workers.watch import merged, saved_files
from reactor_runtime.testing.clock import FakeClock, FakeLoop, RunningThreads
from tests.timeouts import TIMEOUT_S


class Saves:
    """What is saved, once the files are watched."""

    def __init__(self, saves: AsyncIterator[frozenset[Path]]) -> None:
        self._saves = saves
        self._next: asyncio.Future[frozenset[Path]] = asyncio.ensure_future(anext(saves))

    async def next(self) -> set[str]:
        paths = await asyncio.wait_for(self._next, TIMEOUT_S)
        self._next = asyncio.ensure_future(anext(self._saves))
        return {path.name for path in paths}

    async def aclose(self) -> None:
        self._next.cancel()
        await asyncio.gather(self._next, return_exceptions=True)


FILES = {"reactor.yaml", "model.py", "part.py"}


def write_files(folder: Path, text: str = "") -> None:
    for name in FILES:
        (folder / name).write_text(text)


@pytest.fixture
async def saves(tmp_path: Path) -> AsyncIterator[Saves]:
    write_files(tmp_path)
    async with watched(tmp_path, {tmp_path / "reactor.yaml"}) as saves:
        yield saves


@contextlib.asynccontextmanager
async def watched(project: Path, files: set[Path]) -> AsyncIterator[Saves]:
    saves = Saves(saved_files(project, lambda: files))
    assert await saves.next() >= {"model.py", "part.py"}
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


REMOVALS = pytest.mark.parametrize("moved", [False, True], ids=["deleted", "moved"])


def remove(folder: Path, *, moved: bool) -> None:
    elsewhere = Path(tempfile.mkdtemp(dir=folder.parents[1])) / "moved"
    folder.rename(elsewhere) if moved else shutil.rmtree(folder)


@REMOVALS
async def test_a_project_that_is_gone_is_watched_again_when_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: bool
) -> None:
    project = tmp_path / "above" / "project"
    project.mkdir(parents=True)
    write_files(project)
    # A folder in which a process works does not report its end.
    monkeypatch.chdir(project)
    async with watched(project, {project / "reactor.yaml"}) as saves:
        if not moved:
            for name in FILES:
                (project / name).unlink()
            assert await saves.next() == FILES
        remove(project, moved=moved)
        if moved:
            assert await saves.next() == FILES
        shutil.rmtree(project.parent)
        project.mkdir(parents=True)
        write_files(project)
        seen: set[str] = set()
        # They may be read while they are written.
        while seen != FILES:
            seen |= await saves.next()
        (project / "part.py").write_text("LEVEL = 1")
        assert await saves.next() == {"part.py"}


@REMOVALS
@pytest.mark.parametrize("name", ["project", "project/package"])
async def test_a_folder_that_is_replaced_at_once_is_watched(tmp_path: Path, name: str, moved: bool) -> None:
    folder, project = tmp_path / "above" / name, tmp_path / "above" / "project"
    folder.mkdir(parents=True)
    write_files(project)
    write_files(folder)
    async with watched(project, set()) as saves:
        for number in range(3):
            remove(folder, moved=moved)
            folder.mkdir(parents=True)
            (folder / "part.py").write_text(f"LEVEL = {number}")
            while "part.py" not in await saves.next():
                pass
            (folder / "new.py").write_text(f"LEVEL = {number}")
            assert "new.py" in await saves.next()


async def test_a_save_by_rename_with_a_backup_is_one_save(tmp_path: Path, saves: Saves) -> None:
    for number in range(3):
        (tmp_path / "part.py").rename(tmp_path / "part.py~")
        (tmp_path / "part.py").write_text(f"LEVEL = {number}")
        (tmp_path / "part.py~").unlink()
        assert await saves.next() == {"part.py"}


async def test_a_config_outside_the_project_is_watched(tmp_path: Path) -> None:
    project, config = tmp_path / "project", tmp_path / "shared" / "config.yml"
    project.mkdir()
    write_files(project)
    config.parent.mkdir()
    async with watched(project, {config}) as saves:
        for number in range(3):
            config.parent.mkdir(exist_ok=True)
            config.write_text(f"level: {number}")
            assert await saves.next() == {"config.yml"}
            if number == 1:
                shutil.rmtree(config.parent)
                assert await saves.next() == {"config.yml"}


async def test_a_file_that_is_named_later_is_watched(tmp_path: Path) -> None:
    project, config = tmp_path / "project", tmp_path / "config.yml"
    project.mkdir()
    write_files(project)
    files: set[Path] = set()
    async with watched(project, files) as saves:
        files.add(config)
        (project / "part.py").write_text("LEVEL = 1")
        assert await saves.next() >= {"part.py"}
        config.write_text("level: 1")
        assert await saves.next() == {"config.yml"}


@pytest.mark.parametrize(
    ("reported_ms", "together"),
    [
        ([5], [(65, {5})]),
        ([5, 55, 105], [(165, {5, 55, 105})]),
        ([5, 70], [(65, {5}), (130, {70})]),
        (
            list(range(0, 1000, 50)),
            [(400, set(range(0, 400, 50))), (800, set(range(400, 800, 50))), (1010, set(range(800, 1000, 50)))],
        ),
    ],
    ids=["one", "less than 40 ms apart", "more than 40 ms apart", "longer than 400 ms"],
)
def test_changes_that_follow_each_other_come_together(
    reported_ms: list[int], together: list[tuple[int, set[int]]]
) -> None:
    assert yielded(reported_ms) == together


def yielded(reported_ms: list[int]) -> list[tuple[int, set[int]]]:
    """Return when `merged` yields changes that are reported at these times, and which it yields."""
    clock = FakeClock()
    threads = RunningThreads(clock, post=lambda callback: loop.call_soon_threadsafe(callback))
    loop = FakeLoop(clock, threads)
    began = loop.time()
    found: list[tuple[int, set[int]]] = []

    async def reports() -> AsyncIterator[set[int]]:
        for at_ms in reported_ms:
            await asyncio.sleep(began + at_ms / 1000 - loop.time())
            yield {at_ms}
        await asyncio.get_running_loop().create_future()

    async def collect() -> None:
        async for changes in merged(reports()):
            if changes:
                found.append((round((loop.time() - began) * 1000), changes))

    task = loop.create_task(collect())
    loop.run_until(lambda: False, until=began + 2)
    task.cancel()
    loop.end(until=began + 3)
    return found
