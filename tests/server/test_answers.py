"""The answer to an event comes after the messages that its handler sent, in every authoring style."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.client import controlling
from tests.server.running import started, write_project

MESSAGES = """
class Note(ModelMessage):
    number: int

class Done(ModelMessage):
    text: str
"""
HANDLER = """
    @event(name="work")
    async def work(self, client: ClientInfo, fails: bool = False):
        for number in range(3):
            await self.send(Note(number=number))
        await client.send(Note(number=3))
        if fails:
            raise CommandError("late", "too late")
        return Done(text="done")
"""
# Frames wait for up to 0.4 s, and so do messages.
STYLES = {
    "pipeline": f"""
{MESSAGES}
class MyModel(ReactorPipeline):
    output: MyOutput
    state: InputState
    fps = 10
    buffer_size = 4
{HANDLER}
    def inference(self):
        while True:
            yield MyOutput(main_video=gray(1))
""",
    "loop": f"""
{MESSAGES}
class MyModel(ReactorModel):
    output: MyOutput
    fps = 10
    buffer_size = 4
{HANDLER}
    async def run(self):
        while True:
            await self.emit(MyOutput(main_video=gray(1)))
""",
    "block": """
class MyModel(VideoModel):
    fps = 10

    @command("work")
    def work(self, fails: bool = False):
        for number in range(4):
            get_ctx().send({"type": "note", "data": {"number": number}})
        if fails:
            raise CommandError("late", "too late")

    def start_session(self):
        while not get_ctx().should_stop():
            get_ctx().emit_block(np.stack([gray(1)] * 4))
""",
}


@pytest.mark.parametrize("style", STYLES)
async def test_the_answer_to_an_event_follows_the_messages_of_its_handler(tmp_path: Path, style: str) -> None:
    with started(write_project(tmp_path, STYLES[style]), "--sessions", "2") as server:
        server.wait_for("ready 2 of 2")
        async with controlling(server.url) as client:
            await client.frame()
            for number in range(6):
                fails = number % 2 == 1
                answer = await client.ask("work", {"fails": fails}, id=number)
                assert answer["type"] == ("reactor.error" if fails else "reactor.reply")
                order = [text["data"]["number"] for text in client.texts if text["type"] == "note"]
                assert order == [0, 1, 2, 3] * (number + 1)
