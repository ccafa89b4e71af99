from __future__ import annotations

import gc
import io
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from reactor_runtime.authoring.code.annotations import Scope
from reactor_runtime.authoring.values.arguments import EventArguments
from reactor_runtime.authoring.values.fields import FieldSpec, InputField, compile_field
from reactor_runtime.authoring.values.jsonable import to_json
from reactor_runtime.authoring.values.upload import UploadedFile
from reactor_runtime.errors import InvalidEvent

CONTENT = bytes(range(256)) * 40


def in_memory(_: Path) -> UploadedFile:
    return UploadedFile(CONTENT, name="cat.png", content_type="image/png")


def on_disk(directory: Path) -> UploadedFile:
    path = directory / "file"
    path.write_bytes(CONTENT)
    file = UploadedFile.received("u-1", path, name="cat.png", content_type="image/png")
    assert not path.exists()
    return file


both = pytest.mark.parametrize("make", [in_memory, on_disk])
Make = Callable[[Path], UploadedFile]


@both
def test_a_file_is_read_whole_and_in_pieces(make: Make, tmp_path: Path) -> None:
    file = make(tmp_path)
    assert (file.name, file.content_type, file.size_bytes) == ("cat.png", "image/png", len(CONTENT))
    assert (file.mime_type, file.size, file.data) == ("image/png", len(CONTENT), CONTENT)
    assert file.read() == CONTENT == file.read()
    with file.open() as opened:
        assert opened.read(10) == CONTENT[:10]
        assert opened.seek(-6, io.SEEK_END) == len(CONTENT) - 6
        assert opened.read() == CONTENT[-6:]
        opened.seek(100)
        opened.seek(3, io.SEEK_CUR)
        assert (opened.tell(), opened.read(1)) == (103, CONTENT[103:104])
    assert file.open().read(4) == CONTENT[:4]


@both
def test_several_threads_read_it_at_a_time(make: Make, tmp_path: Path) -> None:
    file = make(tmp_path)
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(lambda _: file.read(), range(40))) == {CONTENT}


def test_an_open_file_can_be_read_after_the_upload_object_is_gone(tmp_path: Path) -> None:
    opened = on_disk(tmp_path).open()
    gc.collect()
    assert opened.read() == CONTENT


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are counted through /proc")
def test_the_descriptor_goes_with_the_file(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    file = on_disk(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    del file
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_there_is_no_position_before_the_beginning(tmp_path: Path) -> None:
    with on_disk(tmp_path).open() as opened, pytest.raises(ValueError, match="no position -1"):
        opened.seek(-1)


def test_the_repr_has_name_type_and_size(tmp_path: Path) -> None:
    text = "UploadedFile(name='cat.png', content_type='image/png', size_bytes=10240)"
    assert repr(in_memory(tmp_path)) == repr(on_disk(tmp_path)) == text
    assert to_json(on_disk(tmp_path), "x") == {"upload": "u-1"}


@dataclass(frozen=True)
class Pair:
    left: UploadedFile
    right: UploadedFile | None = None


def field(hint: object, declared: object) -> FieldSpec:
    return compile_field("x", hint, declared, Scope.of_class(Pair, {}), "State.x")


@pytest.mark.parametrize(
    ("hint", "text"),
    [
        (UploadedFile, '{"upload": "u-1"}'),
        (UploadedFile, '{"upload_id": "u-1"}'),
        (UploadedFile | None, '{"upload": "u-1"}'),
        (list[UploadedFile], '[{"upload": "u-1"}]'),
        (Pair, '{"left": {"upload": "u-1"}}'),
    ],
    ids=["plain", "upload_id", "optional", "list", "dataclass"],
)
def test_a_value_names_a_file_that_is_there(hint: object, text: str) -> None:
    file = UploadedFile(b"x")
    payload = EventArguments("take", [field(hint, InputField())])
    value = payload.validate(f'{{"x": {text}}}', {"u-1": file})["x"]
    assert file in (value, getattr(value, "left", None), *(value if isinstance(value, list) else ()))
    with pytest.raises(InvalidEvent, match='there is no file "u-1" in this session') as caught:
        payload.validate(f'{{"x": {text}}}')
    assert caught.value.code == "unresolved_upload"


@pytest.mark.parametrize(
    "text",
    ['"u-1"', "{}", "null", '{"upload": 3}', '{"upload": "u-1", "name": "x"}', '{"upload": "u-1", "upload_id": "u-1"}'],
)
def test_a_value_that_names_no_file_is_invalid(text: str) -> None:
    payload = EventArguments("take", [field(UploadedFile, InputField())])
    with pytest.raises(InvalidEvent) as caught:
        payload.validate(f'{{"x": {text}}}', {"u-1": UploadedFile(b"x")})
    assert caught.value.code == "invalid_event"


def test_a_default_can_be_no_file() -> None:
    with pytest.raises(TypeError, match=r"State\.x: default: .* write UploadedFile \| None = None"):
        field(UploadedFile, UploadedFile(b"x"))


def test_a_file_has_no_limits() -> None:
    assert field(UploadedFile | None, InputField(default=None, max_length=3)).ignored == (
        "max_length does not apply to UploadedFile",
    )


def test_the_schema_has_the_upload_format() -> None:
    assert field(UploadedFile, InputField()).to_json() == {
        "type": "object",
        "format": "upload",
        "properties": {"upload": {"type": "string", "maxLength": 100}},
        "required": ["upload"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "file",
    [
        UploadedFile("cat.png", "image/png", b"abc"),
        UploadedFile("cat.png", mime_type="image/png", data=b"abc"),
        UploadedFile(name="cat.png", content_type="image/png", data=bytearray(b"abc")),
        UploadedFile(b"abc", name="cat.png", mime_type="image/png"),
        UploadedFile(memoryview(b"abc"), name="cat.png", content_type="image/png"),
        UploadedFile(name="cat.png", content_type="image/png", content=b"abc"),
    ],
)
def test_a_file_is_made_with_its_name_first_or_with_its_bytes_first(file: UploadedFile) -> None:
    assert (file.name, file.mime_type, file.content_type, file.data, file.size) == (
        "cat.png",
        "image/png",
        "image/png",
        b"abc",
        3,
    )


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("a", "b", b"c", 1), {}),
        (("a",), {"name": "b"}),
        ((b"a",), {"data": b"b"}),
        ((), {"size": 3}),
        (("a", "b", "c"), {}),
        ((3,), {}),
        ((None,), {}),
    ],
)
def test_wrong_arguments_of_a_file_are_an_error_with_the_form(arguments: Any, options: Any) -> None:
    with pytest.raises(TypeError, match=r'UploadedFile\("cat.png", "image/png", b"…"\)'):
        UploadedFile(*arguments, **options)
