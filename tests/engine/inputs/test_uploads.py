from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.engine.inputs import uploads as module
from reactor_runtime.engine.inputs.uploads import MOST_FILES, SessionUploads
from reactor_runtime.ipc.messages import UploadedBytes


def upload(id: str, *, session: str = "s-1", path: str = "", file: bytes = b"x") -> UploadedBytes:
    return UploadedBytes(session, id, "cat.png", "image/png", path, "c-1", file)


@pytest.fixture
def uploads() -> SessionUploads:
    uploads = SessionUploads()
    uploads.begin_session("s-1")
    return uploads


def test_a_file_is_found_by_its_id_until_the_session_is_over(uploads: SessionUploads, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"large")
    uploads.receive_file(upload("u-1"))
    uploads.receive_file(upload("u-2", path=str(tmp_path / "large"), file=b""))
    assert [file.read() for file in uploads.values()] == [b"x", b"large"]
    held = uploads["u-2"]
    uploads.clear()
    assert len(uploads) == 0
    assert held.read() == b"large"


@pytest.mark.parametrize(
    ("content_type", "name"),
    [("image/png", "upload.png"), ("application/octet-stream", "upload.bin"), ("model/unheard-of", "upload.bin")],
)
def test_a_file_without_a_name_gets_one_of_its_type(uploads: SessionUploads, content_type: str, name: str) -> None:
    uploads.receive_file(UploadedBytes("s-1", "u-1", "", content_type, "", "c-1", b"x"))
    assert uploads["u-1"].name == name


def test_a_file_for_a_session_that_is_over_is_not_kept(uploads: SessionUploads, tmp_path: Path) -> None:
    (tmp_path / "late").write_bytes(b"late")
    uploads.clear()
    uploads.receive_file(upload("u-1", path=str(tmp_path / "late")))
    uploads.begin_session("s-2")
    uploads.receive_file(upload("u-2"))
    assert list(uploads) == []
    assert not (tmp_path / "late").exists()


def test_of_many_files_the_newest_are_kept(uploads: SessionUploads) -> None:
    for number in range(MOST_FILES + 2):
        uploads.receive_file(upload(f"u-{number}"))
    assert list(uploads) == [f"u-{number}" for number in range(2, MOST_FILES + 2)]


def test_of_large_files_the_newest_are_kept_and_one_however_large(uploads: SessionUploads) -> None:
    half = UploadedFile(b"")
    half.size_bytes = module.MOST_BYTES // 2
    more = UploadedFile(b"")
    more.size_bytes = module.MOST_BYTES + 1
    for file in (half, more):
        uploads.add(file)
    assert list(uploads) == [more.id]
    uploads.add(half)
    uploads.add(half)
    assert list(uploads) == [half.id]


def test_a_missing_file_is_logged(uploads: SessionUploads, caplog: pytest.LogCaptureFixture) -> None:
    uploads.receive_file(upload("u-1", path="/nowhere/at/all"))
    assert list(uploads) == []
    assert "can't be opened" in caplog.text


def test_a_session_that_ends_while_files_come_leaves_nothing_behind(uploads: SessionUploads) -> None:
    """Two threads, as in the engine: without a lock this fails in most runs."""
    over = threading.Event()
    failed: list[Exception] = []

    def read() -> None:
        try:
            while not over.is_set():
                for number in range(MOST_FILES + 8):
                    uploads.receive_file(upload(f"u-{number}"))
        except Exception as error:  # noqa: BLE001
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(2000):
            uploads.clear()
            uploads.begin_session("s-1")
        over.set()
        reader.join()
    finally:
        sys.setswitchinterval(interval)
    uploads.clear()
    uploads.receive_file(upload("u-0"))
    assert (failed, list(uploads)) == ([], [])


def test_a_file_can_be_found_when_it_is_reported() -> None:
    found: list[tuple[bool, str]] = []
    added = SessionUploads(lambda file, client: found.append((file.id in added, client)))
    added.begin_session("s-1")
    added.receive_file(upload("u-1"))
    assert found == [(True, "c-1")]
