"""The rows of the API on events, state and messages, in both styles over real sockets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.client import WireClient, controlling
from tests.server.running import RunningServer, serving, write_project

COMMON = """
import dataclasses, enum, threading
from typing import Literal, Optional


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass(frozen=True)
class Place:
    x: int
    y: float = 0.5


class Seen(ModelMessage):
    what: str
    colour: Colour = Colour.RED
    place: Place = MessageField(default=Place(1), description="where")
    values: list = MessageField(default=None)


class Renamed(ModelMessage):
    name = "another-name"
    by: str


class Odd(ModelMessage):
    value: object


class Events:
    said = 0

    @event(name="setPrompt")
    def camel(self, prompt: str):
        return Seen(what=prompt, values=np.arange(3))

    @event(name="set_x_y")
    async def both(self, *, x: int, y: int = 7):
        return Seen(what=f"{x},{y}", place=Place(x, y), values=np.float32(0.5))

    @event(name="set_2d_mode")
    def mode(self, mode: Literal["flat", "deep"] = "flat"):
        return Seen(what=mode, colour=Colour.BLUE, values=[])

    @event(name="paint")
    def paint(self, colour: Colour, place: Place, tags: list[str], pair: tuple[int, str], maybe: Optional[int] = None):
        assert isinstance(colour, Colour) and isinstance(place, Place)
        return Seen(what=f"{colour.name} {place.x} {place.y} {tags} {pair} {maybe}", values=[])

    @event(name="whoami")
    async def whoami(self, client: ClientInfo, loud: bool = False):
        await client.send(Renamed(by=f"{client.role} {client.id} {loud}"))

    @event(name="threaded")
    def threaded(self):
        thread = threading.Thread(target=lambda: self.send_nowait(Renamed(by="thread")))
        thread.start()
        thread.join()

    @event(name="odd")
    def odd(self):
        self.send_nowait(Odd(value=object()))

    @event(name="refuse")
    async def refuse(self):
        raise CommandError("too_late", "the show is over")

    @event(name="leave")
    def leave(self):
        raise SystemExit(3)

    @event(name="stay")
    def stay(self):
        raise ValueError("a secret")

    def parent(self):
        raise AssertionError("overridden")

    parent = event(name="inherited")(parent)

"""
PIPELINE = (
    COMMON
    + """
class ParentState(InputState):
    level: float = InputField(default=100, ge=0, lt=256, multiple_of=0.5, description="How bright")
    title: str = InputField(default="none", min_length=2, max_length=8, pattern="^[a-z]+$")


class MyState(ParentState):
    colour: Colour = Colour.RED
    place: Place = Place(1)
    maybe: Optional[int] = None
    on: bool = True
    plain: int = 3
    _private: int = 5


class MyModel(Events, ReactorPipeline):
    state: MyState
    fps = 30

    def parent(self):
        return Seen(what="child", values=[])

    @event(name="set_plain")
    def set_plain(self, plain: int):
        self.state.plain = 10 * plain

    def inference(self):
        while True:
            self.said += 1
            self.send_nowait(Renamed(by=f"before {self.said}"))
            yield gray(int(self.state.level))
"""
)
LOOP = (
    COMMON
    + """
class MyModel(Events, ReactorModel):
    fps = 30

    def parent(self):
        return Seen(what="child", values=[])

    async def run(self):
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                self.said += 1
                await self.send(Renamed(by=f"before {self.said}"))
                await self.emit(gray(100))
