"""`reactor run --reload`: one server whose project is edited while a client watches."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import simplejpeg

from reactor_runtime.client import connect
from reactor_runtime.recording.file import read_recording
from tests.cli.command import reactor
from tests.openapi import strict, validator
from tests.server.client import WireClient, controlling
from tests.server.client import client as connected
from tests.server.running import PRELUDE, RunningServer, serving, started, write_project
from tests.server.test_schema import SAID_ONLY_WITH_RELOAD

MODEL = """
from part import LEVEL


class MyState(InputState):
    plus: int = InputField(default=0, ge=0, le=99)
    shown: int = InputField(default=3, read_only=True)


class MyModel(ReactorPipeline):
    state: MyState
    fps = 60

    def load(self, config):
        self.loaded = config.get("level", 0), os.getpid(), time.time()

    def inference(self):
        self.failing = False
        while True:
            if self.failing:
                raise ValueError("in a step")
            yield gray(LEVEL + self.loaded[0] + self.state.plus)

    @event(name="fail")
    def fail(self):
        raise ValueError("a handler")

    @event(name="fail_in_step")
    def fail_in_step(self):
        self.failing = True
"""

BLOCKS = """
from part import LEVEL


@model(name="blocks", config="tuned.yaml")
class MyModel(VideoModel):
    fps = 60

    def __init__(self, config):
        self.plus = config["plus"]

    def start_session(self):
        while not get_ctx().should_stop():
            get_ctx().emit_block(gray(LEVEL + self.plus)[None])
"""


class Project:
    """A project on disk that is edited as editors do."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reset()

    def reset(self) -> None:
        self.write("reactor.yaml", "model: pipeline:MyModel\nname: my-model\nconfig: config.yml\n")
        self.write("config.yml", "level: 0\n")
        self.write("part.py", "LEVEL = 10\n")
        self.model()

    def write(self, name: str, text: str) -> None:
        """Write a new file and rename it: the name never has half a file."""
        new = self.folder / f"{name}.new"
        new.write_text(text)
        new.replace(self.folder / name)

    def model(self, *changes: tuple[str, str]) -> None:
        text = MODEL
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        self.write("pipeline.py", PRELUDE + text)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return Project(write_project(tmp_path_factory.mktemp("project"), MODEL))


@pytest.fixture(scope="module")
def server(project: Project) -> Iterator[RunningServer]:
    with serving(project.folder, "--reload") as server:
        yield server


async def shown(client: WireClient, level: int) -> None:
    """Wait for a frame of this level."""
    while abs((await client.frame()).level - level) > 2:
        pass


async def status(client: WireClient, wanted: str) -> dict[str, Any]:
    return await client.data("reactor.reload", status=wanted)


def session_of(client: WireClient) -> str:
    return next(str(each["data"]["session"]) for each in client.texts if each["type"] == "reactor.welcome")


@contextlib.asynccontextmanager
async def watching(server: RunningServer, project: Project) -> AsyncIterator[WireClient]:
    """Control a session of the project as it was at first; it is the same at the end."""
    async with controlling(server.url) as client:
        project.reset()
        await shown(client, 10)
        engine = server.engine
        try:
            yield client
        except BaseException:
            # The next test needs code that runs.
            project.reset()
            raise
        assert not [each for each in client.texts if each["data"].get("phase") == "ended"]
        assert server.engine == engine
        assert (await client.frame()).level > 1, "no black frame"
        schema = validator(strict(json.loads(server.get("/schema")[1])), "ServerMessage")
        for said in client.texts:
            if said["type"] in SAID_ONLY_WITH_RELOAD:
                assert [error.message for error in schema.iter_errors(said)] == [], said


async def test_a_save_is_shown_in_the_same_session(server: RunningServer, project: Project) -> None:
    async with watching(server, project) as client:
        await client.send("set_plus", {"plus": 7})
        await shown(client, 17)
        project.model(("LEVEL +", "LEVEL + 50 +"))
        await shown(client, 67)
        project.write("part.py", "LEVEL = 90\n")
        await shown(client, 147)
        assert not [each for each in client.texts if each["data"].get("status") == "loading"]


