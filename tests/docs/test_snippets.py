"""Every snippet of the docs is run, parsed or compared with the code."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import simplejpeg
from PIL import Image

from reactor_runtime import config, manifest
from reactor_runtime.authoring.styles.block import VideoModel, starting_config
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.media import wav
from reactor_runtime.wire.codec import decode_text
from reactor_runtime.wire.containers import attach, detach
from reactor_runtime.wire.messages import Event
from tests.cli.command import declared, python, reactor, run_pytest
from tests.clips.test_reading import video
from tests.docs.snippets import LANGUAGES, ROOT, TUTORIAL, Snippet, imported, one, snippets
from tests.docs.test_tutorial import project_of
from tests.engine.rig import Rig
from tests.server.client import WireClient, client
from tests.server.running import RunningServer, serving
from tests.template_projects import forget_module
from tests.timeouts import TIMEOUT_S

PLAYED_S = 0.3
# Makes the file session.mcap, a session with the model of pipeline.py.
RECORD = """
from pathlib import Path
from pipeline import MyModel
from tests.testing.recorded import recorded

with recorded(MyModel, Path(), {"width": 64, "height": 48}) as studio:
    studio.run(0.5)
    studio.send_event("set_brightness", brightness=0.5)
    studio.run(0.5)
(file,) = Path().glob("*.mcap")
file.rename("session.mcap")
"""
OTHER_COMMANDS = {
    *("cd", "curl", "docker", "echo", "ffmpeg", "ffplay", "npm", "pip", "python", "pkill", "python3", "ray", "sudo"),
    *("kubectl", "modal", "pytest", "sbatch"),
}
# Programs, and a model of several files: each has a test of its own.
PROGRAMS = {
    "cell.py",
    "client.py",
    "clip.py",
    "episode.py",
    "header.py",
    "match.py",
    "offline.py",
    "send.py",
    "steer.py",
    "steps.py",
    "record.py",
    "second.py",
    "typed.py",
    "web.py",
}
# Imported by the models of their page; the first of a name is used.
MODULES = {"painter.py", "workers.py"}
# Read by tests/server/routes/test_metrics.py.
FOR_PROMETHEUS = {"prometheus.yml", "reactor.rules.yml", "workers.yml"}
# Read by test_deploy.py.
FOR_CONTAINERS = {"compose.yaml", "kubernetes.yaml"}
# Scripts of `reactor render`, each with the template that it is for.
SCRIPTS = {"inputs.yaml": "pipeline", "cameras.yaml": "webcam"}


@pytest.fixture(scope="module")
def scaffold(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Serve a new project with small frames."""
    directory = tmp_path_factory.mktemp("docs")
    assert reactor("init", "my-model", cwd=directory).code == 0
    with serving(directory / "my-model", "--set", "width=96", "--set", "height=64") as server:
        yield server


def test_every_snippet_has_a_language_that_is_tested() -> None:
    assert [str(snippet) for snippet in snippets() if snippet.language not in LANGUAGES] == []


# Those of the tutorial are excerpts of projects: test_tutorial.py.
whole = [snippet for snippet in snippets("python") if snippet.page.parent != TUTORIAL]
tests = [snippet for snippet in whole if snippet.title.startswith("test_")]
models = [snippet for snippet in whole if snippet.title not in PROGRAMS | MODULES and snippet not in tests]
# The others make their frames in this process.
marked = [
    pytest.param(snippet, marks=[pytest.mark.process] if "DistributedRunner(" in snippet.text else [])
    for snippet in models
]


