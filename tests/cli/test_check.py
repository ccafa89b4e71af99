from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli.command import Outcome, environment, new_reactor, reactor
from tests.processes import descendants, gone
from tests.timeouts import TIMEOUT_S

GOOD = """\
from reactor_runtime import InputField, InputState, ModelMessage, Output, ReactorPipeline, Video, connected, event

class MyOutput(Output):
    main_video: Video

class Progress(ModelMessage):
    step: int

class MyState(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0, description="Brightness multiplier")

class MyModel(ReactorPipeline):
    state: MyState
    fps = 24

    @event(name="reset", description="Start over")
    def reset(self) -> Progress:
        return Progress(step=0)

    def inference(self):
        yield None
"""
MANIFEST = "model: pipeline:MyModel\nname: my-model\nconfig: config.yml\n"
SUMMARY = """\
my-model  pipeline:MyModel
  rate      24 fps; up to 4 frames queued
  tracks    main_video: video out
  events    set_brightness(brightness: number 0.0 to 2.0 = 1.0)  Brightness multiplier
            reset()                                              Start over
  messages  progress(step: integer)
"""


@dataclass(frozen=True)
class Broken:
    """A project with one fault: the files that differ from those of a good one, and arguments."""

    name: str
    files: dict[str, str | None] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


def source(old: str, new: str) -> dict[str, str | None]:
    assert old in GOOD
    return {"pipeline.py": GOOD.replace(old, new)}


