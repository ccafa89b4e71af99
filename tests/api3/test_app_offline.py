"""The same programs without a server: executor, studio, recording and replay, rendering, warm-up, reload."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime import (
    ApplicationError,
    InputState,
    Output,
    PipelineExecutor,
    ReactorApp,
    ReactorModel,
    StepOutcome,
    Video,
    event,
    session_started,
)
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.importing import import_class
from reactor_runtime.errors import LoadError
from reactor_runtime.rendering.renderer import Renderer
from reactor_runtime.rendering.script import Script, read_script
from reactor_runtime.testing import Message, Studio, replay
from tests.testing.recorded import recorded

HERE = Path(__file__).parent


def program(name: str) -> Any:
    return import_class(HERE / f"{name}_app", f"{name}_app", f"{name.capitalize()}App")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


# The executor


def test_each_next_is_one_step_or_one_refusal() -> None:
    with PipelineExecutor(program("camera")) as executor:
        executor.connect()
        assert next(executor).output is None
        for track, level in (("left", 1), ("right", 2), ("wrist", 3)):
            executor.push_media(track, np.full((4, 4, 3), level, np.uint8))
        assert next(executor).output.view[0, ::4, 0].tolist() == [1, 2, 3]
        assert next(executor).output is None


def test_a_step_has_the_output_and_the_messages_of_process_output() -> None:
    with PipelineExecutor(program("seed")) as executor:
        executor.connect()
        executor.model.state._seed = np.zeros((4, 4, 3), np.uint8)
        executor.send_event("set_level", level=7)
        for number in (1, 2):
            step = next(executor)
            assert step.messages == [Message("step_done", {"number": number})]
            assert step.output.main_video.max() == 7
        executor.send_event("fail", where="crash")
        with pytest.raises(MemoryError, match="out of memory"):
            next(executor)
        executor.connect()
        assert next(executor).output is None


# Recording, replay, rendering


def test_a_recorded_session_is_replayed_without_a_difference(project: Path) -> None:
    model = program("camera")
    with recorded(model, project) as studio:
        for step in range(5):
            for track in ("left", "right", "wrist"):
                studio.push_media(track, np.full((8, 8, 3), 40 * step, np.uint8))
            studio.run(0.2)
    (file,) = project.glob("*.mcap")
    result = replay(file, model)
    assert result.steps > 5
    assert (result.frames, result.total) == (5, 0)


def test_events_are_replayed_at_their_steps(project: Path) -> None:
    model = program("chunk")
    with recorded(model, project) as studio:
        studio.run(0.3)
        studio.send_event("set_level", level=9)
        studio.run(0.3)
        studio.send_event("cut", hold=True)
        studio.run(0.3)
    (file,) = project.glob("*.mcap")
    result = replay(file, model)
    assert result.frames > 24
    assert result.total == 0


def shown(model: Any, seconds: float, script: Script | None = None, **options: Any) -> list[Any]:
    with Renderer.load(Contract.of(model), {}, Path.cwd(), **options) as renderer:
        return [frame for played in renderer.play(script or Script(), seconds) for frame in played.frames]


def test_a_rendering_has_the_rate_that_load_has_set() -> None:
    frames = shown(program("chunk"), 0.5)
    assert [frame.due_s for frame in frames] == pytest.approx([number / 120 for number in range(60)])
    assert [int(frame.array[0, 0, 1]) for frame in frames] == [chunk for chunk in range(1, 6) for _ in range(12)]


def test_a_rate_of_the_command_line_comes_before_that_of_load() -> None:
    frames = shown(program("chunk"), 0.5, fps=24)
    assert [frame.due_s for frame in frames] == pytest.approx([number / 24 for number in range(12)])


def test_a_script_has_steps(project: Path) -> None:
    (project / "inputs.yaml").write_text("- {at_step: 2, event: set_level, data: {level: 50}}\n")
    model = program("chunk")
    frames = shown(model, 0.4, read_script(project / "inputs.yaml", Contract.of(model)))
    assert [int(frame.array[0, 0, 0]) for frame in frames] == [0] * 24 + [50] * 24


# Warm-up


class Picture(Output):
    video: Video


class Prompt(InputState):
    prompt: str = ""


class Refusing(ReactorApp):
    state: Prompt
    output: Picture
    warmup = 2

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        self.made = 0

    async def process_input(self) -> str:
        if not self.state.prompt:
            raise ApplicationError("no prompt")
        return self.state.prompt

    def generate(self, input: str) -> Picture:  # noqa: ARG002
        self.made += 1
        return Picture(video=np.full((4, 4, 3), self.made, np.uint8))


class Warm(Refusing):
    async def process_input(self) -> str:
        return ""


class Cold(Warm):
    def generate(self, input: str) -> Picture:
        raise MemoryError(input)


@pytest.mark.parametrize(("model", "made"), [(Refusing, 0), (Warm, 2)])
def test_a_warm_up_makes_steps_and_accepts_refusals(model: type[Refusing], made: int) -> None:
    with Studio(model) as studio:
        studio.warm_up()
        assert studio.model.made == made


class Preparing(Warm):
    def warmup(self) -> None:  # type: ignore[override]  # a method of the author
        self.made += 100

    def max_fps(self) -> None:  # type: ignore[override]
        pass

    def load(self, config: dict[str, Any]) -> None:
        super().load(config)
        self.warmup()


def test_methods_may_be_called_warmup_and_max_fps() -> None:
    with Studio(Preparing) as studio:
        studio.warm_up()
        assert studio.model.made == 100
        studio.connect()
        studio.run(0.5)
        assert 110 < studio.model.made < 140


def test_a_warm_up_fails_with_the_exception_of_a_step() -> None:
    with Studio(Cold) as studio, pytest.raises(LoadError, match="step 1 of the warm-up failed: MemoryError"):
        studio.warm_up()


# The rate


class Loop(ReactorModel):
    output: Picture

    @session_started
    def begin(self) -> None:
        pass

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            await self.emit(Picture(video=np.zeros((4, 8, 8, 3), np.uint8)), compute_time=0.01)


class PinnedLoop(Loop):
    fps = 25

    @event(name="slow")
    def slow(self) -> None:
        self.output.fps = 12.5  # type: ignore[attr-defined]  # the annotation declares the tracks


def rate_of(studio: Studio[Any]) -> float:
    """Return the rate of the frames of the next second."""
    studio.clear()
    studio.run(1.0)
    times = [frame.due_s for frame in studio.frames][-8:]
    return (len(times) - 1) / (times[-1] - times[0])


def test_a_chosen_rate_of_a_loop_does_not_follow_the_compute_time() -> None:
    with Studio(PinnedLoop) as studio:
        studio.connect()
        assert rate_of(studio) == pytest.approx(25)
        studio.send_event("slow")
        studio.run(1.0)
        assert rate_of(studio) == pytest.approx(12.5)
    with Studio(Loop) as studio:
        studio.connect()
        studio.run(1.0)
        assert rate_of(studio) == pytest.approx(60)


class Wrong(Warm):
    def load(self, config: dict[str, Any]) -> None:
        super().load(config)
        type(self).fps = -1


def test_a_rate_of_load_that_is_none_fails_the_load() -> None:
    with pytest.raises(LoadError, match=r"Wrong\.fps after load\(\): .*above 0"):
        Studio(Wrong)


# Reload

APP = """
    import numpy as np
    from reactor_runtime import *

    class Picture(Output):
        video: Video

    class Level(InputState):
        level: int = 1

    class MyModel(ReactorApp):
        state: Level

        def load(self, config):
            self.loads = getattr(self, "loads", 0) + 1
            type(self).fps = 24

        async def process_input(self):
            return self.state.level

        def generate(self, level):
            return 10 + level

        async def process_output(self, outcome):
            if outcome.error is not None:
                raise outcome.error
            return Picture(video=np.full((2, 2, 3), outcome.result, np.uint8))
