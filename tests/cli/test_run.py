from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reactor_cli.commands.run import Announcer
from reactor_runtime.manifest import Manifest
from reactor_runtime.server.options import Access, LoadingProgress, ServerListening, ServerReady
from tests.cli.command import reactor


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "reactor.yaml").write_text("model: pipeline:MyModel\nconfig: config.yml\n")
    (tmp_path / "config.yml").write_text("width: 640\n")
    return tmp_path


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (
            "model: pipeline:MyModel\nconfg: config.yml\n",
            [
                'error: unknown key "confg"',
                "  --> reactor.yaml:2:1",
                "  |",
                "2 | confg: config.yml",
                "  | ^^^^^",
                'hint: did you mean "config"?',
            ],
        ),
        (
            "model: pipeline.MyModel\n",
            [
                'error: "pipeline.MyModel" isn\'t of the form module:Class',
                "  --> reactor.yaml:1:8",
                "  |",
                "1 | model: pipeline.MyModel",
                "  |        ^^^^^^^^^^^^^^^^",
                "hint: did you mean `model: pipeline:MyModel`?",
            ],
        ),
        (
            "name: x\n",
            [
                'error: reactor.yaml lacks the key "model"',
                "  --> reactor.yaml:1",
                "hint: add `model: pipeline:MyModel`, the module and the class to serve",
            ],
        ),
        (
            "model: [pipeline\n",
            [
                "error: reactor.yaml isn't valid YAML: expected ',' or ']', but got '<stream end>'",
                "  --> reactor.yaml:1:17",
                "  |",
                "1 | model: [pipeline",
                "  |                 ^",
                "hint: a bracket is opened and not closed",
            ],
        ),
        (
            "model: pipeline:MyModel\nconfig: gone.yml\n",
            [
                "error: the config file gone.yml doesn't exist",
                "  --> reactor.yaml:2:9",
                "  |",
                "2 | config: gone.yml",
                "  |         ^^^^^^^^",
                "hint: the path is taken from the directory of reactor.yaml; leave the key out to go without a config",
            ],
        ),
    ],
    ids=["unknown key", "form of the class", "missing key", "bad YAML", "missing config"],
)
def test_an_error_in_the_manifest_has_its_line(project: Path, manifest: str, expected: list[str]) -> None:
    (project / "reactor.yaml").write_text(manifest)
    outcome = reactor("run", cwd=project)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.splitlines() == expected


def test_a_missing_manifest_is_an_error(tmp_path: Path) -> None:
    outcome = reactor("run", cwd=tmp_path)
    assert outcome.code == 2
    assert outcome.err.splitlines() == [
        f"error: there is no reactor.yaml in {tmp_path}",
        "hint: `reactor init NAME` makes a new project",
    ]


def test_a_config_that_is_not_a_mapping_is_an_error_with_its_line(project: Path) -> None:
    (project / "config.yml").write_text("# sizes\n- 640\n- 480\n")
    outcome = reactor("run", cwd=project)
    assert outcome.code == 2
    assert outcome.err.splitlines()[:4] == [
        "error: config.yml is a list, not a mapping",
        "  --> config.yml:2:1",
        "  |",
        "2 | - 640",
    ]


@pytest.mark.parametrize(
    ("assignment", "error"),
    [
        ("width", 'error: --set width: there is no "="'),
        ("a..b=1", "error: --set a..b=1: the key has an empty part"),
        ("width.x=1", "error: --set width.x=1: width is a number (640), not a mapping"),
        ("a={", "error: --set a={: the value isn't valid YAML"),
    ],
)
def test_a_malformed_set_is_an_error(project: Path, assignment: str, error: str) -> None:
    outcome = reactor("run", "--set", "fine=1", "--set", assignment, cwd=project)
    assert outcome.code == 2
    assert outcome.err.startswith(error)
    assert "hint: " in outcome.err


@pytest.mark.parametrize("arguments", [["{}"], ["--path", "{}"]], ids=["argument", "--path"])
def test_the_project_is_an_argument_or_an_option(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "reactor.yaml").write_text("modle: a:B\n")
    outcome = reactor("run", *(argument.format("mine") for argument in arguments), cwd=tmp_path)
    assert outcome.code == 2
    assert "--> mine/reactor.yaml:1:1" in outcome.err


def test_a_project_named_twice_is_an_error(project: Path) -> None:
    outcome = reactor("run", ".", "--path", ".", cwd=project)
    assert outcome.code == 2
    assert "given twice" in outcome.err


@pytest.fixture
def announcer(tmp_path: Path) -> Announcer:
    manifest = Manifest(tmp_path, "pipeline:MyModel", "pipeline", "MyModel", "my-model", None)
    return Announcer(manifest=manifest, access=Access(), open_page=False)


def test_a_local_start_prints_three_lines(announcer: Announcer, capsys: pytest.CaptureFixture[str]) -> None:
    announcer.on_listening(ServerListening("127.0.0.1", 8080))
    announcer.on_ready(ServerReady(0.123))
    assert capsys.readouterr() == (
        "my-model  pipeline:MyModel\n  http://127.0.0.1:8080\nready in 0.12 s\n",
        "",
    )


def test_a_start_for_the_network_prints_a_warning(announcer: Announcer, capsys: pytest.CaptureFixture[str]) -> None:
    announcer.on_listening(ServerListening("10.1.2.3", 9000))
    out, err = capsys.readouterr()
    assert out.endswith("  http://10.1.2.3:9000\n")
    assert err == "warning: anyone on the network can watch and control this model; --token auto requires a token\n"


def test_urls_contain_the_token_and_there_is_no_warning(
    announcer: Announcer, capsys: pytest.CaptureFixture[str]
) -> None:
    with_token = replace(announcer, access=Access(token="a/b&c+d-e", certificate=Path("own.pem")))
    with_token.on_listening(ServerListening("10.1.2.3", 9000))
    out, err = capsys.readouterr()
    assert out.endswith("  https://10.1.2.3:9000/?token=a%2Fb%26c%2Bd-e\n")
    assert err == ""


def test_long_loading_is_reported(announcer: Announcer, capsys: pytest.CaptureFixture[str]) -> None:
    announcer.on_loading(LoadingProgress(10.02, "fetching weights"))
    announcer.on_loading(LoadingProgress(15.0, ""))
    announcer.on_loading(LoadingProgress(20.0, "shard 2 of 4", progress=0.4))
    printed = "loading … 10 s: fetching weights\nloading … 15 s\nloading … 20 s, 40%: shard 2 of 4\n"
    assert capsys.readouterr() == ("", printed)


def test_the_number_of_ready_engines_is_printed(announcer: Announcer, capsys: pytest.CaptureFixture[str]) -> None:
    announcer.on_loading(LoadingProgress(5.0, "weights", 1, 2))
    announcer.on_ready(ServerReady(7.3, 1, 2))
    assert capsys.readouterr() == ("ready 1 of 2 in 7.30 s\n", "loading 1 of 2 … 5 s: weights\n")
