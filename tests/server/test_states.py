"""The state of a block model under `reactor run`."""

from __future__ import annotations

from tests.server.client import controlling
from tests.server.running import RunningServer

MODEL = """
class Look(InputState):
    level: int = InputField(default=100, ge=0, le=255, label="Brightness")
    shown: int = 0

class MyModel(VideoModel):
    state: Look

    def start_session(self):
        while not get_ctx().should_stop():
            self.state.shown = level = self.state.level
            get_ctx().emit_block(np.stack([gray(level)] * 4))
"""


async def test_each_client_of_a_block_model_starts_with_the_defaults_and_sets_the_fields(server: RunningServer) -> None:
    for _ in range(2):
        server.wait_for_health("ready")
        async with controlling(server.url) as controller:
            welcome = controller.texts[0]["data"]
            assert welcome["schema"]["events"]["set_level"]["field"] == "level"
            assert welcome["state"] == {"level": 100, "shown": 0}
            assert abs((await controller.frame()).level - 100) < 3
            assert (await controller.ask("set_level", {"level": 300}))["data"]["code"] == "invalid_event"
            assert (await controller.ask("set_level", {"level": 200}))["data"] == {"n": 1}
            assert abs((await controller.frame(applied=1)).level - 200) < 3
            states = [text["data"] for text in controller.texts if text["type"] == "reactor.state"]
        # Two changes may come in one message.
        (first, shown), (second, shown_later) = [(n, each["shown"]) for n, each in enumerate(states) if "shown" in each]
        ((set_at, level),) = [(n, each["level"]) for n, each in enumerate(states) if "level" in each]
        assert (shown, level, shown_later) == (100, 200, 200)
        assert first <= set_at <= second