async def test_a_save_that_does_not_compile_is_reported_until_the_next_one(
    server: RunningServer, project: Project
) -> None:
    async with watching(server, project) as client:
        project.write("part.py", "LEVEL = = 1\n")
        failed = await status(client, "failed")
        assert failed["error"] == {
            "message": "SyntaxError: invalid syntax",
            "hint": None,
            "file": "part.py",
            "line": 1,
            "text": "LEVEL = = 1",
        }
        server.wait_for("LEVEL = = 1")
        async with joined(server) as viewer:
            assert (await viewer.data("reactor.welcome"))["reload"] == failed
        await shown(client, 10)
        project.write("part.py", "LEVEL = 20\n")
        assert (await status(client, "applied"))["error"] is None
        await shown(client, 20)


async def test_an_exception_keeps_frame_and_session_until_the_next_save(
    server: RunningServer, project: Project
) -> None:
    async with watching(server, project) as client:
        project.model(("yield gray(", "1 // (80 - self.state.plus); yield gray("))
        await status(client, "applied")
        logged = server.log.count("Traceback")
        await client.send("set_plus", {"plus": 80})
        failed = await status(client, "failed")
        assert failed["error"]["message"] == "the model failed: ZeroDivisionError: integer division or modulo by zero"
        assert (failed["error"]["file"], failed["error"]["text"].strip()[:8]) == ("pipeline.py", "1 // (80")
        server.wait_for("ZeroDivisionError: integer division or modulo by zero$")
        assert server.log.count("Traceback") == logged + 1
        project.model()
        await status(client, "applied")
        await shown(client, 90)


@pytest.mark.parametrize("code", ["while True: pass", "time.sleep(3600)"], ids=["loop", "wait"])
async def test_code_that_does_not_return_is_named_and_ended_by_the_next_save(
    server: RunningServer, project: Project, code: str
) -> None:
    async with watching(server, project) as client:
        await client.send("set_plus", {"plus": 50})
        # The reload of the files as they were at first is over when a later one is.
        project.write("part.py", "LEVEL = 20\n")
        await shown(client, 70)
        project.model(("self.failing = False", code))
        failed = await status(client, "failed")
        assert failed["error"]["message"].endswith("has not returned")
        assert failed["error"]["hint"] == "save again to restart"
        assert failed["error"]["text"].strip() == code
        project.model(("self.failing = False", "self.failing = bool(0)"))
        await status(client, "applied")
        await shown(client, 70)


async def test_a_load_that_does_not_return_is_ended_by_the_next_save(server: RunningServer, project: Project) -> None:
    async with watching(server, project) as client:
        await client.send("set_plus", {"plus": 50})
        await shown(client, 60)
        project.model(("self.loaded = config", "time.sleep(3600); self.loaded = config"))
        await status(client, "loading")
        project.model(("self.loaded = config", "time.sleep(0); self.loaded = config"))
        await status(client, "applied")
        await shown(client, 60)


async def test_an_inference_that_does_not_yield_is_shown_with_its_line(server: RunningServer, project: Project) -> None:
    async with watching(server, project) as client:
        project.model(("yield gray(", "return gray("))
        error = (await status(client, "failed"))["error"]
        assert "returned ndarray, not a generator" in error["message"]
        assert (error["file"], error["text"].strip()[:12]) == ("pipeline.py", "return gray(")
        await shown(client, 10)


async def test_an_exception_of_a_handler_is_reported(server: RunningServer, project: Project) -> None:
    async with watching(server, project) as client:
        await client.send("fail")
        assert (await status(client, "failed"))["error"]["message"] == "a handler failed: ValueError: a handler"
        await shown(client, 10)


