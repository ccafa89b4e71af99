"""The file of a recorded session, without the thread that writes it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from reactor_runtime.engine.session_file import SECOND_NS, LastMinute, ReloadedFiles, SessionFile, read_settings
from reactor_runtime.recording.entries import EndEntry, EventEntry, Header, KeptEntry, ReloadEntry
from reactor_runtime.recording.file import SessionRecording, hash_content, read_recording
from reactor_runtime.recording.pieces import ReloadKind
from tests.recording.test_file import HEADER


def started(tmp_path: Path, sources: dict[str, bytes] | None = None, header: Header = HEADER) -> SessionFile:
    return SessionFile(
        header, tmp_path / "recordings", tmp_path, sources or {}, temporary=False, most_temporary_bytes=0
    )


def recorded(tmp_path: Path) -> SessionRecording:
    (path,) = (tmp_path / "recordings").iterdir()
    return read_recording(path)


@pytest.mark.parametrize("flush", [False, True])
def test_an_entry_is_in_the_file_when_it_was_flushed(tmp_path: Path, flush: bool) -> None:
    file = started(tmp_path)
    file.write(EventEntry(0, "turn", "{}"), 1, flush=flush)
    assert recorded(tmp_path).events == ([EventEntry(0, "turn", "{}")] if flush else [])
    file.close()


def test_a_file_that_is_kept_has_all_entries(tmp_path: Path) -> None:
    file = started(tmp_path)
    file.write(EventEntry(0, "turn", "{}"), 1, flush=False)
    path = file.keep(2)
    assert (recorded(tmp_path).path, recorded(tmp_path).kept) == (path, [KeptEntry(0, 0)])
    file.write(EndEntry(0), 3, flush=False)
    assert file.keep(4) == path
    assert recorded(tmp_path).kept == [KeptEntry(0, 0)]


@pytest.mark.parametrize(
    ("kinds", "contents"),
    [
        (["applied", "applied"], [b"one", b"two"]),
        (["applied", "applied", "reverted"], [b"one", b"two", b"one"]),
        (["applied", "failed"], [b"one", b"one"]),
        (["applied", "failed", "reverted"], [b"one", b"one", b"none"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value[0], str) else None,
)
def test_the_hashes_of_a_reload_are_those_of_the_code_that_is_used(
    tmp_path: Path, kinds: list[ReloadKind], contents: list[bytes]
) -> None:
    model = str(tmp_path / "model.py")
    file = started(tmp_path, {model: b"none"})
    for kind, content in zip(kinds, (b"one", b"two", b"two"), strict=False):
        file.write(ReloadedFiles(ReloadEntry(1, kind, waiting=False, config="{}"), {model: content}), 1, flush=True)
    assert recorded(tmp_path).header.files == {"model.py": hash_content(b"none")}
    assert [each.entry.files["model.py"] for each in recorded(tmp_path).reloads] == [
        hash_content(content) for content in contents
    ]
    file.close()


def test_a_reload_has_the_hashes_of_the_settings_as_they_were_then(tmp_path: Path) -> None:
    config = tmp_path / "config.yml"
    config.write_bytes(b"a: 1")
    began_with = read_settings(tmp_path)
    config.write_bytes(b"a: 2")
    reloaded_with = read_settings(tmp_path)
    config.write_bytes(b"a: 3")
    file = started(tmp_path, began_with)
    file.write(ReloadedFiles(ReloadEntry(1, "loaded", waiting=False, config="{}"), reloaded_with), 1, flush=True)
    assert recorded(tmp_path).header.files == {"config.yml": hash_content(b"a: 1")}
    assert recorded(tmp_path).files == {"config.yml": hash_content(b"a: 2")}
    file.close()


def test_modules_have_the_hashes_of_what_was_executed_and_installed_ones_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, place in (("a_model", "a_model.py"), ("installed", ".venv/site-packages/installed.py")):
        module = ModuleType(name)
        module.__file__ = str(tmp_path / place)
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_bytes(b"saved since")
        monkeypatch.setitem(sys.modules, name, module)
    started(tmp_path, {str(tmp_path / "a_model.py"): b"executed"}).close()
    assert recorded(tmp_path).header.files == {"a_model.py": hash_content(b"executed")}


def test_the_last_minute_begins_with_a_step_of_each_second() -> None:
    last_minute = LastMinute()
    assert last_minute.entry() == KeptEntry(0, 0)
    for step in range(751):
        last_minute.add_step(step, step * SECOND_NS // 10)
        assert last_minute.entry() == KeptEntry(step, max(0, (step - 600) // 10 * 10))
