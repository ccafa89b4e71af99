"""The configurations of the deployment page are well-formed and start `reactor run` with options that exist."""

from __future__ import annotations

import configparser
import shlex
from typing import Any

import pytest
import typer
import yaml

from reactor_cli.app import COMMANDS, add_commands, app
from tests.docs.snippets import one

PAGE = "deploy.md"


def _commands() -> dict[str, list[str]]:
    """Return the command lines that start a server, by where they stand."""
    unit = configparser.RawConfigParser(strict=False)
    unit.read_string(one(PAGE, "reactor.service").text)
    program, *from_unit = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/reactor")
    compose = yaml.safe_load(one(PAGE, "compose.yaml").text)
    (deployment,) = [part for part in _kubernetes() if part["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {
        "systemd": from_unit,
        "compose": shlex.split(compose["services"]["model"]["command"])[1:],
        "kubernetes": [*container["command"][1:], *container["args"]],
    }


def _kubernetes() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(one(PAGE, "kubernetes.yaml").text))


@pytest.mark.parametrize(("place", "arguments"), _commands().items())
def test_a_configuration_starts_the_server_with_known_options(place: str, arguments: list[str]) -> None:
    add_commands(COMMANDS)
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    name, *rest = arguments
    assert name == "run", place
    group.commands[name].make_context(name, rest)


def test_the_parts_for_kubernetes_belong_together() -> None:
    deployment, service, gateway, route = _kubernetes()
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert labels == deployment["spec"]["selector"]["matchLabels"] == service["spec"]["selector"]
    ports = [port["containerPort"] for port in deployment["spec"]["template"]["spec"]["containers"][0]["ports"]]
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ports
    assert route["spec"]["parentRefs"] == [{"name": gateway["metadata"]["name"]}]
    assert route["spec"]["hostnames"] == [gateway["spec"]["listeners"][0]["hostname"]]
    (backend,) = route["spec"]["rules"][0]["backendRefs"]
    assert backend == {"name": service["metadata"]["name"], "port": service["spec"]["ports"][0]["port"]}
