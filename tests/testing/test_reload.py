"""`studio.reload()`: new code in a model that runs."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import shutil
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime.engine.recorder import Recorder, RecordOptions
from reactor_runtime.errors import ClassError, ConfigError, LoadError
from reactor_runtime.recording.entries import EndEntry
from reactor_runtime.recording.file import SessionRecording, read_recording
from reactor_runtime.testing import PipelineExecutor, Studio, replay
from tests.testing.projects import Project
from tests.timeouts import TIMEOUT_S

MODEL = """
    import numpy as np
    from reactor_runtime import *

    class Picture(Output):
        video: Video

    class Level(InputState):
        level: int = InputField(default=1, ge=0, le=9)

    class MyModel(ReactorPipeline):
        state: Level
        fps = 10

        def load(self, config):
            self.loads = getattr(self, "loads", 0) + 1
            self.weights = object()

        def inference(self):
            red = 10
            while True:
                yield Picture(video=np.full((2, 2, 3), red + self.state.level, np.uint8))
"""


def red(executor: PipelineExecutor[Any]) -> int:
    return int(next(executor).output.video.flat[0])


def test_new_code_runs_with_what_load_stored_and_with_the_values_of_the_session(project: Project) -> None:
    project.write(MODEL)
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        executor.send_event("set_level", level=5)
        assert red(executor) == 15
        model, weights = executor.model, executor.model.weights
        project.write(MODEL, ("red = 10", "red = 20"))
        executor.reload()
        assert red(executor) == 25
        assert executor.model is model
        assert (model.weights, model.loads) == (weights, 1)
        assert type(model) is sys.modules[project.name].MyModel


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (("red = 10", "red = = 10"), "SyntaxError"),
        (("import numpy as np", "import numpy as np\n    import no_such_module"), "No module named 'no_such_module'"),
        (("level: int = InputField(default=1, ge=0, le=9)", "level: int"), "needs a default"),
        (("class MyModel(", "class Other("), "has no class MyModel"),
    ],
    ids=["compile", "import", "declaration", "no class"],
)
def test_code_that_does_not_import_changes_nothing(project: Project, change: tuple[str, str], error: str) -> None:
    project.write(MODEL)
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        executor.send_event("set_level", level=5)
        module, cls = sys.modules[project.name], type(executor.model)
        project.write(MODEL, change)
        with pytest.raises(ClassError, match=error):
            executor.reload()
        assert red(executor) == 15
        assert (sys.modules[project.name], type(executor.model)) == (module, cls)
        project.write(MODEL, ("red = 10", "red = 30"))
        executor.reload()
        assert red(executor) == 35


def test_a_first_step_that_fails_brings_the_old_code_back(project: Project) -> None:
    project.write(MODEL)
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        executor.send_event("set_level", level=5)
        cls = type(executor.model)
        project.write(MODEL, ("red = 10", "red = 1 // 0"), ("le=9", "le=4"))
        executor.reload()
        with pytest.raises(ZeroDivisionError):
            next(executor)
        assert type(executor.model) is cls
        assert red(executor) == 15
        executor.send_event("set_level", level=9)
        assert red(executor) == 19


def test_an_exception_after_the_first_step_ends_the_session(project: Project) -> None:
    project.write(MODEL)
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        project.write(MODEL, ("red + self", "1 // (red - 10) + self"), ("while True:", "for red in (20, 10):"))
        executor.reload()
        next(executor)
        with pytest.raises(ZeroDivisionError):
            next(executor)
        with pytest.raises(RuntimeError, match="connect"):
            next(executor)


def test_values_are_kept_as_far_as_they_are_valid(project: Project) -> None:
    fields = """level: int = InputField(default=1, ge=0, le=9)
        name: str = "a"
        kind: Kind = Kind.OLD
        speed: float = 1.0
        gone: int = 0
        _steps: int = 0"""
    enum = "class Level(InputState):"
    with_fields = MODEL.replace("level: int = InputField(default=1, ge=0, le=9)", fields).replace(
        enum, "import enum\n\n    class Kind(enum.Enum):\n        OLD = 'old'\n        NEW = 'new'\n\n    " + enum
    )
    project.write(with_fields)
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        for event, value in {"set_level": 9, "set_kind": "new", "set_gone": 3}.items():
            executor.send_event(event, **{event.removeprefix("set_"): value})
        executor.state._steps = 7
        project.write(
            with_fields,
            ("le=9", "le=8"),
            ("speed: float = 1.0", "speed: float = 2.0"),
            ("gone: int = 0", "more: int = 4"),
        )
        executor.reload()
        state = executor.state
        assert state.level == 1, "9 is not valid any more"
        assert (state.name, state._steps, state.more) == ("a", 7, 4)
        assert state.speed == 2.0, "a value that nobody has set follows the default"
        assert state.kind is sys.modules[project.name].Kind.NEW


def test_modules_that_import_a_changed_one_are_executed_again_and_others_are_not(project: Project) -> None:
    helper, between, other = (f"{project.name}_{name}" for name in ("helper", "between", "other"))
    project.write("red = 10", name=helper)
    project.write(f"import {helper}\ndef red():\n    return {helper}.red", name=between)
    project.write("value = object()", name=other)
    project.write(
        MODEL.replace("import numpy", f"import {other}\n    from {between} import red as of\n    import numpy"),
        ("red = 10", "red = of()"),
    )
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        assert red(executor) == 11
        value = sys.modules[other].value
        project.write("red = 50", name=helper)
        executor.reload()
        assert red(executor) == 51
        assert sys.modules[other].value is value


def test_objects_of_the_model_get_their_new_classes(project: Project) -> None:
    part = """
    class Part:
        def __init__(self):
            self.callback = self.red
            self.function = scale

        def red(self):
            return 10

    def scale(red):
        return red
    """
    text = MODEL.replace(
        "class MyModel", textwrap.indent(textwrap.dedent(part), "    ") + "\n    class MyModel"
    ).replace("self.weights = object()", "self.part = {'a': [Part()]}")
    text = text.replace("red = 10\n", "part = self.part['a'][0]; red = part.function(part.callback())\n")
    project.write(text)
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        assert red(executor) == 11
        project.write(text, ("return 10", "return 20"), ("part.function(", "30 + part.function("))
        executor.reload()
        assert red(executor) == 51
        assert executor.model.loads == 1


@pytest.mark.parametrize(
    ("change", "loaded_again"),
    [
        (("self.weights = object()", "self.weights = 3"), True),
        (("WIDTH = 4", "WIDTH = 5"), True),
        (("return WIDTH", "return WIDTH + 1"), True),
        (("self.size = make()", "self.size = make() + 1"), True),
        (("def forward(self): return 1", "def forward(self): return 2"), False),
        (("def load(self, config):", "# a comment\n\n        def load(self, config):"), False),
        (("yield Picture", "self.n = 1; yield Picture"), False),
    ],
    ids=["load", "constant", "function", "constructor", "other method", "comment", "inference"],
)
def test_a_change_of_what_load_runs_loads_again(project: Project, change: tuple[str, str], loaded_again: bool) -> None:
    text = MODEL.replace(
        "class Picture",
        """WIDTH = 4

    def make():
        return WIDTH

    class Net:
        def __init__(self):
            self.size = make()

        def forward(self): return 1

    class Picture""",
    ).replace("self.weights = object()", "self.weights = object()\n            self.net = Net()")
    project.write(text)
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        executor.send_event("set_level", level=5)
        model = executor.model
        assert red(executor) == 15
        project.write(text, change)
        executor.reload()
        assert red(executor) == 15
        assert (executor.model is not model) is loaded_again
        assert executor.model.loads == 1


@pytest.mark.parametrize(
    "block",
    ["if True:", "try:\n        import no_such_module\n        def make(): pass\n    except ImportError:"],
    ids=["if", "except"],
)
def test_what_load_runs_may_be_defined_in_a_block_of_the_module(project: Project, block: str) -> None:
    definition = f"""{block}
        def make():
            return 5

    class Picture"""
    text = MODEL.replace("class Picture", definition).replace("red = 10", "red = self.weights")
    text = text.replace("self.weights = object()", "self.weights = make()")
    project.write(text)
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        assert red(executor) == 6
        project.write(text, ("return 5", "return 7"))
        executor.reload()
        assert red(executor) == 8


def test_changed_code_that_a_function_defined_is_reported(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    handler = """@event(name="make")
        def make(self):
            class Net:
                def red(self): return 10

            self.net, self.nets = Net(), {"a": Net}
            self.same, self.plus = (lambda: 5), [lambda: 10]
            self.steps, self.first = [step], step

        def inference"""
    text = MODEL.replace("def inference", handler) + "\n    def step(): return 10\n"
    project.write(text)
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        executor.send_event("make")
        project.write(text, ("fps = 10", "fps = 20\n        # Moves all lines."))
        executor.reload()
        next(executor)
        assert not caplog.records
        project.write(text, ("return 10", "return 20"), ("[lambda: 10", "[lambda: 20"))
        executor.reload()
        next(executor)
        (warning,) = caplog.records
        assert warning.getMessage() == (
            "old code still runs in self.net, self.nets, self.plus, self.steps: a reload does not replace code defined "
            "inside a function, or held in a list or dict"
        )


def test_a_load_that_fails_keeps_the_loaded_model(project: Project) -> None:
    project.write(MODEL)
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        model = executor.model
        project.write(MODEL, ("self.weights = object()", "self.weights = open('none')"))
        with pytest.raises(LoadError, match=r"load\(\) failed: FileNotFoundError"):
            executor.reload()
        assert executor.model is model
        assert red(executor) == 11


WRAPPED = MODEL.replace(
    "class MyModel",
    """class Camera(Input):
        webcam: Video

    class Doubled:
        def __init__(self, inputs):
            self.inputs = inputs
            self.newest = 0

        def red(self):
            for frame in self.inputs.webcam.try_read() or ():
                self.newest = 2 * int(frame.flat[0])
            return self.newest

    class MyModel""",
).replace("fps = 10", "fps = 10; inputs: Camera")
WRAPPED = WRAPPED.replace("object()", "object(); self.inputs = Doubled(self.inputs)")
WRAPPED = WRAPPED.replace("red + self.state.level", "red + self.inputs.red()")


def test_an_object_that_load_puts_in_place_of_an_input_stays(project: Project) -> None:
    project.write(WRAPPED)
    with Studio(project.model()) as studio:
        studio.connect()
        edits: list[tuple[tuple[str, str], ...]] = [
            (("red = 10", "red = 20"),),
            (("object();", "open('none');"),),
            (("red = 10", "red = 1 // 0"),),
            (("object();", "list();"), ("red = 10", "red = 1 // 0")),
            (("object();", "dict();"), ("red = 10", "red = 20")),
        ]
        for sent, edit in enumerate(edits):
            project.write(WRAPPED, *edit)
            with contextlib.suppress(LoadError, ZeroDivisionError):
                reload_and_run(studio)
            studio.push_media("webcam", np.full((2, 2, 3), sent, np.uint8))
            assert shown(studio) == 20 + 2 * sent, edit
        assert type(studio.model.inputs) is sys.modules[project.name].Doubled


def test_a_step_that_waits_for_an_input_does_not_delay_the_reload(project: Project) -> None:
    text = MODEL.replace("class MyModel", "class Camera(Input):\n        webcam: Video\n\n    class MyModel")
    text = text.replace("fps = 10", "input: Camera").replace("def inference", "async def inference")
    text = text.replace("while True:", "while True:\n                await self.input.webcam.read()")
    project.write(text)
    with Studio(project.model()) as studio:
        studio.connect()
        studio.run(1)
        project.write(text, ("await self.input.webcam.read()", "await self.input.webcam.read(timeout=0.1)"))
        studio.reload()
        with pytest.raises(TimeoutError):
            studio.run(1)


def test_a_step_that_does_not_end_is_reported_and_replaced_when_it_ends(project: Project) -> None:
    text = MODEL.replace("class MyModel", "class Camera(Input):\n        webcam: Video\n\n    class MyModel")
    text = text.replace("fps = 10", "input: Camera").replace("def inference", "async def inference")
    wait = """while True:
                while True:
                    try:
                        await self.input.webcam.read()
                        break
                    except BaseException:
                        pass"""
    project.write(text, ("while True:", wait))
    with Studio(project.model()) as studio:
        studio.connect()
        studio.run(1)
        project.write(text, ("red = 10", "red = 20"))
        with pytest.raises(ClassError, match=r"inference\(\) has not ended after 5 s, and the new code waits for it"):
            studio.reload()
        studio.push_media("webcam", np.zeros((2, 2, 3), np.uint8))
        assert shown(studio) == 21


def test_a_reload_between_sessions_is_applied_at_once(project: Project) -> None:
    project.write(MODEL)
    with PipelineExecutor(project.model()) as executor:
        project.write(MODEL, ("red = 10", "red = 20"))
        executor.reload()
        executor.connect()
        assert red(executor) == 21


def test_new_events_tracks_and_rates_are_served(project: Project) -> None:
    project.write(MODEL)
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        next(executor)
        project.write(
            MODEL,
            (
                "fps = 10",
                "fps = 20\n\n        @event(name='add')\n        def add(self):\n            self.state.level += 1",
            ),
            ("video: Video", "image: Video\n        sound: Audio"),
            ("video=np", "sound=np.zeros((1, 2400), np.int16), image=np"),
        )
        executor.reload()
        executor.send_event("add")
        assert int(next(executor).output.image.flat[0]) == 12
        executor.run(1)
        dues = [frame.due_s for frame in executor.frames if frame.track == "image"][-3:]
        assert dues[2] - dues[1] == pytest.approx(0.05)


def test_a_class_can_be_passed_in_place_of_a_file() -> None:
    from tests.testing.models import Counter

    class Brighter(Counter):
        def inference(self) -> Iterator[Any]:
            for output in super().inference():
                output.video += 100
                yield output

    with PipelineExecutor(Counter) as executor:
        executor.connect()
        assert red(executor) == 1
        executor.reload(Brighter)
        assert red(executor) == 101


def test_rapid_saves_of_the_same_size_are_all_applied(project: Project) -> None:
    project.write(MODEL)
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        for number in range(20, 35):
            project.write(MODEL, ("red = 10", f"red = {number}"))
            executor.reload()
            assert red(executor) == number + 1


def save_and_do_not_wait(studio: Studio[Any]) -> None:
    """Import what was saved, as a save does while a step runs: the code is not applied yet."""
    reloader = studio._host.reloader
    assert reloader is not None
    studio._modules.record()
    reloader.reload()
    studio._modules.close()
    assert reloader.pending


@pytest.mark.parametrize(
    ("second", "shown", "is_applied"),
    [("red = 30", 31, True), ("red = 10", 11, False), ("red = = 10", 11, False)],
    ids=["other code", "the code that runs", "no code"],
)
def test_the_second_of_two_saves_in_a_row_is_compared_with_the_code_that_runs(
    project: Project, second: str, shown: int, is_applied: bool
) -> None:
    helper = f"{project.name}_helper"
    project.write("red = 10", name=helper)
    # The code that runs finds the module that was imported last.
    imports = ("import numpy as np", f"import sys\n    import {helper}\n    import numpy as np")
    project.write(MODEL, imports, ("red = 10", "red = 0"), ("red + self", f"sys.modules['{helper}'].red + self"))
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        assert red(executor) == 11
        before = type(executor.model)
        project.write("red = 20", name=helper)
        save_and_do_not_wait(executor)
        project.write(second, name=helper)
        with contextlib.suppress(ClassError):
            executor.reload()
        assert [red(executor) for _ in range(3)] == [shown] * 3
        assert (type(executor.model) is not before) == is_applied


def test_a_module_that_could_not_be_imported_before_is_used_when_it_is_there(project: Project) -> None:
    between, fast = f"{project.name}_between", f"{project.name}_fast"
    project.write(f"try:\n    from {fast} import red\nexcept ImportError:\n    red = 10", name=between)
    text = MODEL.replace("import numpy", f"from {between} import red as base\n    import numpy")
    text = text.replace("red = 10", "red = base")
    project.write(text)
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        project.write(f"try:\n    from {fast} import red\nexcept ImportError:\n    red = 20", name=between)
        executor.reload()
        assert red(executor) == 21
        # The next reload finds it again if this one fails.
        project.write("red = = 50", name=fast)
        with pytest.raises(ClassError, match="SyntaxError"):
            executor.reload()
        project.write("red = 50", name=fast)
        executor.reload()
        assert red(executor) == 51
        (project.folder / f"{fast}.py").unlink()
        executor.reload()
        assert red(executor) == 21
        # One that is not imported any more is not new each time.
        project.write("red = 30", name=between)
        executor.reload()
        project.write("red = 50", name=fast)
        executor.reload()
        module = sys.modules[between]
        executor.reload()
        assert (sys.modules[between], module.red) == (module, 30)


def test_modules_packages_and_folders_without_init_replace_each_other(project: Project) -> None:
    name = f"{project.name}_nets"
    module, package, part = (project.folder / file for file in (f"{name}.py", f"{name}/__init__.py", f"{name}/part.py"))
    versions: list[dict[Path, str]] = [
        {part: "red = 10"},
        {module: "class part:\n    red = 20"},
        {package: "", part: "red = 30"},
        {package: "NAME = 1", part: "red = 30"},
        {module: "class part:\n    red = 20", part: "red = 40"},
        {package: "class part:\n    red = 50", module: "class part:\n    red = 20"},
        {part: "red = 10"},
    ]
    text = MODEL.replace("import numpy", f"import {name}\n    import {name}.part\n    import numpy")
    text = text.replace("red = 10", f"red = {name}.part.red")

    def write(files: dict[Path, str]) -> None:
        shutil.rmtree(package.parent, ignore_errors=True)
        module.unlink(missing_ok=True)
        is_package = part in files and (package in files or module not in files)
        project.write(text if is_package else text.replace(f"import {name}.part", ""))
        for file, content in files.items():
            file.parent.mkdir(exist_ok=True)
            file.write_text(content)

    write(versions[0])
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        for files, shown in zip(versions, (11, 21, 31, 31, 21, 51, 11), strict=True):
            write(files)
            executor.reload()
            assert red(executor) == shown


def test_a_module_that_is_deleted_and_not_imported_any_more_is_dropped(project: Project) -> None:
    helper = f"{project.name}_helper"
    project.write("red = 10", name=helper)
    text = MODEL.replace("import numpy", f"from {helper} import red as base\n    import numpy")
    project.write(text, ("red = 10", "red = base"))
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        (project.folder / f"{helper}.py").unlink()
        with pytest.raises(ClassError, match="No module named"):
            executor.reload()
        assert red(executor) == 11
        project.write(MODEL, ("red = 10", "red = 20"))
        executor.reload()
        assert red(executor) == 21
        assert helper not in sys.modules


LOOP = """
    import asyncio
    import numpy as np
    from reactor_runtime import *

    class Picture(Output):
        video: Video

    class MyModel(ReactorModel):
        fps = 10

        def load(self, config):
            self.loads = getattr(self, "loads", 0) + 1
            self.log = []
            self.level = 1

        @event(name="set_level")
        async def set_level(self, level: int):
            self.level = level

        async def run(self):
            red = 10
            try:
                while True:
                    await self.connected.wait()
                    await self.emit(Picture(video=np.full((2, 2, 3), red + self.level, np.uint8)))
                    await asyncio.sleep(0.1)
            finally:
                self.log.append("over")