"""


def write(project: Path, name: str, *replaced: tuple[str, str]) -> None:
    text = APP
    for old, new in replaced:
        text = text.replace(old, new)
    (project / f"{name}.py").write_text(textwrap.dedent(text))


def red(executor: PipelineExecutor[Any]) -> int:
    return int(next(executor).output.video.flat[0])


def test_new_code_runs_with_the_model_the_values_and_the_rate_of_the_old_code(project: Path) -> None:
    write(project, "reloaded_app")
    with PipelineExecutor(__import__("reloaded_app").MyModel) as executor:
        executor.connect()
        executor.send_event("set_level", level=5)
        assert red(executor) == 15
        write(project, "reloaded_app", ("10 + level", "20 + level"))
        executor.reload()
        assert red(executor) == 25
        assert executor.model.loads == 1
        assert executor.model.output.fps == 24


def test_new_code_whose_step_fails_is_taken_back(project: Path) -> None:
    write(project, "failing_app")
    with PipelineExecutor(__import__("failing_app").MyModel) as executor:
        executor.connect()
        assert red(executor) == 11
        write(project, "failing_app", ("10 + level", "1 / 0"))
        executor.reload()
        with pytest.raises(ZeroDivisionError):
            next(executor)
        assert red(executor) == 11


# Without a runtime, as in the tests of the programs


async def test_the_methods_work_on_an_instance_without_a_runtime() -> None:
    model = program("seed")()
    model.load(None)
    model.state = Contract.of(type(model)).state.fresh()  # type: ignore[union-attr]  # it has one
    sent: list[object] = []

    async def send(message: object) -> None:
        sent.append(message)

    model.send = send
    with pytest.raises(ApplicationError, match="waiting for a seed image"):
        await model.process_input()
    model.state._seed = np.zeros((4, 4, 3), np.uint8)
    outcome = StepOutcome(result=model.generate(await model.process_input()), elapsed=0.1)
    step = await model.process_output(outcome)
    assert step.output.main_video.shape == (4, 4, 3)
    assert len(sent) == 1