"""
)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("pipeline"), PIPELINE)) as server:
        yield server


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(write_project(tmp_path_factory.mktemp("loop"), LOOP)) as server:
        yield server


@pytest.fixture(params=["pipeline", "loop"])
def server(request: pytest.FixtureRequest, pipeline: RunningServer, loop: RunningServer) -> RunningServer:
    server = {"pipeline": pipeline, "loop": loop}[request.param]
    server.wait_for_health("ready")
    return server


async def reply(visitor: WireClient, event: str, data: dict[str, Any]) -> dict[str, Any]:
    answer = await visitor.ask(event, data)
    assert answer["type"] == "reactor.reply", answer
    message: dict[str, Any] = answer["data"]["message"]["data"]
    return message


@pytest.mark.parametrize(
    ("event", "data", "what", "rest"),
    [
        ("setPrompt", {"prompt": "a cat"}, "a cat", {"colour": "red", "values": [0, 1, 2]}),
        ("set_x_y", {"x": 3}, "3,7", {"place": {"x": 3, "y": 7}, "values": 0.5}),
        ("set_x_y", {"x": 3.0, "y": 4}, "3,4", {"place": {"x": 3, "y": 4}}),
        ("set_2d_mode", {"mode": "deep"}, "deep", {"colour": "blue"}),
        (
            "paint",
            {"colour": "blue", "place": {"x": 2}, "tags": ["a"], "pair": [1, "b"]},
            "BLUE 2 0.5 ['a'] (1, 'b') None",
            {},
        ),
        ("inherited", {}, "child", {}),
    ],
)
async def test_events_are_matched_as_written_and_their_values_arrive_converted(
    server: RunningServer, event: str, data: dict[str, Any], what: str, rest: dict[str, Any]
) -> None:
    async with controlling(server.url) as visitor:
        told = await reply(visitor, event, data)
    assert told["what"] == what
    assert rest.items() <= told.items()


@pytest.mark.parametrize(
    ("event", "data", "path"),
    [
        ("setPrompt", {}, "setPrompt.prompt"),
        ("setPrompt", {"prompt": 3}, "setPrompt.prompt"),
        ("setPrompt", {"prompt": "a", "more": 1}, "setPrompt.more"),
        ("set_x_y", {"x": "1"}, "set_x_y.x"),
        ("set_x_y", {"x": True}, "set_x_y.x"),
        ("set_x_y", {"x": None}, "set_x_y.x"),
        ("set_x_y", {"x": 1.5}, "set_x_y.x"),
        ("set_2d_mode", {"mode": "round"}, "set_2d_mode.mode"),
        ("paint", {"colour": "green", "place": {"x": 2}, "tags": [], "pair": [1, "b"]}, "paint.colour"),
        ("paint", {"colour": "red", "place": {"x": "2"}, "tags": [], "pair": [1, "b"]}, "paint.place.x"),
    ],
)
async def test_wrong_values_reach_nobody_and_are_named(
    server: RunningServer, event: str, data: dict[str, Any], path: str
) -> None:
    async with controlling(server.url) as visitor:
        answer = await visitor.ask(event, data)
        assert answer["data"]["code"] == "invalid_event"
        assert [field["path"] for field in answer["data"]["fields"]] == [path]
        assert (await reply(visitor, "set_x_y", {"x": 1}))["what"] == "1,7"


@pytest.mark.parametrize(
    ("event", "code", "message"),
    [
        ("refuse", "too_late", "the show is over"),
        ("stay", "internal_error", "the handler of stay failed"),
        ("leave", "internal_error", "the handler of leave failed"),
        ("odd", "internal_error", "the handler of odd failed"),
        ("setprompt", "unknown_event", "setPrompt"),
    ],
)
async def test_what_handlers_raise_is_the_answer_and_the_session_goes_on(
    server: RunningServer, event: str, code: str, message: str
) -> None:
    async with controlling(server.url) as visitor:
        answer = await visitor.ask(event)
        assert answer["data"]["code"] == code
        assert message in answer["data"]["message"]
        await visitor.frame(applied=0 if code == "unknown_event" else 1)


async def test_a_handler_knows_its_client_and_sends_to_it_and_threads_send_too(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        await visitor.send("whoami", {"loud": True})
        while not (by := (await visitor.data("another-name"))["by"]).startswith("controller c-"):
            pass
        assert by.endswith(" True")
        await visitor.send("threaded")
        await visitor.message("another-name", by="thread")


async def test_messages_and_frames_come_in_the_order_they_were_sent(server: RunningServer) -> None:
    async with controlling(server.url) as visitor:
        for _ in range(20):
            frame = await visitor.frame()
            said = [text for text in visitor.texts if text["type"] == "another-name"]
            assert len(said) == frame.header.seq + 1  # one before each, whether or not it was skipped


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("level", 0.5, 0.5),
        ("title", "cat", "cat"),
        ("colour", "blue", "blue"),
        ("place", {"x": 4, "y": 1}, {"x": 4, "y": 1}),
        ("maybe", 4, 4),
        ("on", False, False),
        ("plain", 4, 40),
    ],
)
async def test_every_public_field_has_an_event(pipeline: RunningServer, field: str, value: Any, told: Any) -> None:
    pipeline.wait_for_health("ready")
    async with controlling(pipeline.url) as visitor:
        assert (await visitor.ask(f"set_{field}", {field: value}))["data"] == {"n": 1}
        states = [text["data"] for text in visitor.texts if text["type"] == "reactor.state"]
    assert states == [{field: told}]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("level", 256),
        ("level", -0.5),
        ("level", 0.25),
        ("level", "1"),
        ("title", "a"),
        ("title", "abcdefghi"),
        ("title", "A cat"),
        ("colour", "RED"),
        ("place", {"y": 1}),
        ("on", 1),
        ("plain", None),
        ("_private", 1),
    ],
)
async def test_a_wrong_value_changes_no_field(pipeline: RunningServer, field: str, value: Any) -> None:
    pipeline.wait_for_health("ready")
    async with controlling(pipeline.url) as visitor:
        code = (await visitor.ask(f"set_{field}", {field: value}))["data"]["code"]
        assert code == ("unknown_event" if field == "_private" else "invalid_event")
        assert not [text for text in visitor.texts if text["type"] == "reactor.state"]
