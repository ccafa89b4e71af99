"""Which GPU the model's processes are told of, and what one that is broken is to the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.server.running import listening, started, write_project
from tests.server.session_client import visiting

MODEL = """
class MyState(InputState):
    pass


visible = os.environ.get("CUDA_VISIBLE_DEVICES")
print(f"imported sees {visible}", flush=True)


class MyModel(ReactorPipeline):
    state: MyState

    def load(self, config):
        if visible in str(config.get("broken", "")).split():
            raise RuntimeError(f"GPU {visible} has fallen off the bus")

    def inference(self):
        while True:
            yield gray(100)
"""


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (("--gpus", "3"), ["3"]),
        (("--gpus", "1,0"), ["1", "0"]),
        (("--gpus", "GPU-8932f937,1", "--sessions", "3"), ["GPU-8932f937", "1", "GPU-8932f937"]),
        (("--sessions", "2"), ["7,8", "7,8"]),
    ],
    ids=["one", "two", "shared in turn", "not ours to say"],
)
def test_each_engine_sees_its_gpu_before_anything_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], seen: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,8")
    with listening(write_project(tmp_path, MODEL), *arguments) as server:
        server.wait_for(f"ready {len(seen)} of {len(seen)} in" if len(seen) > 1 else "ready in")
        assert re.findall("imported sees (.+)", server.log) == seen
        if "--gpus" in arguments:
            assert re.findall(r"^ready .* s, (?:GPU )?(\S+)$", server.log, re.MULTILINE) == seen
        server.stop()


async def test_a_gpu_that_is_broken_leaves_the_others_to_serve(tmp_path: Path) -> None:
    with listening(write_project(tmp_path, MODEL), "--gpus", "0,1", "--set", "broken='0'") as server:
        server.wait_for("ready 1 of 2 in .* GPU 1$")
        async with visiting(server.url) as session:
            await session.frame()
        assert "GPU 0 has fallen off the bus" in server.log
        assert re.search("engine 1: this engine can't serve the model, the others continue", server.log)
        server.wait_for_health("ready")
        assert [each["status"] for each in server.health()[1]["engines"]] == ["failed", "ready"]
        server.stop()


def test_where_all_are_broken_the_server_ends_and_says_why(tmp_path: Path) -> None:
    with started(write_project(tmp_path, MODEL), "--gpus", "0,1", "--set", "broken='0 1'") as server:
        assert server.ended() == 4
        assert "error: load() failed: RuntimeError: GPU 1 has fallen off the bus" in server.log
