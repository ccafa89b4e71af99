"""The keys of clients for uploads, and the files on their way to the engine."""

from __future__ import annotations

import pytest

from reactor_runtime.ipc.messages import UploadedBytes
from reactor_runtime.server.sessions.incoming_uploads import IncomingUploads
from tests.fakes import FakeEngine


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def uploads(engine: FakeEngine) -> IncomingUploads:
    return IncomingUploads(engine.send)


def test_each_client_has_a_key_of_its_own_which_begins_with_that_of_the_session(uploads: IncomingUploads) -> None:
    keys = [uploads.key_of(client) for client in ("c-1", "c-2")]
    assert [uploads.client_of(key, ["c-1", "c-2"]) for key in keys] == ["c-1", "c-2"]
    assert {key.partition(".")[0] for key in keys} == {uploads.key}
    assert uploads.key_of("c-1") == keys[0]


def test_a_key_is_wrong_without_its_client_and_in_another_session(uploads: IncomingUploads) -> None:
    key = uploads.key_of("c-1")
    assert uploads.client_of(key, ["c-2"]) is None
    assert IncomingUploads(FakeEngine().send).client_of(key, ["c-1"]) is None


@pytest.mark.parametrize("rest", ["", ".", ".c-1", "é", "\udc80"])
def test_the_key_of_the_session_with_anything_else_is_wrong(rest: str, uploads: IncomingUploads) -> None:
    assert uploads.client_of(uploads.key + rest, ["c-1"]) is None


async def test_a_file_is_sent_at_once_and_its_event_set_when_the_engine_has_taken_it(
    engine: FakeEngine, uploads: IncomingUploads
) -> None:
    files = [UploadedBytes("s-1", f"u-{number}", "a", "image/png", "", "c-1", b"x") for number in range(2)]
    taken = [uploads.send_file(file) for file in files]
    assert engine.of(UploadedBytes) == files
    uploads.on_taken("u-1")
    assert [each.is_set() for each in taken] == [False, True]
