"""Which changes of a project and of its options make another build of its workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reactor_runtime import manifest
from reactor_runtime.cluster.front.scaling import Scaling
from reactor_runtime.cluster.front.serve import common_job
from reactor_runtime.cluster.options import ClusterOptions
from reactor_runtime.server.options import Access, ServeOptions
from tests.server.running import write_project
from tests.server.security.test_certificate import make_certificate

CLUSTER = ClusterOptions(name="test", scaling=Scaling(least=1, most=1), address="auto")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", "")


def build(project: Path, cluster: ClusterOptions = CLUSTER, **of_server: Any) -> str:
    options = ServeOptions(manifest=manifest.load(project), **{"config": {"seed": 1}, **of_server})
    return common_job(options, cluster).build


def write(project: Path, name: str) -> None:
    file = project / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("# new")


@pytest.mark.parametrize(
    "change",
    [
        lambda project: (project / "pipeline.py").write_text("# new"),
        lambda project: (project / "pipeline.py").unlink(),
        lambda project: (project / "pipeline.py").rename(project / "model.py"),
        lambda project: (project / "reactor.yaml").write_text("model: pipeline:Other"),
        lambda project: write(project, "inside/module.py"),
    ],
    ids=["content", "deleted", "renamed", "reactor.yaml", "added"],
)
def test_changed_files_make_another_build(project: Path, change: Callable[[Path], object]) -> None:
    before = build(project)
    change(project)
    assert build(project) != before


def test_files_that_are_no_modules_of_the_project_make_no_other_build(project: Path) -> None:
    before = build(project)
    for name in ("weights.bin", "output.log", ".venv/module.py", "__pycache__/module.py"):
        write(project, name)
    assert build(project) == before


def test_the_place_of_a_project_that_is_copied_makes_no_other_build(project: Path) -> None:
    before = build(project)
    assert build(project.rename(project.with_name("moved"))) == before


@pytest.mark.parametrize(
    "of_server", [{"config": {"seed": 2}}, {"max_viewers": 7}, {"log_level": "debug"}], ids=["config", "limit", "log"]
)
def test_other_options_of_workers_make_another_build(project: Path, of_server: dict[str, Any]) -> None:
    assert build(project, **of_server) != build(project)


@pytest.mark.parametrize(
    "of_cluster",
    [{"gpus_per_session": 0.5}, {"requirements": ("numpy",)}, {"worker_ports": (9000, 9009)}, {"is_on_nodes": True}],
    ids=["resources", "packages", "ports", "place of the project"],
)
def test_another_place_or_other_packages_make_another_build(project: Path, of_cluster: dict[str, Any]) -> None:
    assert build(project, replace(CLUSTER, **of_cluster)) != build(project)


def test_a_renewed_certificate_makes_another_build(project: Path) -> None:
    certificate, key = make_certificate(project.parent)
    access = Access(certificate=certificate, key=key)
    before = build(project, access=access)
    assert build(project, access=access) == before
    make_certificate(project.parent)
    assert build(project, access=access) != before


def test_options_of_the_front_alone_make_no_other_build(project: Path) -> None:
    cluster = replace(CLUSTER, scaling=Scaling(least=2, most=9), relays_all=True)
    assert build(project, cluster, port=9000, max_waiting=3) == build(project)