async def test_a_changed_contract_comes_before_the_first_frame_of_its_code(
    server: RunningServer, project: Project
) -> None:
    async with watching(server, project) as client:
        await client.send("set_plus", {"plus": 7})
        await shown(client, 17)
        project.model(("plus: int = InputField(default=0", "plus: int = InputField(default=5"), ("LEVEL +", "150 +"))
        contract = await client.data("reactor.contract")
        assert contract["schema"]["events"]["set_plus"]["parameters"]["properties"]["plus"]["default"] == 5
        assert [track["name"] for track in contract["tracks"]] == ["main_video"]
        await status(client, "applied")
        await shown(client, 157)
        async with joined(server) as viewer:
            welcome = await viewer.data("reactor.welcome")
            assert (welcome["schema"], welcome["state"]) == (contract["schema"], {"plus": 7, "shown": 3})


async def test_a_changed_load_or_config_loads_again_in_the_session(server: RunningServer, project: Project) -> None:
    async with watching(server, project) as client:
        await client.send("set_plus", {"plus": 7})
        project.write("config.yml", "level: 40\n")
        assert (await status(client, "loading"))["reason"] == "the config has changed"
        await shown(client, 57)
        project.model(('config.get("level", 0)', "80"))
        assert (await status(client, "loading"))["reason"] == "MyModel.load() has changed"
        await shown(client, 97)
        project.write("config.yml", "level: [\n")
        assert (await status(client, "failed"))["error"]["file"] == "config.yml"


async def test_a_file_that_is_again_as_it_runs_ends_the_error(server: RunningServer, project: Project) -> None:
    async with watching(server, project) as client:
        for name, text in (("config.yml", "level: [\n"), ("reactor.yaml", "model: [\n"), ("part.py", "LEVEL = = 1\n")):
            before = (project.folder / name).read_text()
            project.write(name, text)
            await status(client, "failed")
            project.write(name, before)
            assert (await status(client, "applied"))["error"] is None


async def test_a_controller_reloads_by_hand_and_a_viewer_does_not(server: RunningServer, project: Project) -> None:
    async with watching(server, project) as client, joined(server) as viewer:
        answer = await viewer.ask("reactor.reload", id=4)
        assert answer["data"]["code"] == "not_controller"
        await client.send("reactor.reload")
        await status(client, "applied")


async def test_a_session_is_kept_and_replays_the_same_also_where_it_failed(
    server: RunningServer, project: Project
) -> None:
    async with watching(server, project) as client, joined(server) as viewer:
        answer = await viewer.ask("reactor.keep", id="k")
        assert answer["data"]["code"] == "not_controller"
    # Without changes of its code.
    async with controlling(server.url) as client:
        await client.ask("set_plus", {"plus": 7})
        await shown(client, 17)
        answer = await client.ask("reactor.keep", id="k")
        kept = answer["data"]
        assert answer["type"] == "reactor.keep"
        assert Path(kept["file"]).parent == project.folder / "recordings"
        assert (kept["message"], kept["hint"]) == (None, None)
        server.wait_for(f"kept the session file={kept['file']}")
        await client.ask("fail_in_step")
        await status(client, "failed")
        await client.send("reactor.keep")
        failed = await client.data("reactor.keep")
        project.reset()
        project.write("part.py", "LEVEL = 20\n")
        await shown(client, 27)
        await client.send("reactor.keep")
        continued = await client.data("reactor.keep")
        assert (continued["message"], continued["hint"]) == (None, None)
        project.model(("le=99", "le=90"))
        await client.data("reactor.contract")
        await client.frame()
        await client.send("reactor.keep")
        ended = await client.data("reactor.keep")
        assert "where a reload changed the contract" in ended["message"]
        assert "reload the page" in ended["hint"]
    project.reset()
    outcome = reactor("replay", kept["file"], cwd=project.folder)
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("kept after step ")
    for file in (failed["file"], continued["file"]):
        outcome = reactor("replay", file, cwd=project.folder)
        assert outcome.code == 1
        assert outcome.err.startswith("error: the model failed: ValueError: in a step")


