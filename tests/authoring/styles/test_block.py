"""Declarations of the block style: valid classes and their contracts, and the errors for wrong ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.styles.block import mark_of_model, starting_config
from reactor_runtime.errors import ClassError, ConfigError, InvalidEvent
from reactor_runtime.interface import (
    ClientInfo,
    InputField,
    InputState,
    Output,
    ReactorPipeline,
    Video,
    VideoModel,
    command,
    connected,
    disconnected,
    event,
    get_ctx,
    model,
)


class Blocks(VideoModel):
    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config

    @command("set_prompt", description="What to paint")
    def set_prompt(self, prompt: str, strength: float = InputField(default=1.0, ge=0.0, le=2.0)) -> None:
        self.prompt, self.strength = prompt, strength

    @command(name="reset")
    def reset(self, client: ClientInfo) -> None:
        self.config = {"by": client.id}

    def start_session(self) -> None:
        get_ctx().emit_block(None)


def test_commands_are_events_of_the_contract() -> None:
    events = Contract.of(Blocks).events
    assert list(events) == ["set_prompt", "reset"]
    described = Contract.of(Blocks).to_json()["schema"]["events"]["set_prompt"]
    assert described["description"] == "What to paint"
    assert described["field"] is None
    assert described["parameters"]["required"] == ["prompt"]
    assert events["reset"].client_parameter == "client"


def test_arguments_of_a_command_are_checked_like_those_of_events() -> None:
    validate = Contract.of(Blocks).events["set_prompt"].validate
    assert validate('{"prompt": "a"}') == {"prompt": "a", "strength": 1.0}
    with pytest.raises(InvalidEvent, match=r"set_prompt\.strength: 3 is above 2"):
        validate(json.dumps({"prompt": "a", "strength": 3}))


def test_a_model_without_an_output_has_one_video_track() -> None:
    contract = Contract.of(Blocks)
    assert [(track.name, track.kind, track.direction) for track in contract.tracks] == [("main_video", "video", "out")]
    assert (contract.fps, contract.state) == (None, None)


def test_declared_outputs_take_the_place_of_that_track() -> None:
    class Other(Output):
        left: Video
        right: Video

    class Twin(Blocks):
        output: Other

    assert [track.name for track in Contract.of(Twin).tracks] == ["left", "right"]


def test_a_method_stays_plain_python() -> None:
    blocks = Blocks({"a": 1})
    blocks.set_prompt("cat")
    assert (blocks.prompt, blocks.strength, blocks.config) == ("cat", 1.0, {"a": 1})


def test_a_model_needs_no_init_and_may_call_ours() -> None:
    class Bare(VideoModel):
        def start_session(self) -> None: ...

    class Polite(Bare):
        def __init__(self, config: dict[str, Any]) -> None:
            super().__init__()
            super().__init__(config)

    assert Contract.of(Bare)
    assert Polite({})


def _async_session() -> None:
    class Wrong(VideoModel):
        async def start_session(self) -> None: ...  # type: ignore[override]  # that is what is refused


def _yielding_session() -> None:
    class Wrong(VideoModel):
        def start_session(self) -> Any:
            yield None


def _session_that_is_no_method() -> None:
    class Wrong(VideoModel):
        start_session = None  # type: ignore[assignment]  # that is what is refused


def _async_command() -> None:
    class Wrong(VideoModel):
        @command("slow")
        async def slow(self) -> None: ...


def _hook() -> None:
    class Wrong(VideoModel):
        @connected
        def greet(self) -> None: ...


def _last_hook() -> None:
    class Wrong(VideoModel):
        @disconnected
        def part(self) -> None: ...


def _bare_command() -> None:
    class Wrong(VideoModel):
        @command  # type: ignore[arg-type]  # that is what is refused
        def reset(self) -> None: ...  # type: ignore[misc]


def _marked_pipeline() -> None:
    class State(InputState):
        pass

    @model("wrong")
    class Wrong(ReactorPipeline):
        state: State


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (_async_session, r"Wrong\.start_session is async"),
        (_yielding_session, r"Wrong\.start_session can't yield"),
        (_session_that_is_no_method, r"Wrong\.start_session must be a method"),
        (_async_command, r"Wrong\.slow: the command 'slow' is async"),
        (_hook, r"Wrong\.greet: a VideoModel has no @connected; start_session\(\) begins"),
        (_last_hook, r"Wrong\.part: a VideoModel has no @disconnected"),
        (_bare_command, r'write @command\("set_prompt"\)'),
        (_marked_pipeline, "derived from VideoModel, not Wrong"),
        (lambda: model(""), r'write @model\(name="my-model"\)'),
        (lambda: model("a", config=3), "path of a file or a mapping, not 3"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_declaration_is_a_type_error_with_the_fix(declare: Callable[[], object], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        declare()


def test_a_name_that_is_not_free_is_a_value_error_of_the_command() -> None:
    with pytest.raises(ValueError, match="command name 'connected'"):
        command("connected")


class NoSession(VideoModel):
    pass


class Loads(Blocks):
    def load(self, config: dict[str, Any]) -> None: ...


class NoConfig(Blocks):
    def __init__(self) -> None: ...


class WantsMore(Blocks):
    def start_session(self, seed: int) -> None: ...  # type: ignore[override]  # that is what is refused


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (NoSession, "NoSession has no start_session"),
        (Loads, "Loads.load is never called"),
        (NoConfig, "NoConfig.__init__ must take the config"),
        (WantsMore, "WantsMore.start_session is called without arguments"),
    ],
    ids=lambda part: part if isinstance(part, str) else part.__name__,
)
def test_a_class_that_can_t_be_run_is_refused_at_its_own_line(wrong: type, words: str) -> None:
    with pytest.raises(ClassError, match=words) as raised:
        Contract.of(wrong)
    assert raised.value.where is not None
    assert raised.value.where.file == __file__
    assert raised.value.hint


def test_events_and_dedupe_work_in_a_block_model_too() -> None:
    class Painter(Blocks):
        @event(name="point", dedupe=True)
        def point(self, x: float) -> None: ...

    assert Contract.of(Painter).events["point"].dedupe


def test_the_decorator_s_arguments_apply_to_the_class_and_its_subclasses() -> None:
    @model("painter", config="paint.yml", author="me")
    class Painter(Blocks):
        pass

    class Derived(Painter):
        pass

    mark = mark_of_model(Derived)
    assert mark is not None
    assert (mark.name, mark.config, mark.meta) == ("painter", "paint.yml", {"author": "me"})
    assert mark_of_model(Blocks) is None


def test_the_config_of_the_decorator_is_read_from_the_project(tmp_path: Path) -> None:
    (tmp_path / "paint.yml").write_text("width: 3\n")
    assert starting_config(model("a", "paint.yml")(type("A", (Blocks,), {})), tmp_path) == {"width": 3}
    assert starting_config(model("b", {"width": 4})(type("B", (Blocks,), {})), tmp_path) == {"width": 4}
    assert starting_config(Blocks, tmp_path) == {}
    with pytest.raises(ConfigError, match="doesn't exist"):
        starting_config(model("c", "none.yml")(type("C", (Blocks,), {})), tmp_path)
