from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import typer

from reactor_runtime.cluster.front.scaling import Scaling
from reactor_runtime.cluster.options import ClusterOptions
from reactor_runtime.cluster.run_options import ClusterRunOptions
from reactor_runtime.errors import UsageError
from reactor_runtime.manifest import Manifest
from reactor_runtime.options.run_options import RunOptions
from tests.cli.command import declared, reactor
from tests.forks import ROOT
from tests.server.running import write_project

MODEL = """
class MyModel(ReactorPipeline):
    state: InputState

    def inference(self):
        while True:
            yield gray(100)
"""
MANIFEST = Manifest(Path("project"), "a:B", "a", "B", "b", None)


def options_of(sessions: int | None = None, **options: Any) -> ClusterOptions | None:
    return ClusterRunOptions(**options).cluster_options(MANIFEST, sessions)


def scaling_of(sessions: int | None = None, **options: Any) -> Scaling:
    found = options_of(sessions, on="ray", **options)
    assert found is not None
    return found.scaling


def test_without_on_there_is_no_cluster() -> None:
    assert options_of(4) is None


@pytest.mark.parametrize(
    ("options", "named"),
    [
        *[({"ray_address": "auto"}, "--ray-address"), ({"spare": 1}, "--spare"), ({"relay": True}, "--relay")],
        *[({"least": 0}, "--min"), ({"most": 3}, "--max"), ({"idle_after": 1.0}, "--idle-after")],
    ],
)
def test_an_option_of_a_cluster_needs_on(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=f"^{named} needs --on ray"):
        options_of(**options)


@pytest.mark.parametrize("given", ["ray://10.0.0.1:10001", "10.0.0.1", "https://10.0.0.1:6379", "local"])
@pytest.mark.parametrize("command", [("run", "--on", "ray"), ("down",)], ids=" ".join)
def test_an_address_of_another_form_is_an_error(command: tuple[str, ...], given: str, tmp_path: Path) -> None:
    outcome = reactor(*command, "--ray-address", given, cwd=tmp_path)
    assert outcome.code == 2
    assert f'--ray-address: "{given}" is neither auto nor an address such as 10.0.0.1:6379' in outcome.err


def test_a_cluster_has_more_sessions_than_one_machine() -> None:
    assert scaling_of(65) == Scaling(least=65, most=65)
    assert options_of(64) is None
    with pytest.raises(UsageError, match="--sessions 65 is above 64, the most of one machine"):
        options_of(65)


def test_the_cluster_has_the_name_of_the_project() -> None:
    found = options_of(on="ray")
    assert found is not None
    assert (found.name, found.address, found.scaling) == ("b", "", Scaling(least=1, most=1))


def test_sessions_are_the_least_and_the_most_unless_these_are_given() -> None:
    assert scaling_of(4) == Scaling(least=4, most=4)
    assert scaling_of(most=4) == Scaling(least=1, most=4)
    assert scaling_of(4, least=0) == Scaling(least=0, most=4)
    assert scaling_of(least=3) == Scaling(least=3, most=3)
    assert scaling_of(least=2, most=16, spare=1, idle_after=60.0) == Scaling(least=2, most=16, spare=1, idle_after_s=60)


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"least": 3, "most": 2}, "--min 3 is above --max 2"),
        ({"sessions": 8, "most": 2}, "--sessions 8 is above --max 2"),
        ({"spare": 2}, "--spare 2 is above --max 1"),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(options: dict[str, Any], refusal: str) -> None:
    with pytest.raises(UsageError, match=refusal):
        scaling_of(**options)


@pytest.mark.parametrize(
    "url",
    [
        *("{host}", "ftp://{host}", "http://{name}:{port}", "http://{", "http://{host"),
        *("https://{node}}:{port}", "https://{{node}}", "https://{node.name}", "https://{}", "https://{port[0]}"),
    ],
)
def test_a_wrong_url_of_workers_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--worker-url"):
        options_of(on="ray", worker_url=url)


@pytest.mark.parametrize(
    ("option", "value"),
    [("--gpus-per-session", "1.5"), ("--cpus-per-session", "x"), ("--worker-ports", "9"), ("--worker-ports", "9-8")],
)
def test_a_wrong_value_is_refused(option: str, value: str) -> None:
    with pytest.raises(typer.BadParameter, match=f'"{value}" is n'):
        declared()["run"].make_context("run", [option, value])


@pytest.mark.parametrize("options", [{"gpus": "0"}, {"reload": "full"}, {"record": Path("x")}, {"trace": Path("x")}])
def test_options_of_engines_on_this_machine_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="not available with --on ray"):
        RunOptions(**options).refuse_on_cluster()


def test_ports_are_a_range() -> None:
    found = options_of(on="ray", worker_ports=range(9000, 9100))
    assert found is not None
    assert found.worker_ports == (9000, 9099)


def test_an_option_of_a_cluster_without_it_ends_the_command(tmp_path: Path) -> None:
    done = reactor("run", str(tmp_path), "--worker-ports", "9000-9099", cwd=write_project(tmp_path, "").parent)
    assert done.code == 2
    assert "--worker-ports needs --on ray" in done.err


def test_a_ray_that_can_not_be_imported_is_named_by_the_driver_which_alone_imports_it(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "ray.py").write_text("raise ImportError('libray.so is broken')")
    path = os.pathsep.join((str(broken), str(ROOT)))
    project = write_project(tmp_path / "project", MODEL)
    done = reactor("run", "--on", "ray", "--port", "0", cwd=project, PYTHONPATH=path)
    assert done.code == 2
    assert "error: Ray can't be imported: libray.so is broken\nhint: pip install" in done.err


def test_requirements_are_the_lines_of_the_file_without_comments(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("# Imported by the model.\ntorch>=2.4 \\\n  --hash=sha256:0\n\n  # And by its tests.\npytest # x\n")
    found = options_of(on="ray", requirements=file)
    assert found is not None
    assert found.requirements == ("torch>=2.4 \\", "  --hash=sha256:0", "pytest # x")


def test_requirements_that_can_not_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.txt can't be read: No such file"):
        options_of(on="ray", requirements=tmp_path / "nothing.txt")


@pytest.mark.parametrize(
    "line",
    [
        *("-r base.txt", "-rbase.txt", "--requirement=base.txt", "-c limits.txt", "--constraint limits.txt", "-e ."),
        *("./local", "../local[cuda]", "libs/local", "tiny-1.0-py3-none-any.whl", "tiny-1.0.tar.gz", "-f wheels"),
    ],
)
def test_requirements_that_name_files_of_this_machine_are_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text(f"torch>=2.4\n  {line}  # ours\n")
    with pytest.raises(UsageError, match=re.escape(f'requirements.txt: "{line}  # ours" names a file')):
        options_of(on="ray", requirements=file)


def test_requirements_of_packages_urls_and_paths_of_the_nodes_are_sent(tmp_path: Path) -> None:
    lines = (
        *("torch[cuda]>=2.4; python_version>'3.10'", "tiny @ https://example.org/tiny.zip", "/srv/wheels/tiny.whl"),
        *("git+https://example.org/tiny.git", "-e git+ssh://git@example.org/tiny.git", "-r /srv/base.txt"),
        *("--index-url https://example.org/simple", "--find-links https://example.org/wheels", "--extra-index-url x"),
        *("file:///srv/tiny", "-r ${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}/base.txt", "--no-binary tiny"),
    )
    file = tmp_path / "requirements.txt"
    file.write_text("\n".join(lines))
    found = options_of(on="ray", requirements=file)
    assert found is not None
    assert found.requirements == lines
