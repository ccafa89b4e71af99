"""A served model that decides about values while its steps continue."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.server.client import controlling
from tests.server.running import RunningServer, serving, write_project
from tests.timeouts import TIMEOUT_S

MODEL = """
import asyncio

class MyState(InputState):
    prompt: str = InputField(default="a cat", moderate=True)
    speed: float = 1.0

class MyModel(ReactorPipeline):
    state: MyState
    fps = 10
    fast_steps = 0
    deciding = waiting = False

    async def moderate(self, value, *, event, field, client):
        if value == "a bird":
            # Until two steps have had the value of another field, and one waits for the end of this decision.
            while self.fast_steps < 2:
                await asyncio.sleep(0.01)
            self.deciding = True
            while not self.waiting:
                await asyncio.sleep(0.01)
            self.deciding = False
        return value != "bad"

    def inference(self):
        while True:
            self.fast_steps += self.state.speed == 2.0
            while self.deciding:
                self.waiting = True
                time.sleep(0.01)
            yield gray(100)
"""


async def test_a_refusal_names_the_field_and_an_accepted_value_is_applied(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        refused = await controller.ask("set_prompt", {"prompt": "bad"}, id="a")
        assert (refused["type"], refused["data"]["code"]) == ("reactor.error", "invalid_event")
        assert refused["data"]["fields"] == [{"path": "set_prompt.prompt", "message": "refused by the moderation"}]
        applied = await controller.ask("set_prompt", {"prompt": "a dog"}, id="b")
        assert (applied["type"], applied["data"]["n"]) == ("reactor.reply", 1)


async def test_steps_and_setters_of_other_fields_do_not_wait_for_a_decision(server: RunningServer) -> None:
    async with controlling(server.url) as controller:
        await controller.frame()
        await controller.send("set_prompt", {"prompt": "a bird"}, id="prompt")
        await controller.send("set_speed", {"speed": 2.0}, id="speed")
        first = await controller.message("reactor.reply")
        second = await controller.message("reactor.reply")
        assert [(first["id"], first["data"]["n"]), (second["id"], second["data"]["n"])] == [("speed", 1), ("prompt", 2)]


def test_the_values_that_nobody_decides_about_are_named_at_the_start(tmp_path: Path) -> None:
    unmoderated = MODEL.replace("async def moderate", "async def unrelated")
    with serving(write_project(tmp_path, unmoderated)) as server:
        assert "not moderated, because MyModel has no method moderate: set_prompt.prompt\n" in server.log


BLOCKED = """
class MyState(InputState):
    prompt: str = InputField(default="a cat", moderate=True)

class MyModel(ReactorModel):
    state: MyState
    output: MyOutput

    async def moderate(self, value, *, event, field, client):
        print("DECIDING", flush=True)
        time.sleep(600)

    async def run(self):
        try:
            while True:
                await self.emit(gray(100))
        finally:
            print("THE RUN HAS ENDED", flush=True)
"""


async def test_a_decision_that_blocks_does_not_keep_run_from_its_end(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, BLOCKED), stop_s=TIMEOUT_S) as server:
        async with controlling(server.url) as controller:
            await controller.send("set_prompt", {"prompt": "a dog"})
            await asyncio.to_thread(server.wait_for, "DECIDING")
    assert "THE RUN HAS ENDED" in server.log
