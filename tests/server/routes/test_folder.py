from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reactor_runtime.server.routes.folder import TemporaryFolder
from tests.timeouts import TIMEOUT_S

KILLED = """
import os, signal
from reactor_runtime.server.routes.folder import TemporaryFolder

folder = TemporaryFolder()
folder.make()
(folder.path / "file").write_bytes(b"large")
print(folder.path, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def killed(parent: Path) -> Path:
    """Make a folder with a file in a process that is killed."""
    process = subprocess.run(
        [sys.executable, "-c", KILLED], env={"TMPDIR": str(parent)}, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    return Path(process.stdout.strip())


def test_a_folder_is_made_when_needed_for_this_user_only_and_removed_with_its_content(parent: Path) -> None:
    folder = TemporaryFolder()
    assert list(parent.iterdir()) == []
    folder.make()
    folder.make()
    assert list(parent.iterdir()) == [folder.path]
    assert folder.path.stat().st_mode & 0o777 == 0o700
    (folder.path / "file").write_bytes(b"")
    folder.remove()
    folder.remove()
    assert list(parent.iterdir()) == []


def test_only_the_folder_of_a_killed_server_is_removed(parent: Path) -> None:
    running, abandoned = TemporaryFolder(), killed(parent)
    running.make()
    assert (abandoned / "file").exists()
    TemporaryFolder().remove_abandoned()
    assert list(parent.iterdir()) == [running.path]
    running.remove()


def test_other_folders_with_a_similar_name_are_kept(parent: Path) -> None:
    elsewhere = parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_bytes(b"")
    (parent / f"reactor-uploads-{16 * '0'}").symlink_to(elsewhere)
    (parent / f"reactor-uploads-{16 * '1'}").write_bytes(b"a file")
    (parent / "reactor-uploads-mine").mkdir()
    TemporaryFolder().remove_abandoned()
    assert len(list(parent.iterdir())) == 4
    assert (elsewhere / "file").exists()


def test_a_missing_parent_is_an_error_only_when_a_folder_is_needed(parent: Path) -> None:
    folder = TemporaryFolder()
    parent.rmdir()
    folder.remove_abandoned()
    with pytest.raises(OSError, match="No such file"):
        folder.make()
    folder.remove()