def test_a_program_keeps_its_session(server: RunningServer, project: Project) -> None:
    project.reset()
    with connect(f"127.0.0.1:{server.port}") as session:
        session.frame()
        path = session.keep()
    assert path.parent == project.folder / "recordings"
    assert read_recording(path).outputs


async def test_a_session_is_recorded_with_the_config_that_a_reload_has_applied(
    server: RunningServer, project: Project
) -> None:
    async with watching(server, project) as client:
        project.write("config.yml", "level: 40\n")
        await shown(client, 50)
    async with controlling(server.url) as client:
        await shown(client, 50)
        await client.send("reactor.keep")
        kept = read_recording(Path((await client.data("reactor.keep"))["file"]))
        assert kept.header.config == '{"level": 40}'
        project.reset()
        await shown(client, 10)


async def test_files_that_come_and_go_are_applied(server: RunningServer, project: Project) -> None:
    async with watching(server, project) as client:
        (project.folder / "part.py").unlink()
        failed = await status(client, "failed")
        assert "No module named 'part'" in failed["error"]["message"]
        (project.folder / "part").mkdir()
        (project.folder / "part" / "__init__.py").write_text("from part.level import LEVEL\n")
        (project.folder / "part" / "level.py").write_text("LEVEL = 30\n")
        await shown(client, 30)
        (project.folder / "part" / "level.py").write_text("LEVEL = 60\n")
        await shown(client, 60)
        shutil.rmtree(project.folder / "part")
        project.write("part.py", "LEVEL = 70\n")
        await shown(client, 70)


async def test_a_file_that_is_written_in_parts_and_many_saves_end_with_the_last(
    server: RunningServer, project: Project
) -> None:
    async with watching(server, project) as client:
        for level in range(11, 60):
            (project.folder / "part.py").write_text("")
            (project.folder / "part.py").write_text(f"LEVEL = {level}\n")
        await shown(client, 59)


async def test_a_changed_text_of_the_manifest_is_in_the_page_and_clients_read_it_again(
    server: RunningServer, project: Project
) -> None:
    async with watching(server, project) as client:
        manifest = (project.folder / "reactor.yaml").read_text()
        project.write("reactor.yaml", manifest + "title: Aurora\npresets:\n  More:\n    plus: 7\n")
        assert (await status(client, "applied"))["error"] is None
        page = server.get("/")[1]
        assert "<title>Aurora</title>" in page
        assert "data-presets" in page
        project.write("reactor.yaml", manifest + "title: [\n")
        await status(client, "failed")
        assert server.get("/")[0] == 200


async def failed(client: WireClient, message: str) -> dict[str, Any]:
    """Wait for a reload that fails with this message; return its error."""
    error: dict[str, Any] = {"message": ""}
    while error["message"] != message:
        error = (await status(client, "failed"))["error"]
    return error


async def test_presets_have_to_fit_the_model_after_each_save(server: RunningServer, project: Project) -> None:
    async with watching(server, project) as client:
        manifest = (project.folder / "reactor.yaml").read_text()
        project.write("reactor.yaml", manifest + "presets:\n  More:\n    pluss: 7\n")
        error = await failed(client, 'the preset "More" sets "pluss", which MyModel does not have')
        assert (error["file"], error["text"]) == ("reactor.yaml", "    pluss: 7")
        project.write("reactor.yaml", manifest + "presets: {More: {plus: 7}}\n")
        await status(client, "applied")
        project.write("pipeline.py", PRELUDE + MODEL.replace("plus:", "more:").replace("state.plus", "state.more"))
        await failed(client, 'the preset "More" sets "plus", which MyModel does not have')
        await shown(client, 10)


async def test_another_config_in_the_manifest_is_applied_and_watched(server: RunningServer, project: Project) -> None:
    async with watching(server, project) as client:
        manifest = (project.folder / "reactor.yaml").read_text()
        (project.folder / "other.yml").write_text("level: 40\n")
        project.write("reactor.yaml", manifest.replace("config.yml", "other.yml"))
        await shown(client, 50)
        project.write("other.yml", "level: 60\n")
        await shown(client, 70)


