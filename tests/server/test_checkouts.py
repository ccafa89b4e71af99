"""`git checkout` under `reactor run --reload`: the code of the other branch, and nothing of the one before."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.server.client import WireClient, controlling
from tests.server.running import PRELUDE, serving

MODEL = """
import options
from BRANCH import parts
from extra.one import NAME as EXTRA
from shape import NAME as SHAPE

HOME = "BRANCH"


class MyModel(ReactorPipeline):
    state: InputState
    fps = 60

    def load(self, config):
        self.level = config.get("level", 0)

    def inference(self):
        while True:
            names = {HOME, EXTRA, SHAPE, options.FAST or "main", *(part.NAME for part in parts)}
            yield gray((LEVEL if len(names) == 1 else 200) + self.level)
"""
OPTIONS = """
try:
    from fast import NAME as FAST
except ImportError:
    FAST = ""
"""


def git(project: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=", *arguments],
        cwd=project,
        check=True,
        capture_output=True,
    )


def commit(project: Path, branch: str, files: dict[str, str]) -> None:
    """Commit these files, in place of those there, as a branch."""
    git(project, "checkout", "--quiet", "--orphan", branch)
    git(project, "rm", "--quiet", "-r", "-f", "--ignore-unmatch", ".")
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    git(project, "add", *files)
    git(project, "commit", "--quiet", "-m", branch)


def files_of(branch: str, parts: list[str], level: int) -> dict[str, str]:
    """Return modules that have the name of their branch; `pipeline.py` shows `level` if all have the same."""
    name = f'NAME = "{branch}"\n'
    imports = "".join(f"from parts import {part}\n" for part in parts)
    model = MODEL.replace("from BRANCH import parts\n", imports + f"parts = [{', '.join(parts)}]\n")
    return {
        "reactor.yaml": "model: pipeline:MyModel\nname: my-model\nconfig: config.yml\n",
        "pipeline.py": PRELUDE + model.replace("BRANCH", branch).replace("LEVEL", str(level)),
        "options.py": OPTIONS,
        **{f"parts/{part}.py": name for part in parts},
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "--quiet")
    (project / ".git" / "info" / "exclude").write_text("__pycache__\noutput.log\n")
    name = 'NAME = "{}"\n'
    main = files_of("main", [f"part_{number}" for number in range(30)], 10)
    main |= {"config.yml": "level: 0\n", "extra/one.py": name.format("main"), "shape.py": name.format("main")}
    other = files_of("other", [f"part_{number}" for number in range(15, 45)], 60)
    other |= {"config.yml": "level: 0\n", "fast.py": name.format("other"), "shape/__init__.py": name.format("other")}
    other |= {"extra/__init__.py": "", "extra/one.py": name.format("other")}
    commit(project, "main", main)
    commit(project, "other", other)
    commit(project, "config", {**other, "config.yml": "level: 70\n"})
    git(project, "checkout", "--quiet", "main")
    return project


async def shown(client: WireClient, level: int) -> None:
    """Wait for a frame of this level."""
    while abs((await client.frame()).level - level) > 2:
        pass


LEVELS = {"main": 10, "other": 60, "config": 130}


async def test_a_checkout_shows_the_code_of_the_branch(project: Path) -> None:
    with serving(project, "--reload") as server:
        async with controlling(server.url) as client:
            await shown(client, 10)
            engine = server.engine
            for branch in ("other", "main", "config") * 3 + ("main",):
                git(project, "checkout", "--quiet", branch)
                await shown(client, LEVELS[branch])
            for branches in (("other", "main", "config"), ("main", "other"), ("config", "other", "main")):
                for branch in branches:
                    git(project, "checkout", "--quiet", branch)
                await shown(client, LEVELS[branches[-1]])
            assert server.engine == engine
            newest = [each["data"] for each in client.texts if each["type"] == "reactor.reload"][-1]
            assert (newest["status"], newest["error"]) == ("applied", None)