@pytest.mark.parametrize("snippet", marked, ids=str)
async def test_a_model_is_compiled_and_makes_frames(
    snippet: Snippet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for file in modules_of(snippet.page):
        (tmp_path / file.title).write_text(file.text)
        forget_module(file.title.removesuffix(".py"), monkeypatch)
    with imported(snippet.text, tmp_path) as module:
        classes = [value for value in vars(module).values() if _is_model(value, module.__name__)]
        assert classes, "a snippet of Python shows a model"
        for model in classes:
            assert await _frames(model) > 0


def modules_of(page: Path) -> list[Snippet]:
    """Return the files that the models of a page import."""
    found = [snippet for snippet in snippets("python") if snippet.page == page and snippet.title in MODULES]
    return list({snippet.title: snippet for snippet in reversed(found)}.values())


def _is_model(value: object, module: str) -> bool:
    return isinstance(value, type) and issubclass(value, Model) and value.__module__ == module


async def _frames(model: type[Model]) -> int:
    rig = Rig(model, config=starting_config(model, Path()))
    rig.driver.start()
    async with rig.running():
        for track in rig.contract.tracks:
            if track.direction == "in":
                video = track.kind == "video"
                rig.inputs.push_array(
                    track.name, np.zeros((8, 8, 3) if video else 480, np.uint8 if video else np.int16)
                )
        _prompt(rig)
        await rig.play(PLAYED_S)
        async with asyncio.timeout(TIMEOUT_S):
            # A model of blocks has a thread, which takes real time, and may lose a prompt that comes before it starts.
            while issubclass(model, VideoModel) and not any(rig.sink.reds):
                _prompt(rig)
                await asyncio.sleep(0.01)
                await rig.play(0.01)
    await rig.driver.aclose()
    rig.inputs.shutdown()
    return len(rig.sink.shown)


def _prompt(rig: Rig) -> None:
    if "set_prompt" in rig.contract.events:
        rig.event("set_prompt", prompt="a lighthouse")


@pytest.mark.parametrize("snippet", tests, ids=str)
def test_a_test_passes(snippet: Snippet, tmp_path: Path) -> None:
    for source in (one("authoring.md", "pipeline.py"), one("blocks.md", "blocks.py"), one("seats.md", "duel.py")):
        (tmp_path / source.title).write_text(source.text)
    (tmp_path / snippet.title).write_text(snippet.text)
    if "session.mcap" in snippet.text:
        (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\n")
        assert python("-c", RECORD, cwd=tmp_path).code == 0
    outcome = run_pytest(tmp_path)
    assert outcome.code == 0, outcome.out


@pytest.mark.parametrize("snippet", snippets("json", title="client"), ids=str)
def test_what_a_client_says_is_understood(snippet: Snippet) -> None:
    assert decode_text(snippet.text)


@pytest.mark.parametrize("snippet", snippets("json", title="client"), ids=str)
def test_an_event_in_json_is_one_of_a_model_shown(snippet: Snippet, tmp_path: Path) -> None:
    message = decode_text(snippet.text)
    if not isinstance(message, Event):
        return
    with imported(_model_beside(snippet), tmp_path) as module:
        spec = Rig(module.MyModel).contract.events[message.type]
    assert spec.validate(message.data_json).keys() >= json.loads(message.data_json).keys()


def _model_beside(snippet: Snippet) -> str:
    """Return the model whose events a page sends."""
    if snippet.page.parent == TUTORIAL:
        return (project_of(snippet.page) / "pipeline.py").read_text(encoding="utf-8")
    return one(snippet.page.name if snippet.page.name == "README.md" else "authoring.md", "pipeline.py").text


@pytest.mark.parametrize("snippet", snippets("json", title="server"), ids=str)
def test_what_the_server_says_is_json(snippet: Snippet) -> None:
    message = json.loads(snippet.text)
    assert {"type", "data"} <= message.keys() <= {"type", "data", "id"}


@pytest.mark.parametrize("snippet", [s for s in snippets("json") if s.title not in ("client", "server")], ids=str)
def test_other_json_is_json(snippet: Snippet) -> None:
    assert json.loads(snippet.text)


async def test_the_server_says_what_the_docs_show(scaffold: RunningServer) -> None:
    shown = [json.loads(snippet.text) for snippet in snippets("json", title="server")]
    async with client(scaffold.url) as controller:
        said = await _conversation(controller)
    for message in said:
        alike = [_shape(example) for example in shown if example["type"] == message["type"]]
        assert _shape(message) in alike, f"{message} isn't shown so"


async def _conversation(controller: WireClient) -> list[dict[str, Any]]:
    welcome = await controller.message("reactor.welcome")
    started = await controller.message("reactor.session", phase="started")
    reply = await controller.ask("set_brightness", {"brightness": 0.5})
    refusal = await controller.ask("set_brightness", {"brightness": 3.2})
    await controller.send("reactor.ping", {"t": 1})
    pong = await controller.message("reactor.pong")
    await controller.frame()
    stats = await controller.message("reactor.stats")
    while "step_ms" not in stats["data"]:
        stats = await controller.message("reactor.stats")
    states = [message for message in controller.texts if message["type"] == "reactor.state"]
    return [welcome, started, reply, refusal, pong, stats, *states]


def _shape(message: dict[str, Any]) -> tuple[frozenset[str], frozenset[str], object]:
    return frozenset(message), frozenset(message["data"]), message["data"].get("phase")


def test_health_says_what_the_docs_show(scaffold: RunningServer) -> None:
    shown = json.loads(one("wire-http.md", "health").text)
    assert scaffold.health()[1].keys() == shown.keys()


async def test_the_site_serves_its_own_page_and_mounts_the_model(tmp_path: Path) -> None:
    (tmp_path / "my_model.py").write_text(one("serving.md", "my_model.py").text)
    (tmp_path / "web.py").write_text(one("serving.md", "web.py").text)
    program = "import sys, runpy; sys.path.insert(0, '.'); print(runpy.run_path('web.py')['app'].routes[1].path)"
    done = await asyncio.to_thread(python, "-W", "error", "-c", program, cwd=tmp_path)
    assert (done.code, done.out) == (0, "/demo\n"), done.err


async def test_the_bare_client_shows_when_its_input_is_on_screen(scaffold: RunningServer, tmp_path: Path) -> None:
    said = await _run_program(one("wire.md", "client.py").text, scaffold, tmp_path)
    assert "set_brightness" in said
    assert "the input shows after" in said
    assert (tmp_path / "frame.jpg").read_bytes()[:2] == b"\xff\xd8"


async def _run_program(text: str, server: RunningServer, directory: Path) -> str:
    """Run a client of the docs against a server in a process of its own, and return its output."""
    shown = "ws://127.0.0.1:8080/ws" if "ws://" in text else "http://127.0.0.1:8080"
    assert shown in text
    (directory / "program.py").write_text(text.replace(shown, server.url))
    run = [sys.executable, "-W", "error", "program.py"]
    done = await asyncio.to_thread(
        subprocess.run, run, cwd=directory, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_the_python_client_steers(scaffold: RunningServer, tmp_path: Path) -> None:
    said = await _run_program(one("client-python.md", "steer.py").text, scaffold, tmp_path)
    assert re.search(r"frame \d+ shows it, mean \d+, \d+ ms later", said)
    assert "invalid_event: set_brightness.brightness: 3.2 is above 2.0" in said
    assert "brightness is 0.2" in said


async def test_two_clients_have_a_seat_each(tmp_path: Path) -> None:
    (tmp_path / "duel.py").write_text(one("seats.md", "duel.py").text)
    (tmp_path / "reactor.yaml").write_text("model: duel:Duel\n")
    with serving(tmp_path) as server:
        said = await _run_program(one("seats.md", "second.py").text, server, tmp_path)
    assert "room duel: seats 0 and 1 of 2" in said
    assert "event 1 of this seat shows in frame" in said


async def test_a_program_steps_the_model(scaffold: RunningServer, tmp_path: Path) -> None:
    said = await _run_program(one("stepped.md", "steps.py").text, scaffold, tmp_path)
    assert "step 11: 40 frames of (64, 96, 3)" in said
    assert "the same frame: True" in said


async def test_a_program_plays_an_episode(scaffold: RunningServer, tmp_path: Path) -> None:
    pytest.importorskip("gymnasium")
    said = await _run_program(one("environment.md", "episode.py").text, scaffold, tmp_path)
    assert "observation: (64, 96, 3) uint8" in said


def test_an_episode_needs_no_server(scaffold: RunningServer, tmp_path: Path) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    (tmp_path / "pipeline.py").write_text((scaffold.output.parent / "pipeline.py").read_text())
    (tmp_path / "offline.py").write_text(one("environment.md", "offline.py").text)
    packages = [str(ROOT), str(Path(gymnasium.__file__).parents[1])]
    ran = python("offline.py", cwd=tmp_path, PYTHONPATH=os.pathsep.join(packages))
    assert "observation: (48, 64, 3)" in ran.out, ran.err


async def test_the_python_client_records(scaffold: RunningServer, tmp_path: Path) -> None:
    await _run_program(one("client-python.md", "record.py").text, scaffold, tmp_path)
    files = [tmp_path / f"{number:03}.jpg" for number in range(10)]
    assert all(simplejpeg.decode_jpeg(file.read_bytes()).shape == (64, 96, 3) for file in files)


async def _run_until(made: Callable[[], bool], text: str, server: RunningServer, directory: Path) -> None:
    """Run a client of the docs, and again if `made` returns False: a busy machine may stop it for most of its time."""
    async with asyncio.timeout(TIMEOUT_S):
        await _run_program(text, server, directory)
        while not made():
            await _run_program(text, server, directory)


async def test_the_clip_of_the_cookbook_moves(scaffold: RunningServer, tmp_path: Path) -> None:
    def is_moving() -> bool:
        with Image.open(tmp_path / "clip.webp") as clip:
            assert clip.format == "WEBP"
            return getattr(clip, "n_frames", 1) > 1

    await _run_until(is_moving, one("clients.md", "clip.py").text, scaffold, tmp_path)


async def test_the_typed_python_client_steers(scaffold: RunningServer, tmp_path: Path) -> None:
    module = reactor("schema", str(scaffold.output.parent), "--format", "python", "--out", "my_model.py", cwd=tmp_path)
    assert module.code == 0, module.err
    assert "event 2, brightness 0.5" in await _run_program(one("cli.md", "typed.py").text, scaffold, tmp_path)


async def test_the_sender_of_pictures_gets_them_back(tmp_path: Path) -> None:
    assert reactor("init", "camera", "-t", "webcam", cwd=tmp_path).code == 0

    def is_bright() -> bool:
        return bool(simplejpeg.decode_jpeg((tmp_path / "out.jpg").read_bytes()).mean() > 150)

    with serving(tmp_path / "camera", "--set", "width=96", "--set", "height=64") as server:
        await _run_until(is_bright, one("templates.md", "send.py").text, server, tmp_path)


async def test_the_header_reader_reads_pictures_and_sound(scaffold: RunningServer, tmp_path: Path) -> None:
    async with client(scaffold.url) as controller:
        picture = (await controller.frame()).data
    header, _ = detach(picture)
    assert header is not None
    sound = attach(header, wav.encode(np.zeros((2, 480), np.int16), 48_000))
    with imported(one("wire-media.md", "header.py").text, tmp_path) as module:
        for file in (picture, sound):
            read = module.read_header(file)
            assert read == {name: getattr(header, name) for name in read}
            assert read.keys() >= {"track", "seq", "pts_us", "wall_us", "applied", "flags"}


@pytest.mark.parametrize(
    "snippet", [s for s in snippets("yaml") if s.title not in FOR_PROMETHEUS | FOR_CONTAINERS | SCRIPTS.keys()], ids=str
)
def test_yaml_is_a_manifest_or_a_config(snippet: Snippet, tmp_path: Path) -> None:
    (tmp_path / "config.yml").write_text("")
    (tmp_path / "my_page").mkdir()
    (tmp_path / "my_page" / "index.html").write_text("<canvas></canvas>")
    (tmp_path / snippet.title).write_text(snippet.text)
    if snippet.title == "reactor.yaml":
        assert manifest.load(tmp_path).class_name == "MyModel"
    else:
        assert config.load(tmp_path / "config.yml")


@pytest.mark.parametrize("snippet", [s for s in snippets("yaml") if s.title in SCRIPTS], ids=str)
def test_a_script_is_rendered(snippet: Snippet, tmp_path: Path) -> None:
    assert reactor("init", "my-model", "-t", SCRIPTS[snippet.title], cwd=tmp_path).code == 0
    video(tmp_path / "walk.mp4", frames=8, first=100)
    Image.new("RGB", (48, 64)).save(tmp_path / "portrait.jpg")
    (tmp_path / snippet.title).write_text(snippet.text)
    small = ["--set", "width=96", "--set", "height=64", "--seconds", "0.1", "--out", "clip.mkv"]
    outcome = reactor("render", "my-model", "--script", snippet.title, *small, cwd=tmp_path)
    assert outcome.code == 0, outcome.err
    assert all("no effect" in line for line in outcome.err.splitlines())


def _commands() -> list[tuple[str, str]]:
    """List the command lines in the docs, each with where it stands."""
    found = []
    for snippet in snippets("sh", "console"):
        # The lines of a file that a command gets are no commands.
        text = re.sub(r"<<'END'\n.*?^END$", "", snippet.text, flags=re.MULTILINE | re.DOTALL)
        for line in text.splitlines():
            command = line.removeprefix("$ ") if snippet.language == "sh" or line.startswith("$ ") else ""
            if command:
                found.append((str(snippet), command))
    return found


@pytest.mark.parametrize(("place", "command"), _commands())
def test_a_command_of_the_docs_exists(place: str, command: str) -> None:
    program, *arguments = shlex.split(command, comments=True)
    if program == "make":
        targets = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert {each for each in arguments if not each.startswith("ARGS=")} <= set(targets), place
    elif program == "reactor":
        _parse(arguments)
    else:
        assert program in OTHER_COMMANDS, place


def _parse(arguments: list[str]) -> None:
    """Parse the arguments with the parser of the command line, which raises for unknown ones."""
    if arguments[0].startswith("-"):
        assert arguments == ["--help"]
        return
    name, *rest = arguments
    declared()[name].make_context(name, rest)


@pytest.mark.parametrize("snippet", snippets("console"), ids=str)
def test_a_command_prints_what_is_shown(snippet: Snippet, tmp_path: Path) -> None:
    for part in snippet.text.split("$ ")[1:]:
        command, _, output = part.partition("\n")
        if output.strip():
            if not command.startswith("reactor init"):
                assert reactor("init", "my-model", cwd=tmp_path).code == 0
            assert reactor(*shlex.split(command)[1:], cwd=tmp_path).out == output