async def test_another_class_in_the_manifest_restarts_the_engine(server: RunningServer, project: Project) -> None:
    async with controlling(server.url) as client:
        engine = server.engine
        project.write("other.py", PRELUDE + MODEL.replace("LEVEL +", "200 +"))
        project.write("reactor.yaml", "model: other:MyModel\nname: my-model\nconfig: config.yml\n")
        assert (await status(client, "restarting"))["reason"] == "reactor.yaml names other:MyModel now"
        assert await client.closed() == (1001, "the model starts again with new code")
    async with controlling(server.url) as client:
        await shown(client, 200)
        assert server.engine != engine
        project.reset()
        await status(client, "restarting")
    async with controlling(server.url) as client:
        await shown(client, 10)


async def test_a_project_behind_a_link_may_be_replaced_as_a_whole(tmp_path: Path) -> None:
    real, link, shared = tmp_path / "real", tmp_path / "link", tmp_path / "shared"
    project = Project(write_project(real, MODEL))
    link.symlink_to(real)
    shared.mkdir()
    (shared / "1.yml").write_text("level: 1\n")
    (shared / "40.yml").write_text("level: 40\n")
    (real / "config.yml").unlink()
    (real / "config.yml").symlink_to(shared / "1.yml")
    with serving(link, "--reload", cwd=real) as server:
        async with controlling(server.url) as client:
            await shown(client, 11)
            (shared / "1.yml").write_text("level: 20\n")
            await shown(client, 30)
            (real / "config.new").symlink_to(shared / "40.yml")
            (real / "config.new").replace(real / "config.yml")
            await shown(client, 50)
            engine = server.engine
            shutil.rmtree(real)
            await status(client, "failed")
            real.mkdir()
            project.reset()
            await shown(client, 10)
            project.write("part.py", "LEVEL = 70\n")
            await shown(client, 70)
            assert server.engine == engine


FAILING = """
from part import LEVEL


class MyState(InputState):
    plus: int = InputField(default=0, ge=0, le=99)


class MyModel({base}):
    state: MyState
    fps = 60
    level = 0

    def {load}(self, config):
        self.loaded = int(config["level"])
"""
GREET = """
    @connected
    def greet(self):
        self.level = {number}
"""
RUN = """
    async def run(self):
        while True:
            await self.connected.wait()
            await self.emit(MyOutput(main_video=gray(LEVEL + {number} + self.state.plus)))
"""
INFERENCE = """
    def inference(self):
        while True:
            yield gray(LEVEL + {number} + self.state.plus)
"""
START_SESSION = """
    def start_session(self):
        while not get_ctx().should_stop():
            get_ctx().emit_block(gray(LEVEL + {number} + self.state.plus)[None])
"""


def failing(base: str, code: str, number: str) -> str:
    load = "__init__" if base == "VideoModel" else "load"
    return PRELUDE + (FAILING + code).format(base=base, load=load, number=number)


@pytest.mark.parametrize(
    ("base", "code"),
    [
        ("ReactorModel", GREET + RUN.replace("{number}", "self.level")),
        ("ReactorPipeline", GREET + INFERENCE.replace("{number}", "self.level")),
        ("ReactorModel", RUN),
        ("ReactorPipeline", INFERENCE),
        ("VideoModel", START_SESSION),
    ],
    ids=["@connected of a loop", "@connected of a pipeline", "run()", "inference()", "start_session()"],
)
async def test_the_first_exception_of_a_session_keeps_it_until_a_save_that_runs(
    tmp_path: Path, base: str, code: str
) -> None:
    project = Project(write_project(tmp_path, MODEL))

    def write(number: str) -> None:
        project.write("pipeline.py", failing(base, code, number))

    write("10 // 0")
    with serving(project.folder, "--reload") as server:
        async with controlling(server.url) as client:
            await status(client, "failed")
        # That client has left while the model waited for a save.
        async with controlling(server.url) as client:
            assert "ZeroDivisionError" in (await status(client, "failed"))["error"]["message"]
            await client.send("set_plus", {"plus": 7})
            write("[][0]")
            assert "IndexError" in (await status(client, "failed"))["error"]["message"]
            project.write("config.yml", "level: none\n")
            assert "ValueError" in (await status(client, "failed"))["error"]["message"]
            project.write("config.yml", "level: 0\n")
            project.write("part.py", "LEVEL = 20\n")
            write("10")
            await status(client, "applied")
            await shown(client, 37)
        assert "reason=model_error" not in server.log


