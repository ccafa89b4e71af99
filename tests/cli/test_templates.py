"""Every template is a project that works unchanged: its tests and lint pass, and its frames and events are served."""

from __future__ import annotations

import ast
import asyncio
import json
import platform
import re
import shutil
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from jsonschema import Draft202012Validator
from PIL import Image

from reactor_cli.scaffold import find, write
from reactor_runtime.client import Session, connect
from reactor_runtime.media import jpeg
from tests.cli.command import environment, python, reactor, run_pytest
from tests.cli.template_recordings import RECORDINGS
from tests.cli.values import value
from tests.forks import ROOT
from tests.server.running import RunningServer, serving
from tests.template_projects import NAMES, template_project
from tests.timeouts import TIMEOUT_S

REPLAY = """
import sys
from reactor_runtime.testing import replay

result = replay(sys.argv[1], config_from="recording")
assert result.frames > 10
# PyTorch rounds some values differently on other processors.
most = result.frames // 4 if "torch" in sys.modules else 0
assert result.others == 0 and result.different <= most, [str(each) for each in result.differences]
"""
Data = dict[str, Any]


@pytest.fixture(scope="module", params=NAMES)
def project(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project of each template whose requirements are installed."""
    return template_project(request.param, tmp_path_factory.mktemp(request.param))


def test_its_own_tests_pass(project: Path) -> None:
    outcome = run_pytest(project)
    assert outcome.code == 0, outcome.out
    assert " passed" in outcome.out


# Other processors round the last bit of some functions differently, as do those without AVX2.
@pytest.mark.skipif(platform.machine() != "x86_64", reason="recorded on x86-64")
def test_its_recorded_session_is_the_same(project: Path) -> None:
    outcome = python("-c", REPLAY, str(RECORDINGS / f"{project.name}.mcap"), cwd=project)
    assert outcome.code == 0, f"{outcome.err}\nif the template has changed: python -m tests.cli.template_recordings"


def test_it_has_no_lint(project: Path) -> None:
    outcome = python("-m", "ruff", "check", "--isolated", "--select", "E,F,I,B,UP", "--line-length", "120", cwd=project)
    assert outcome.code == 0, outcome.out


@pytest.fixture(scope="module")
def outline(project: Path) -> Data:
    """Return the outline that `reactor check` prints."""
    outcome = reactor("check", "--json", cwd=project)
    assert (outcome.code, outcome.err) == (0, "")
    printed: Data = json.loads(outcome.out)
    return printed


def test_check_passes_and_prints_the_name(outline: Data, project: Path) -> None:
    assert (outline["ok"], outline["name"]) == (True, project.name)


def test_the_readme_mentions_every_event(outline: Data, project: Path) -> None:
    readme = (project / "README.md").read_text()
    names = [event.removeprefix("set_") for event in outline["events"]]
    assert [name for name in names if f"`{name}`" not in readme] == []


def test_it_is_rendered_without_a_server(project: Path, tmp_path: Path) -> None:
    small = ["--seconds", "0.5", "--set", "width=96", "--set", "height=64", "--out", str(tmp_path / "frames")]
    outcome = reactor("render", *small, cwd=project)
    # After 5 s there is a line of progress.
    assert [line for line in outcome.err.splitlines() if not line.startswith(("loading", "rendering"))] == []
    assert outcome.code == 0
    images = sorted((tmp_path / "frames").glob("*.png"))
    assert len(images) >= 10
    with Image.open(images[-1]) as image:
        assert image.size == (96, 64)


def test_a_wrong_value_in_its_config_is_an_error_that_names_the_line(project: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(project, tmp_path / "copy"))
    lines = (copy / "config.yml").read_text().splitlines()
    at = next(idx for idx, line in enumerate(lines) if line.startswith("width:"))
    lines[at] = "width: wide"
    (copy / "config.yml").write_text("\n".join(lines))
    outcome = reactor("check", "--step", cwd=copy)
    assert outcome.code in (1, 4)
    assert f"width is at config.yml:{at + 1}" in outcome.err


def test_the_first_file_is_complete_short_and_in_the_order_of_the_reference_page(tmp_path: Path) -> None:
    write(find("pipeline"), tmp_path, "m")
    assert [path.name for path in tmp_path.glob("*.py")] == ["pipeline.py"]
    source = (tmp_path / "pipeline.py").read_text()
    assert 50 <= len(source.splitlines()) <= 80
    names = (
        "class MyOutput", "main_video: Video", "class MyState", "brightness: float", "class MyModel", "def load",
        "@event", "def inference", "render_batch(", "yield MyOutput(main_video=batch)", "def render_batch",
    )  # fmt: skip
    assert sorted(names, key=source.index) == list(names)


def test_the_model_template_draws_the_same_frames_as_the_pipeline_template() -> None:
    drawing = {"COLOURS", "RING", "LIGHT", "SILK", "render_batch"}
    pipeline, model = definitions("pipeline/pipeline.py"), definitions("model/model.py")
    assert {name: pipeline[name] for name in drawing} == {name: model[name] for name in drawing}


def definitions(path: str) -> dict[str, str]:
    """Return the source of each function, class and constant of a template's file, by its name."""
    tree = ast.parse((ROOT / "templates" / path).read_text())
    named: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            named[ast.unparse(node.targets[0])] = node
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            named[node.name] = node
    return {name: ast.unparse(node) for name, node in named.items()}


@pytest.fixture(scope="module")
def server(project: Path) -> Iterator[RunningServer]:
    with serving(project) as server:
        yield server
        # On a busy machine a first step takes more than the second from which the engine warns.
        unexpected = r"^(\S+ )?(error|warn)(?!.*the first step took)|Traceback"
        assert not re.search(unexpected, server.log, re.MULTILINE), server.log


async def test_a_template_sends_its_frames_and_accepts_every_event(server: RunningServer, project: Path) -> None:
    async with connect(server.url) as session, asyncio.timeout(TIMEOUT_S):
        send_media(session)
        await receive_all(session, project)
        for name, spec in session.schema["events"].items():
            data = value(spec["parameters"])
            Draft202012Validator(spec["parameters"]).validate(data)
            await session.send(name, data)
            send_media(session)
        await receive_all(session, project)


def send_media(session: Session) -> None:
    """Send a frame to each input track for video, and a tenth of a second of sound to each for audio."""
    noise = np.random.default_rng(3).integers(0, 256, (240, 320, 3), np.uint8)
    for track in session.tracks:
        if track.direction == "in":
            session.publish(track.name, noise if track.kind == "video" else np.zeros((1, 4800), np.int16))


async def receive_all(session: Session, project: Path) -> None:
    """Wait for media of every output track, and check it against the config and the contract."""
    config = yaml.safe_load((project / "config.yml").read_text())
    for track in session.tracks:
        if (track.direction, track.kind) == ("out", "video"):
            frame = await anext(session.frames(track.name))
            assert frame.array.shape == (config["height"], config["width"], 3)
        elif track.direction == "out":
            sound = await anext(session.sound(track.name))
            assert sound.sample_rate == track.sample_rate
            assert sound.array.shape[1] > 0


async def test_send_frames_sends_piped_frames_and_saves_the_results(tmp_path: Path) -> None:
    write(find("webcam"), tmp_path / "camera", "camera")
    white = jpeg.encode(np.full((48, 64, 3), 250, np.uint8))
    with serving(tmp_path / "camera") as server:
        command = [sys.executable, "-W", "error", "send_frames.py", server.url, "-", "filter=plain"]
        async with asyncio.timeout(TIMEOUT_S), connect(server.url, role="viewer") as viewer:
            sender = await asyncio.create_subprocess_exec(
                *command, cwd=tmp_path / "camera", env=environment(), stdin=PIPE, stdout=PIPE
            )
            assert sender.stdin is not None, "a pipe was asked for"
            async for frame in viewer.frames():
                sender.stdin.write(white)
                if frame.array.mean() > 200:
                    break
            sender.stdin.close()
            said, _ = await sender.communicate()
    # The controller may be connected before its first status is read.
    assert (sender.returncode, said.splitlines()[-1]) == (0, b"connected")
    assert jpeg.decode((tmp_path / "camera" / "out.jpg").read_bytes()).shape == frame.array.shape