"""
BLOCKS = """
    import numpy as np
    from reactor_runtime import *

    class MyModel(VideoModel):
        fps = 10

        def __init__(self, config):
            self.loads = getattr(self, "loads", 0) + 1
            self.log = []
            self.level = 1

        @command("set_level")
        def set_level(self, level: int):
            self.level = level

        def start_session(self):
            red = 10
            try:
                while not get_ctx().should_stop():
                    get_ctx().emit_block(np.full((2, 2, 2, 3), red + self.level, np.uint8))
            finally:
                self.log.append("over")
"""
OTHER_STYLES = pytest.mark.parametrize("text", [LOOP, BLOCKS], ids=["loop", "blocks"])
PART = """
    import enum
    from typing import Optional

    NUMBER = 0

    class Kind(enum.Enum):
        A = 1

    class Part:
        kind: Optional[Kind] = None

        def red(self):
            return NUMBER
"""


def shown(studio: Studio[Any]) -> int:
    """Return the level of the newest frame that was shown, after a second."""
    studio.run(1)
    reds = [int(frame.array.flat[0]) for frame in studio.frames if frame.array.any()]
    return reds[-1]


def reload_and_run(studio: Studio[Any]) -> None:
    studio.reload()
    studio.run(1)


def test_new_code_runs_after_an_exception_has_ended_run_and_the_session(project: Project) -> None:
    project.write(LOOP, ("red + self", "red // self"))
    with Studio(project.model()) as studio:
        studio.connect()
        studio.send_event("set_level", level=0)
        with pytest.raises(ZeroDivisionError):
            studio.run(1)
        project.write(LOOP, ("red = 10", "red = 30"))
        studio.reload()
        studio.connect()
        studio.send_event("set_level", level=2)
        studio.clear()
        assert shown(studio) == 32


@OTHER_STYLES
def test_other_styles_go_on_with_new_code_in_the_session(project: Project, text: str) -> None:
    project.write(text)
    with Studio(project.model()) as studio:
        studio.connect()
        studio.send_event("set_level", level=5)
        assert shown(studio) == 15
        model = studio.model
        project.write(text, ("red = 10", "red = 20"))
        studio.reload()
        assert shown(studio) == 25
        assert (studio.model, studio.model.loads, studio.model.log) == (model, 1, ["over"])
        assert all(frame.array.any() for frame in studio.frames), "no black frame"
        studio.disconnect()


@OTHER_STYLES
@pytest.mark.parametrize("second", ["red = 10", "red = = 10"], ids=["the code that runs", "no code"])
def test_other_styles_start_again_after_a_save_that_was_not_applied(project: Project, text: str, second: str) -> None:
    project.write(text)
    with Studio(project.model()) as studio:
        studio.connect()
        assert shown(studio) == 11
        project.write(text, ("red = 10", "red = 20"))
        save_and_do_not_wait(studio)
        project.write(text, ("red = 10", second))
        with contextlib.suppress(ClassError):
            studio.reload()
        studio.frames.clear()
        assert shown(studio) == 11


def test_an_error_stays_when_code_of_an_earlier_save_is_kept(project: Project) -> None:
    project.write(LOOP)
    with Studio(project.model()) as studio:
        studio.connect()
        # It is on trial meanwhile.
        project.write(LOOP, ("red = 10", "red = 20; await asyncio.sleep(0.3)"))
        studio.reload()
        project.write(LOOP, ("red = 10", "red = = 10"))
        with pytest.raises(ClassError, match="SyntaxError"):
            studio.reload()
        assert shown(studio) == 21
        newest = studio._recorder.reloaded
        assert newest is not None
        assert newest.status == "failed"


@OTHER_STYLES
def test_other_styles_go_back_when_new_code_fails_at_once(project: Project, text: str) -> None:
    project.write(text)
    with Studio(project.model()) as studio:
        studio.connect()
        studio.send_event("set_level", level=5)
        assert shown(studio) == 15
        project.write(text, ("red = 10", "red = 1 // 0"))
        with pytest.raises(ZeroDivisionError):
            reload_and_run(studio)
        assert shown(studio) == 15
        project.write(text, ("red = 10", "red = 30"))
        studio.reload()
        assert shown(studio) == 35


@OTHER_STYLES
def test_other_styles_are_loaded_again_when_that_changes(project: Project, text: str) -> None:
    project.write(text)
    with Studio(project.model()) as studio:
        studio.connect()
        assert shown(studio) == 11
        model = studio.model
        project.write(text, ("self.level = 1\n", "self.level = 3\n"))
        studio.reload()
        assert shown(studio) == 13
        assert studio.model is not model
        studio.disconnect()
        studio.connect()
        assert shown(studio) == 13


def test_a_load_that_takes_values_out_of_its_config_is_not_repeated_for_that(project: Project) -> None:
    project.write(MODEL, ("self.weights = object()", "self.weights = config.pop('weights')"))
    with PipelineExecutor(project.model(), {"weights": 7}) as executor:
        executor.connect()
        assert red(executor) == 11
        model = executor.model
        project.write(
            MODEL, ("self.weights = object()", "self.weights = config.pop('weights')"), ("red = 10", "red = 20")
        )
        executor.reload()
        assert red(executor) == 21
        assert (executor.model, model.loads) == (model, 1)


def test_a_load_that_assigns_a_wrong_rate_leaves_the_old_code(project: Project) -> None:
    project.write(MODEL)
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        assert red(executor) == 11
        model = executor.model
        project.write(MODEL, ("self.weights = object()", "type(self).fps = 0"))
        with pytest.raises(LoadError, match=r"MyModel.fps after load\(\)"):
            executor.reload()
        assert red(executor) == 11
        assert executor.model is model


def test_seats_that_load_assigns_to_the_class_do_not_restart_the_engine_at_each_save(project: Project) -> None:
    text = MODEL.replace("fps = 10", "fps = 10; seats = 1").replace("object()", "object(); type(self).seats = 2")
    project.write(text)
    with Studio(project.model()) as studio:
        studio.connect()
        for edit, expected in ((("red = 10", "red = 20"), 21), (("object();", "list();"), 11)):
            project.write(text, edit)
            studio.reload()
            assert shown(studio) == expected
            assert len(studio.model.seats) == 2
        project.write(text, ("seats = 1", "seats = 3"))
        with pytest.raises(RuntimeError, match="a session has 3 seats now"):
            studio.reload()


def shown_in_a_second(studio: Studio[Any]) -> int:
    studio.run(0.5)
    studio.clear()
    studio.run(1.0)
    return len(studio.frames)


@pytest.mark.parametrize("assigned", ["type(self).fps = 5", "self.output.fps = 5"], ids=["class", "output"])
def test_the_rate_that_a_load_assigns_lasts_until_code_without_it_is_loaded(project: Project, assigned: str) -> None:
    weights = "self.weights = object()"
    project.write(MODEL)
    with Studio(project.model()) as studio:
        studio.connect()
        assert shown_in_a_second(studio) == 10
        project.write(MODEL, (weights, assigned))
        studio.reload()
        assert shown_in_a_second(studio) == 5
        project.write(MODEL, (weights, assigned), ("red = 10", "red = 20"))
        studio.reload()
        assert (studio.model.loads, shown_in_a_second(studio)) == (1, 5)
        assert shown(studio) == 21
        project.write(MODEL, (weights, "self.weights = None"))
        studio.reload()
        assert shown_in_a_second(studio) == 10


@pytest.mark.parametrize("assigned", ["type(self).fps = 5", "self.output.fps = 5"], ids=["class", "output"])
def test_code_that_fails_leaves_no_rate_that_its_load_has_assigned(project: Project, assigned: str) -> None:
    project.write(MODEL)
    with Studio(project.model()) as studio:
        studio.connect()
        assert shown_in_a_second(studio) == 10
        project.write(MODEL, ("self.weights = object()", assigned), ("red = 10", "red = 1 // 0"))
        with pytest.raises(ZeroDivisionError):
            reload_and_run(studio)
        assert shown_in_a_second(studio) == 10


def test_a_run_that_does_not_end_is_reported(project: Project) -> None:
    forever = "try: await asyncio.sleep(9)\n                    except asyncio.CancelledError: pass"
    project.write(LOOP, ("await asyncio.sleep(0.1)", forever))
    with Studio(project.model()) as studio:
        studio.connect()
        studio.run(0.1)
        project.write(LOOP)
        with pytest.raises(ClassError, match=r"run\(\) has not ended after 5 s, and the new code waits for it"):
            studio.reload()


def test_a_changed_file_or_name_in_the_config_of_model_loads_again(project: Project) -> None:
    text = BLOCKS.replace("class MyModel", "@model(name='mine', config='tuned.yml')\n    class MyModel")
    text = text.replace("self.level = 1", "self.level = config.pop('level')")
    project.write(text)
    tuned, other = project.folder / "tuned.yml", project.folder / "other.yml"
    tuned.write_text("level: 1")
    other.write_text("level: 3")
    with Studio(project.model()) as studio:
        studio.connect()
        assert shown(studio) == 11
        tuned.write_text("level: 2")
        studio.reload()
        assert shown(studio) == 12
        project.write(text, ("tuned.yml", "other.yml"))
        studio.reload()
        assert shown(studio) == 13
        model = studio.model
        project.write(text, ("tuned.yml", "other.yml"), ("red = 10", "red = 20"))
        studio.reload()
        assert shown(studio) == 23
        assert studio.model is model
        other.write_text("level: [")
        with pytest.raises(ConfigError):
            studio.reload()
        assert shown(studio) == 23


@OTHER_STYLES
def test_other_styles_take_new_code_between_sessions(project: Project, text: str) -> None:
    project.write(text)
    with Studio(project.model()) as studio:
        project.write(text, ("red = 10", "red = 20"))
        studio.reload()
        studio.connect()
        assert shown(studio) == 21


def test_new_code_is_applied_after_a_state_that_could_not_be_made(project: Project) -> None:
    state = """class MyState(InputState):
        level: int = 1

        def __post_init__(self):
            self.unknown

    class MyModel("""
    project.write(BLOCKS, ("class MyModel(", state), ("fps = 10", "fps = 10; state: MyState"))
    with Studio(project.model()) as studio:
        with pytest.raises(AttributeError, match="unknown"):
            studio.connect()
        project.write(BLOCKS)
        studio.reload()
        studio.connect()
        assert shown(studio) == 11


def test_another_style_needs_another_studio(project: Project) -> None:
    project.write(LOOP)
    with Studio(project.model()) as studio:
        project.write(BLOCKS)
        with pytest.raises(RuntimeError, match="MyModel is a VideoModel now"):
            studio.reload()
        studio.connect()
        assert shown(studio) == 11


def test_a_class_that_moves_to_another_module_of_the_project_is_loaded_again(project: Project) -> None:
    project.write(MODEL)
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        assert red(executor) == 11
        model, moved = executor.model, f"{project.name}_moved"
        project.write(MODEL, ("red = 10", "red = 20"), name=moved)
        project.write(f"from {moved} import MyModel, Picture")
        executor.reload()
        assert red(executor) == 21
        assert executor.model is not model


def test_a_class_that_moves_out_of_the_project_is_loaded_again(
    project: Project, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(MODEL)
    with PipelineExecutor(project.model()) as executor:
        executor.connect()
        assert red(executor) == 11
        library = Project(tmp_path_factory.mktemp("library"), f"{project.name}_library")
        library.write(MODEL, ("red = 10", "red = 20"))
        monkeypatch.syspath_prepend(str(library.folder))
        project.write(f"from {library.name} import MyModel, Picture")
        executor.reload()
        assert red(executor) == 21
        # Another save changes nothing of the class.
        model = executor.model
        project.write(f"from {library.name} import MyModel, Picture\n\nNAME = 1")
        executor.reload()
        assert red(executor) == 21
        assert executor.model is model


def test_a_module_that_extends_the_path_of_modules_does_not_make_it_longer_each_time(project: Project) -> None:
    text = MODEL.replace("import numpy", "import sys; sys.path.insert(0, '/library')\n    import numpy")
    project.write(text)
    with Studio(project.model()) as studio:
        lengths = []
        for number in range(3):
            project.write(text, ("red = 10", f"red = {number}"))
            studio.reload()
            lengths.append(len(sys.path))
        assert lengths == lengths[:1] * 3


def usage(module: str) -> dict[str, int]:
    gc.collect()
    objects = gc.get_objects()
    return {
        "classes": sum(issubclass(type(each), type) and each.__module__ == module for each in objects),
        "threads": threading.active_count(),
        "descriptors": len(os.listdir("/dev/fd")),
        "objects": len(objects),
    }


@pytest.mark.parametrize("text", [MODEL, LOOP, BLOCKS], ids=["pipeline", "loop", "blocks"])
def test_many_reloads_leave_no_class_thread_descriptor_or_memory_behind(
    project: Project, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr("reactor_runtime.engine.drivers.threads.JOIN_S", TIMEOUT_S)
    # A record of an exception refers to its frames, and pytest keeps all records.
    caplog.set_level(logging.CRITICAL)
    text = text.replace("class MyModel(", PART + "\n    class MyModel(").replace("red = 10", "red = self.part.red()")
    text = text.replace("+ 1\n", "+ 1\n            self.part = Part()\n", 1)
    project.write(text)
    fails = [("return NUMBER", "return NUMBER // 0"), ("class Part", "import no_such_module\n    class Part")]
    with Studio(project.model()) as studio:
        studio.connect()
        for number in range(51):
            project.write(text, ("NUMBER = 0", f"NUMBER = {number}"), *fails[: number % 3])
            with contextlib.suppress(ZeroDivisionError, ClassError):
                reload_and_run(studio)
            assert shown(studio) == number - number % 3 + 1
            studio.clear()
            if number == 20:
                before = usage(project.name)
        after = usage(project.name)
    objects = after.pop("objects") - before.pop("objects")
    assert after == before
    # One object that stays for each save of one of the three kinds is found. Coverage keeps some for each thread.
    assert objects < 10 or sys.gettrace() is not None


DRAWING = (
    ("import numpy as np", "import random\n    import numpy as np"),
    ("red + self.state.level", "red + self.state.level + self.shift + random.randrange(50)"),
    ("self.weights = object()", "self.shift = config.get('shift', 0)"),
)


class Recorded:
    """A recorded session of the model of a project, which edits change while it runs."""

    def __init__(self, project: Project, directory: Path) -> None:
        self.project = project
        self.directory = directory
        self.write()
        self.recorder = Recorder(RecordOptions(directory), {"shift": 3}, project.folder)
        self.studio = Studio(project.model(), {"shift": 3}, logs=self.recorder)
        self.studio.connect()

    def write(self, *replaced: tuple[str, str]) -> None:
        self.project.write(MODEL, *DRAWING, *replaced)

    def edit(self, *replaced: tuple[str, str]) -> None:
        """Save and apply, then run for half a second."""
        self.write(*replaced)
        self.studio.reload()
        self.studio.run(0.55)

    def finish(self) -> SessionRecording:
        self.studio.close()
        self.recorder.close()
        (file,) = self.directory.iterdir()
        return read_recording(file)

    def differing(self, recording: SessionRecording, config: dict[str, Any] | None = None) -> set[int]:
        """Return the steps that differ when the code on disk replays a recording."""
        shutil.rmtree(self.project.folder / "__pycache__", ignore_errors=True)
        sys.modules.pop(self.project.name)
        return {
            each.step
            for each in replay(recording.path, self.project.model(), config=config, config_from="recording").differences
        }


@pytest.fixture
def recorded(project: Project, tmp_path: Path) -> Recorded:
    return Recorded(project, tmp_path / "recordings")


def test_a_recording_goes_on_with_new_code_and_its_replay_differs_before(recorded: Recorded) -> None:
    recorded.studio.run(0.55)
    recorded.studio.send_event("set_level", level=7)
    recorded.edit(("red = 10", "red = 50"))
    recorded.edit(("red = 10", "red = 90"))
    recording = recorded.finish()
    assert [change.changed for change in recording.code_changes] == [(f"{recorded.project.name}.py",)] * 2
    first, last = (change.step for change in recording.code_changes)
    assert 0 < first < last < recording.steps == len(recording.outputs)
    assert recorded.differing(recording) == set(range(1, last + 1))
    recorded.write(("red = 10", "red = 50"))
    assert recorded.differing(recording) == {*range(1, first + 1), *range(last + 1, recording.steps + 1)}


@pytest.mark.parametrize(
    "broken",
    [("red = 10", "red = = 10"), ("red = 10", "red = random.randrange(9) // 0"), ("self.loads =", "1 // 0 #")],
    ids=["compile", "first step", "load"],
)
def test_a_recording_goes_on_when_new_code_fails(recorded: Recorded, broken: tuple[str, str]) -> None:
    recorded.studio.run(0.55)
    recorded.write(broken)
    with contextlib.suppress(ClassError, LoadError):
        recorded.studio.reload()
    with contextlib.suppress(ZeroDivisionError):
        recorded.studio.run(0.25)
    recorded.studio.send_event("set_level", level=7)
    recorded.studio.run(0.55)
    recording = recorded.finish()
    assert [change.step for change in recording.code_changes] in ([], [6, 6])
    assert recording.steps > 10
    recorded.write()
    assert recorded.differing(recording) == set()


def test_a_value_that_was_set_before_new_code_failed_stays_also_in_the_replay(recorded: Recorded) -> None:
    recorded.studio.run(0.55)
    recorded.write(("red = 10", "red = 1 // 0"))
    recorded.studio.reload()
    recorded.studio.send_event("set_level", level=7)
    with pytest.raises(ZeroDivisionError):
        recorded.studio.run(0.55)
    assert recorded.studio.model.state.level == 7
    recorded.studio.run(0.55)
    recording = recorded.finish()
    recorded.write()
    assert recorded.differing(recording) == set()


@pytest.mark.parametrize("fails", [False, True], ids=["load", "load, then a first step that fails"])
def test_a_model_that_was_loaded_again_is_loaded_again_in_the_replay(recorded: Recorded, fails: bool) -> None:
    recorded.studio.run(0.55)
    recorded.studio.model.shift = 40
    changed = ("self.loads =", "self.more = 1; self.loads =")
    with contextlib.suppress(ZeroDivisionError):
        recorded.edit(changed, ("red = 10", "red = 1 // 0" if fails else "red = 10"))
    recorded.studio.run(0.55)
    assert recorded.studio.model.shift == (40 if fails else 3)
    recording = recorded.finish()
    recorded.write(changed)
    by_hand = {each for each in recorded.differing(recording) if each > 6}
    assert by_hand == (set(range(7, recording.steps + 1)) if fails else set())


def test_a_config_that_has_changed_is_the_one_of_the_replay_from_there_on(recorded: Recorded) -> None:
    recorded.studio.run(0.55)
    reloader = recorded.studio._host.reloader
    assert reloader is not None
    reloader.reload({"shift": 30})
    recorded.studio.run(0.55)
    recording = recorded.finish()
    assert recording.reloads[0].entry.config == '{"shift": 30}'
    assert recorded.differing(recording) == set()
    assert recorded.differing(recording, {"shift": 3}) == set(range(recording.reloads[0].step + 1, recording.steps + 1))


def test_a_recording_ends_where_the_contract_changes(recorded: Recorded, caplog: pytest.LogCaptureFixture) -> None:
    recorded.studio.run(0.55)
    recorded.edit(("le=9", "le=8"))
    recording = recorded.finish()
    assert recording.end == EndEntry(6)
    assert (recording.steps, len(recording.outputs)) == (6, 6)
    assert "the recording of the session ends: a reload has changed the contract" in caplog.messages
    recorded.write()
    assert recorded.differing(recording) == set()


def test_a_recording_goes_on_when_new_code_with_another_contract_fails(recorded: Recorded) -> None:
    recorded.studio.run(0.55)
    with pytest.raises(ZeroDivisionError):
        recorded.edit(("le=9", "le=8"), ("red = 10", "red = random.randrange(9) // 0"))
    recorded.studio.run(0.55)
    recorded.studio.send_event("set_level", level=9)
    recorded.studio.run(0.55)
    recording = recorded.finish()
    assert recording.steps > 14
    recorded.write()
    assert recorded.differing(recording) == set()


def test_load_that_fails_at_a_reload_fails_the_replay(recorded: Recorded) -> None:
    recorded.studio.run(0.55)
    recorded.edit(("self.loads =", "self.more = 1; self.loads ="))
    recording = recorded.finish()
    recorded.write(("self.loads =", "self.failing = recorded.append(1) or 1 // (2 - len(recorded)); self.loads ="),
                   ("class Picture", "recorded = []\n\n    class Picture"))  # fmt: skip
    with pytest.raises(LoadError, match="ZeroDivisionError"):
        recorded.differing(recording)