@pytest.mark.parametrize(
    ("base", "code"),
    [("ReactorModel", RUN), ("ReactorPipeline", INFERENCE), ("VideoModel", START_SESSION)],
    ids=["run()", "inference()", "start_session()"],
)
async def test_code_that_failed_in_the_session_before_is_code_to_go_back_to(
    tmp_path: Path, base: str, code: str
) -> None:
    project = Project(write_project(tmp_path, MODEL))
    project.write("pipeline.py", failing(base, code, "100 // (20 - self.state.plus)"))
    with serving(project.folder, "--reload") as server:
        async with controlling(server.url) as client:
            await shown(client, 15)
            await client.send("set_plus", {"plus": 20})
            await status(client, "failed")
        async with controlling(server.url) as client:
            await shown(client, 15)
            project.write("pipeline.py", failing(base, code, "[][0]"))
            await status(client, "failed")
            await client.send("set_plus", {"plus": 10})
            await shown(client, 30)


async def test_a_model_that_can_not_be_loaded_is_started_after_the_next_save(tmp_path: Path) -> None:
    project = Project(write_project(tmp_path, BLOCKS))
    project.write("pipeline.py", PRELUDE + BLOCKS)
    project.write("tuned.yaml", "plus: 0\n")
    project.write("part.py", "LEVEL = = 1\n")
    with started(project.folder, "--reload=full") as server:
        server.wait_for("SyntaxError")
        project.write("part.py", "LEVEL = 30\n")
        server.wait_for("ready in")
        async with controlling(server.url) as client:
            await shown(client, 30)
            # The file that @model names is watched too.
            project.write("tuned.yaml", "plus: 20\n")
            assert (await status(client, "restarting"))["reason"] == "--reload=full"
            await client.closed()
        async with controlling(server.url) as client:
            await shown(client, 50)
            project.write("pipeline.py", PRELUDE + BLOCKS.replace("self.plus =", "time.sleep(99); self.plus ="))
            await status(client, "restarting")
        server.stop()
        assert server.log.count("Traceback") == 0


@contextlib.asynccontextmanager
async def joined(server: RunningServer) -> AsyncIterator[WireClient]:
    async with connected(server.url, role="viewer") as viewer:
        yield viewer


@pytest.mark.parametrize("template", ["sound", "torch"])
async def test_a_template_shows_a_changed_width_to_a_connected_client(template: str, tmp_path: Path) -> None:
    if template == "torch":
        pytest.importorskip("torch")
    assert reactor("init", "made", "-t", template, cwd=tmp_path).code == 0
    folder = tmp_path / "made"
    config = (folder / "config.yml").read_text()
    width = re.search(r"^width: (\d+)$", config, re.MULTILINE)
    assert width is not None
    with serving(folder, "--reload") as server:
        async with controlling(server.url) as client:
            assert await width_of(client) == int(width[1])
            (folder / "config.yml").write_text(config.replace(width[0], "width: 320"))
            await status(client, "applied")
            while await width_of(client) != 320:
                pass


async def width_of(client: WireClient) -> int:
    """Return the width of the next frame that is no sound."""
    while not (data := (await client.frame()).data).startswith(b"\xff\xd8"):
        pass
    return int(simplejpeg.decode_jpeg(data).shape[1])
