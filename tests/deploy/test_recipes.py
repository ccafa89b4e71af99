"""The recipes of deploy/ pass the checks of their platforms' tools, and start `reactor run` with options that exist."""

from __future__ import annotations

import ast
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import typer
import yaml

from reactor_cli.app import app
from tests.docs.snippets import one
from tests.timeouts import TIMEOUT_S

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
# The tools are in the environment of the tests.
TOOLS = Path(sys.executable).parent
KUBERNETES = "1.33"
SCRIPTS = ("runpod/start.sh",)
MANIFESTS = ("agones/fleet.yaml",)
# Prints its name and its arguments, as lines that shlex splits.
RECORDER = '#!/usr/bin/env bash\nprintf "%q " "${0##*/}" "$@"\necho\n'


def _exactly(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _list_of(**properties: Any) -> dict[str, Any]:
    return {"type": "array", "items": _exactly(**properties)}


# The fields of custom resources that the recipes use. POD is a template, which is checked as a pod.
STRING, INTEGER, POD = {"type": "string"}, {"type": "integer"}, dict[str, Any]()
CUSTOM_RESOURCES = {
    "agones.dev/v1 Fleet": _exactly(
        replicas=INTEGER,
        template=_exactly(
            spec=_exactly(
                container=STRING,
                ports=_list_of(name=STRING, portPolicy={"const": "Dynamic"}, containerPort=INTEGER, protocol=STRING),
                health=_exactly(initialDelaySeconds=INTEGER, periodSeconds=INTEGER, failureThreshold=INTEGER),
                template=POD,
            )
        ),
    ),
}


def read(path: str) -> str:
    return (DEPLOY / path).read_text(encoding="utf-8")


def run(*command: str | Path, **variables: str) -> str:
    """Run a command, which has to succeed, and return its output."""
    done = subprocess.run(
        command,
        env={**os.environ, **variables},
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_hadolint_accepts_the_dockerfiles() -> None:
    run(TOOLS / "hadolint", DEPLOY / "docker" / "Dockerfile", ROOT / "templates" / "_shared" / "Dockerfile")


def test_shellcheck_accepts_the_scripts() -> None:
    run(TOOLS / "shellcheck", *(DEPLOY / script for script in SCRIPTS))


def test_compose_reads_the_file_of_the_docs(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text(one("deploy.md", "compose.yaml").text)
    run(TOOLS / "docker-compose", "-f", tmp_path / "compose.yaml", "config", "--quiet", REACTOR_TOKEN="secret")


@pytest.mark.parametrize(
    "text", [*map(read, MANIFESTS), one("deploy.md", "kubernetes.yaml").text], ids=[*MANIFESTS, "docs"]
)
def test_the_manifests_fit_the_schemas_of_kubernetes(text: str) -> None:
    for resource in yaml.safe_load_all(text):
        schema = CUSTOM_RESOURCES.get(f"{resource['apiVersion']} {resource['kind']}")
        if schema is None:
            kubernetes_validate.validate(resource, KUBERNETES, strict=True)
            continue
        jsonschema.validate(resource["spec"], schema)
        for pod in pods(resource["spec"]):
            named = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, **pod}
            kubernetes_validate.validate(named, KUBERNETES, strict=True)


def pods(value: object) -> Iterator[dict[str, Any]]:
    """Find the templates of pods in a custom resource."""
    if isinstance(value, dict):
        if "containers" in value.get("spec", {}):
            yield value
        for each in value.values():
            yield from pods(each)
    if isinstance(value, list):
        for each in value:
            yield from pods(each)


def containers(path: str) -> Iterator[tuple[str, list[str]]]:
    """List the containers of a file of manifests that have a command, with their commands."""
    for resource in yaml.safe_load_all(read(path)):
        for pod in pods(resource["spec"]):
            for container in pod["spec"]["containers"]:
                if "command" in container:
                    yield container["name"], [*container["command"], *container.get("args", ())]


def modal_command() -> list[str]:
    """Return the command of the program for Modal, which is read and not imported."""
    for statement in ast.parse(read("modal/serve.py")).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "COMMAND":
            return str(ast.literal_eval(statement.value)).split()
    raise AssertionError("no COMMAND")


STARTS = {
    "agones": dict(containers("agones/fleet.yaml"))["model"],
    "modal": modal_command(),
    "runpod": [str(DEPLOY / "runpod" / "start.sh")],
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_recipe_starts_the_server_with_known_options(start: list[str], tmp_path: Path) -> None:
    (arguments,) = [call for call in recorded(start, tmp_path) if call[0] == "reactor"]
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    _, name, *rest = arguments
    group.commands[name].make_context(name, rest)


def recorded(command: list[str], directory: Path) -> list[list[str]]:
    """Run a command where reactor is a program that prints its arguments; return what was printed."""
    program = directory / "reactor"
    program.write_text(RECORDER)
    program.chmod(0o755)
    output = run(*command, PATH=f"{directory}:{os.environ['PATH']}", REACTOR_TOKEN="secret", RUNPOD_POD_ID="abc")
    return [shlex.split(line) for line in output.splitlines()]
