"""`reactor run --on ray --requirements` in a small virtual environment, which Ray copies for its workers."""

from __future__ import annotations

import sys
import venv
import zipfile
from pathlib import Path

import pytest

from reactor_runtime.client import connect
from tests.cluster.local_ray import RAY_S, wait_for_local_ray
from tests.server.running import started, write_project

MODEL = """
class MyState(InputState):
    level: int = 0


class MyModel(ReactorPipeline):
    state: MyState

    def inference(self):
        import tiny

        self.state.level = tiny.LEVEL
        while True:
            yield gray(100)
"""
TINY = {
    "tiny.py": "LEVEL = 123\n",
    "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
    "tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "tiny-1.0.dist-info/RECORD": "".join(
        f"{name},,\n" for name in ("tiny.py", "tiny-1.0.dist-info/METADATA", "tiny-1.0.dist-info/WHEEL")
    ),
}


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", MODEL)


@pytest.fixture
def python(tmp_path: Path) -> str:
    """Return the Python of an environment with pip, and all packages of this one."""
    root = tmp_path / "venv"
    venv.create(root, with_pip=True, symlinks=True)
    (packages,) = root.glob("lib/python*/site-packages")
    packages.joinpath("base.pth").write_text("".join(f"{path}\n" for path in sys.path if path.endswith("-packages")))
    return str(root / "bin" / "python")


def test_ray_installs_the_packages_of_the_model(project: Path, python: str) -> None:
    wheel = project / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for name, text in TINY.items():
            file.writestr(name, text)
    (project / "requirements.txt").write_text(f"# Imported by the model.\n{wheel}\n\n")
    with started(project, "--on", "ray", "--requirements", str(project / "requirements.txt"), python=python) as server:
        wait_for_local_ray(server)
        server.wait_for("ready in", timeout_s=RAY_S)
        with connect(f"http://127.0.0.1:{server.port}") as session:
            while session.state["level"] != 123:
                session.frame()
        server.stop()


def test_a_package_that_can_not_be_installed_ends_the_front_with_the_line_of_pip(project: Path, python: str) -> None:
    (project / "requirements.txt").write_text("no-such-package==3\n")
    with started(project, "--on", "ray", "--requirements", str(project / "requirements.txt"), python=python) as server:
        wait_for_local_ray(server)
        assert server.ended(timeout_s=RAY_S) == 4
        assert "3 workers have ended before they were ready" in server.log
        assert "can't install what the worker needs on " in server.log
        assert ": No matching distribution found for no-such-package==3" in server.log
        assert "Traceback" not in server.log
