"""Messages that are nearly right, by the hundred: each with an id is answered, and nobody else notices."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.hostile.grammar import hostile
from tests.hostile.siege import MODEL, Siege, besiege, watching
from tests.processes import descriptors
from tests.server.running import RunningServer, serving, write_project
from tests.timeouts import TIMEOUT_S

COUNT = 700
SEED = 20
KNOWN_CODES = {
    "invalid_json", "invalid_message", "invalid_event", "unknown_event", "unresolved_upload", "bad_media",
    "unknown_track", "not_controller", "rate_limited",
}  # fmt: skip


@pytest.fixture(scope="module")
def besieged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("model"), MODEL)) as server:
        yield server
        assert "Traceback" not in server.log
        assert not re.search(r"^\S+ error ", server.log, re.MULTILINE)


def assert_answered(siege: Siege) -> None:
    assert siege.sent > COUNT // 2
    assert siege.unanswered == []
    assert siege.wrongly == []
    assert set(siege.codes) <= KNOWN_CODES


async def test_a_controller_s_hostile_messages_are_all_answered(besieged: RunningServer) -> None:
    engine = besieged.engine
    siege = await besiege(besieged.url, "controller", hostile(COUNT, SEED), within_s=TIMEOUT_S)
    assert_answered(siege)
    assert siege.codes["internal_error"] == 0
    assert besieged.engine == engine, "the model's process has lived through it"


async def test_a_viewer_s_hostile_messages_don_t_disturb_the_controller_s_stream(besieged: RunningServer) -> None:
    held = descriptors(besieged.process.pid)
    async with watching(besieged.url) as stream:
        siege = await besiege(besieged.url, "viewer", hostile(COUNT, SEED + 1), within_s=TIMEOUT_S)
    assert_answered(siege)
    assert stream.missing == 0
    assert len(stream.seqs) > 10
    besieged.until(lambda: descriptors(besieged.process.pid) <= held, "end of its connections")