STATE = 'brightness: float = InputField(default=1.0, ge=0.0, le=2.0, description="Brightness multiplier")'
INFERENCE = "    def inference(self):\n        yield None\n"
MISSPELT = INFERENCE.replace("inference", "inferense")
TWIN = "class progress(ModelMessage):\n    pass\n\n"
HOOKS = "".join(f"    @connected\n    def {name}(self): ...\n\n" for name in "ab")
FAULTS = [
    Broken("no manifest", {"reactor.yaml": None}),
    Broken("unknown key", {"reactor.yaml": MANIFEST + "prot: 3\n"}),
    Broken("form of the class", {"reactor.yaml": "model: pipeline.MyModel\n"}),
    Broken("bad YAML", {"reactor.yaml": "model: [pipeline\n"}),
    Broken("no config", {"config.yml": None}),
    Broken("config is a list", {"config.yml": "- 1\n"}),
    Broken("bad --set", arguments=("--set", "width.x=1")),
    Broken("no directory", arguments=("nowhere",)),
    Broken("named twice", arguments=(".", "--path", ".")),
    Broken("no module", {"pipeline.py": None, "pipelines.py": GOOD}),
    Broken("no class", source("class MyModel", "class MyModell")),
    Broken("no model", source("MyModel(ReactorPipeline)", "MyModel")),
    Broken("syntax", source("yield None", "yield (")),
    Broken("missing package", source("from reactor_runtime", "import no_such_package\nfrom reactor_runtime")),
    Broken("import raises", source("class MyOutput", "open('weights.pt')\n\nclass MyOutput")),
    Broken("import exits", source("class MyOutput", "raise SystemExit('set MODEL_HOME')\n\nclass MyOutput")),
    Broken("import is interrupted", source("class MyOutput", "raise KeyboardInterrupt\n\nclass MyOutput")),
    Broken("track", source("main_video: Video", "main_video: Video | None")),
    Broken("default out of range", source("default=1.0", "default=3.0")),
    Broken("type of a field", source(STATE, "brightness: complex = 1j")),
    Broken("field without default", source(STATE, "brightness: float")),
    Broken("no state", source("    state: MyState\n", "")),
    Broken("no inference", source(INFERENCE, "")),
    Broken("inference misspelt, with load()", source(INFERENCE, f"    def load(self, config): ...\n\n{MISSPELT}")),
    Broken("return for yield", source("yield None", "return MyOutput(main_video=None)")),
    Broken("event name", source('name="reset"', 'name="reactor.reset"')),
    Broken("two messages of one name", source("class MyState", f"{TWIN}class MyState")),
    Broken("two hooks", source("    def inference", f"{HOOKS}    def inference")),
    Broken("preset", {"reactor.yaml": MANIFEST + "presets:\n  Dark: {brightness: -1}\n"}),
    Broken("rate", source("fps = 24", "fps = 0")),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(tmp_path, {"reactor.yaml": MANIFEST, "config.yml": "width: 640\n", "pipeline.py": GOOD})
    return tmp_path


def write(project: Path, files: dict[str, str | None]) -> None:
    for name, text in files.items():
        if text is None:
            (project / name).unlink()
        else:
            (project / name).write_text(text)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_check_prints_the_same_error_as_run(project: Path, fault: Broken) -> None:
    write(project, fault.files)
    checked = reactor("check", *fault.arguments, cwd=project)
    run = reactor("run", "--port", "0", *fault.arguments, cwd=project)
    assert (checked.code, checked.out) == (2, "")
    assert run.code == 2
    assert checked.err == run.err
    assert checked.err.startswith("error: ")


@pytest.mark.parametrize("last_words", ["os._exit(0)", "os._exit(3)", "os.kill(os.getpid(), 9)"])
def test_a_process_that_ends_during_the_import_is_an_error(project: Path, last_words: str) -> None:
    write(project, source("class MyOutput", f"import os\n{last_words}\nclass MyOutput"))
    checked, run = (reactor(*command, cwd=project) for command in (["check"], ["run", "--port", "0"]))
    assert (checked.code, checked.out, checked.err) == (4, "", run.err)
    assert "while the model was loading" in checked.err
    result = json.loads(reactor("check", "--json", cwd=project).out)
    assert (result["ok"], result["error"]["kind"]) == (False, "LoadError")


def test_a_limit_without_effect_is_a_warning(project: Path) -> None:
    write(project, source("default=1.0, ge=0.0", 'default=1.0, max_length=3, pattern="a", ge=0.0'))
    outcome = reactor("check", cwd=project)
    assert (outcome.code, outcome.out) == (0, SUMMARY)
    assert "warning: MyState.brightness: max_length does not apply to float and has no effect\n  --> " in outcome.err
    assert "pipeline.py:10:5" in outcome.err
    assert "pattern does not apply to float" in outcome.err


def test_methods_that_are_no_events_are_a_hint(project: Path) -> None:
    methods = "    def set_x(self, x: int): ...\n\n    async def go(self, at: list[float], to: str = ''): ...\n\n"
    others = "".join(
        f"    def {each}: ...\n\n" for each in ("paint(self, image: 'Array')", "_own(self, x: int)", "f(self, x)")
    )
    write(project, source("    def inference", f"{methods}{others}    def inference"))
    hint = "hint: clients can't call set_x, go: @event(name=…) above a method makes it an event\n"
    outcome = reactor("check", cwd=project)
    assert (outcome.code, outcome.out, outcome.err) == (0, SUMMARY, hint)
    assert json.loads(reactor("check", "--json", cwd=project).out)["not_events"] == ["set_x", "go"]


@pytest.mark.parametrize("arguments", [("check", ""), ("run", ""), ("schema", "--path", "")], ids=" ".join)
def test_an_empty_directory_is_an_error(project: Path, arguments: tuple[str, ...]) -> None:
    outcome = reactor(*arguments, cwd=project)
    assert (outcome.code, outcome.out) == (2, "")
    assert ': "" is not a directory; `.` is the current one' in outcome.err


@pytest.mark.parametrize("name", ["import raises", "syntax", "default out of range"])
def test_verbose_prints_the_same_traceback_as_run(project: Path, name: str) -> None:
    (fault,) = [each for each in FAULTS if each.name == name]
    write(project, fault.files)
    checked, run = (reactor(*command, "--verbose", cwd=project) for command in (["check"], ["run", "--port", "0"]))
    assert checked.err == run.err
    assert "Traceback" in checked.err


def test_a_good_project_gives_an_outline(project: Path) -> None:
    assert reactor("check", cwd=project) == Outcome(0, SUMMARY, "")


def test_prints_of_the_model_go_to_stderr(project: Path) -> None:
    write(project, source("class MyOutput", "print('hello')\nclass MyOutput"))
    assert reactor("check", cwd=project) == Outcome(0, SUMMARY, "hello\n")


def test_json_output_of_a_good_project(project: Path) -> None:
    outcome = reactor("check", "--json", "--set", "width=3", cwd=project)
    assert (outcome.code, outcome.err) == (0, "")
    result = json.loads(outcome.out)
    assert result["events"].keys() == {"set_brightness", "reset"}
    assert {key: result[key] for key in ("ok", "name", "class", "fps", "max_fps", "buffer_size", "tracks")} == {
        "ok": True,
        "name": "my-model",
        "class": "pipeline:MyModel",
        "fps": 24.0,
        "max_fps": 60.0,
        "buffer_size": 4,
        "tracks": [{"name": "main_video", "kind": "video", "direction": "out"}],
    }


def test_json_output_of_an_error(project: Path) -> None:
    write(project, {"reactor.yaml": "modle: pipeline:MyModel\n"})
    outcome = reactor("check", "--json", cwd=project)
    assert outcome.code == 2
    assert json.loads(outcome.out) == {
        "ok": False,
        "error": {
            "kind": "ManifestError",
            "message": 'unknown key "modle"',
            "hint": 'did you mean "model"?',
            "where": {"file": str(project / "reactor.yaml"), "line": 1, "column": 1},
        },
    }
    assert outcome.err.startswith('error: unknown key "modle"')


def test_imports_come_only_from_the_project(project: Path) -> None:
    (project / "elsewhere").mkdir()
    (project / "elsewhere" / "beside.py").write_text("")
    write(project, source("class MyOutput", "import beside\nclass MyOutput"))
    checked, run = (
        new_reactor(*command, "..", cwd=project / "elsewhere") for command in (["check"], ["run", "--port", "0"])
    )
    assert checked.err == run.err
    assert "No module named 'beside'" in checked.err


def test_files_named_like_standard_modules_are_harmless(project: Path) -> None:
    for name in ("json", "random", "logging", "select", "textwrap", "difflib"):
        write(project, {f"{name}.py": "raise RuntimeError('this is not the one of the standard library')"})
    assert new_reactor("check", "--path", str(project), cwd=project.parent) == Outcome(0, SUMMARY, "")


SEATED = """
from reactor_runtime.interface import InputState, Output, ReactorPipeline, Video


class MyOutput(Output):
    main_video: Video


class World(InputState):
    speed: int = 1


class Player(InputState):
    move: int = 0


class MyModel(ReactorPipeline):
    state: World
    seat_state: Player
    seats = 4

    def inference(self):
        yield None
"""


def test_the_seats_and_the_events_of_the_host_are_shown(project: Path) -> None:
    (project / "pipeline.py").write_text(SEATED)
    outcome = reactor("check", cwd=project)
    assert "  seats     4\n" in outcome.out
    assert re.search(r"set_speed\(speed: integer.*\) +\(the host\)\n", outcome.out)
    assert "set_move(move: integer = 0)\n" in outcome.out
    assert json.loads(reactor("check", "--json", cwd=project).out)["seats"] == 4


def test_a_black_first_step_is_a_warning_with_its_line(project: Path) -> None:
    frames = "import numpy as np\n        yield np.zeros((4, 6, 3), np.uint8)"
    write(project, source("yield None", frames))
    outcome = reactor("check", "--step", cwd=project)
    assert outcome.code == 0
    assert re.fullmatch(
        re.escape(SUMMARY) + r"  step      [\d.]+ ms\n            main_video: 6x4, uint8\n", outcome.out
    )
    assert outcome.err.startswith(
        "warning: main_video is black in the first step: every value is 0\n  --> pipeline.py:"
    )
    assert "yield np.zeros((4, 6, 3), np.uint8)" in outcome.err
    result = json.loads(reactor("check", "--step", "--json", cwd=project).out)
    assert [track["name"] for track in result["step"]["tracks"]] == ["main_video"]
    # On a slow machine also of the time that the step took.
    (warning,) = [each for each in result["warnings"] if "the first step took" not in each["message"]]
    assert warning["where"]["line"] == 1 + (project / "pipeline.py").read_text().splitlines().index(
        "        yield np.zeros((4, 6, 3), np.uint8)"
    )


@pytest.mark.process
def test_the_time_that_a_first_step_takes_is_shown(project: Path) -> None:
    waits = "import os, time\n        while not os.path.exists('go'):\n            time.sleep(0.01)\n        "
    write(project, source("yield None", f"{waits}import numpy as np\n        yield np.ones((4, 6, 3), np.uint8)"))
    command = [sys.executable, "-m", "reactor_cli", "check", "--step"]
    with subprocess.Popen(command, cwd=project, env=environment(), stderr=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stderr is not None
        assert re.fullmatch(r"loading and making a first step … \d+ s\n", process.stderr.readline())
        (project / "go").touch()
        process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0


@pytest.mark.process
def test_an_import_ends_with_a_killed_command(project: Path) -> None:
    write(project, source("class MyOutput", "import time\nprint('importing')\ntime.sleep(1e6)\nclass MyOutput"))
    command = [sys.executable, "-m", "reactor_cli", "check"]
    with subprocess.Popen(command, cwd=project, env=environment(), stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"importing\n"
        others = descendants(process.pid)
        process.kill()
    assert others
    for pid in others:
        gone(pid)


def test_a_failing_first_step_is_reported_once(project: Path) -> None:
    write(project, source("yield None", "import numpy as np\n        yield np.zeros((4, 6, 3))"))
    outcome = reactor("check", "--step", cwd=project)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("error: the model failed: TypeError: main_video: got float64")
    assert outcome.err.count("got float64") == 1


def test_a_missing_output_is_reported_with_the_class(project: Path) -> None:
    files = source("yield None", "import numpy as np\n        yield np.zeros((4, 6, 3), np.uint8)")
    text = files["pipeline.py"]
    assert text is not None
    write(project, {"pipeline.py": text.replace("class MyOutput(Output):\n    main_video: Video\n", "")})
    outcome = reactor("check", "--step", cwd=project)
    assert (outcome.code, outcome.out) == (1, "")
    assert "the model declares no Output: add `class MyOutput(Output): main_video: Video`" in outcome.err
    assert "class MyModel(ReactorPipeline):" in outcome.err


def test_a_misspelt_key_and_an_unused_config_give_warnings(project: Path) -> None:
    misspelt = reactor("check", "--set", "widht=3", cwd=project)
    assert (misspelt.code, misspelt.err) == (
        0,
        "warning: --set widht=3: the config has no widht; did you mean width?\n",
    )
    write(project, {"reactor.yaml": "model: pipeline:MyModel\nname: my-model\n"})
    unread = reactor("check", cwd=project)
    assert (unread.code, unread.err.startswith("warning: config.yml is not read")) == (0, True)


def test_neither_load_nor_init_is_called(project: Path) -> None:
    calls = "    def __init__(self): raise OSError\n\n    def load(self, config): raise OSError\n\n    def inference"
    write(project, source("    def inference", calls))
    assert reactor("check", cwd=project) == Outcome(0, SUMMARY, "")
