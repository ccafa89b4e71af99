"""The recipes of deploy/ pass the checks of their platforms' tools, and start `reactor run` with options that exist."""

from __future__ import annotations

import ast
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from tests.cli.command import declared
from tests.docs.snippets import one
from tests.processes import ended_after
from tests.timeouts import TIMEOUT_S

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
# The tools are in the environment of the tests.
TOOLS = Path(sys.executable).parent
KUBERNETES = "1.33"
SCRIPTS = ("runpod/start.sh", "slurm/reactor.sbatch")
MANIFESTS = ("agones/fleet.yaml", "kuberay/my-model.yaml")
# A program that prints its name and its arguments, in one write, as a line that shlex splits.
RECORDER = """#!/usr/bin/env bash
line=$(printf "%q " "${0##*/}" "$@")
echo "$line"
"""
# Finds a process, until it is called for the third time.
TWO_SECONDS = """#!/usr/bin/env bash
echo >> "$0.calls"
(($(wc -l < "$0.calls") < 3))
"""
# Ends some time after SIGTERM.
DRAINING_FRONT = """#!/usr/bin/env bash
trap 'kill "$!"; sleep 0.1; echo drained; exit' TERM
sleep 600 >/dev/null &
echo serving
wait
"""


def _exactly(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def _list_of(**properties: Any) -> dict[str, Any]:
    return {"type": "array", "items": _exactly(**properties)}


# The fields of custom resources that the recipes use. POD is a template, which is checked as a pod.
STRING, INTEGER, BOOLEAN, POD = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}, dict[str, Any]()
STRINGS = {"type": "object", "additionalProperties": STRING}
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
    "gateway.networking.k8s.io/v1 Gateway": _exactly(
        gatewayClassName=STRING,
        listeners=_list_of(
            name=STRING,
            port=INTEGER,
            protocol={"const": "HTTPS"},
            hostname=STRING,
            tls=_exactly(certificateRefs=_list_of(name=STRING)),
        ),
    ),
    "gateway.networking.k8s.io/v1 HTTPRoute": _exactly(
        parentRefs=_list_of(name=STRING),
        hostnames={"type": "array", "items": STRING},
        rules=_list_of(backendRefs=_list_of(name=STRING, port=INTEGER), timeouts=_exactly(request=STRING)),
    ),
    "ray.io/v1 RayCluster": _exactly(
        rayVersion=STRING,
        authOptions=_exactly(mode={"enum": ["token", "disabled"]}),
        gcsFaultToleranceOptions=_exactly(
            redisAddress=STRING,
            redisPassword=_exactly(valueFrom=_exactly(secretKeyRef=_exactly(name=STRING, key=STRING))),
        ),
        enableInTreeAutoscaling=BOOLEAN,
        autoscalerOptions=_exactly(idleTimeoutSeconds=INTEGER),
        headGroupSpec=_exactly(rayStartParams=STRINGS, template=POD),
        workerGroupSpecs=_list_of(
            groupName=STRING,
            replicas=INTEGER,
            minReplicas=INTEGER,
            maxReplicas=INTEGER,
            rayStartParams=STRINGS,
            template=POD,
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


@pytest.mark.parametrize("names", [["compose.yaml"], ["compose.yaml", "compose.gpu.yaml"]], ids="+".join)
def test_compose_reads_the_files(names: list[str]) -> None:
    files = [argument for name in names for argument in ("-f", DEPLOY / "compose" / name)]
    run(TOOLS / "docker-compose", *files, "config", "--quiet", **VARIABLES)


def test_compose_reads_the_file_of_the_docs(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text(one("deploy.md", "compose.yaml").text)
    run(TOOLS / "docker-compose", "-f", tmp_path / "compose.yaml", "config", "--quiet", **VARIABLES)


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
    "compose": yaml.safe_load(read("compose/compose.yaml"))["services"]["front"]["command"],
    "kuberay": dict(containers("kuberay/my-model.yaml"))["front"],
    "modal": modal_command(),
    "runpod": [str(DEPLOY / "runpod" / "start.sh")],
    "slurm": ["bash", str(DEPLOY / "slurm" / "reactor.sbatch")],
}
VARIABLES = {
    "REACTOR_TOKEN": "secret",
    "RAY_AUTH_TOKEN": "secret",
    "RUNPOD_POD_ID": "abc",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_GPUS_ON_NODE": "4",
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_a_recipe_starts_the_server_with_known_options(start: list[str], tmp_path: Path) -> None:
    (arguments,) = [call for call in recorded(start, tmp_path) if call[0] == "reactor"]
    _, name, *rest = arguments
    declared()[name].make_context(name, rest)


def recorded(command: list[str], directory: Path) -> list[list[str]]:
    """Run a command where reactor, ray and srun are recorders; return what they recorded, in no order."""
    output = run(*command, PATH=programs(directory, RECORDER), **VARIABLES)
    return [shlex.split(line) for line in output.splitlines()]


def programs(directory: Path, reactor: str, **others: str) -> str:
    """Return a PATH on which ray and srun are recorders, and reactor and others are scripts."""
    for name, text in {"ray": RECORDER, "srun": RECORDER, "reactor": reactor, **others}.items():
        program = directory / name
        program.write_text(text)
        program.chmod(0o755)
    return f"{directory}:{os.environ['PATH']}"


def test_a_pod_of_kuberay_ends_after_the_sessions_of_its_workers(tmp_path: Path) -> None:
    (cluster,) = [each for each in yaml.safe_load_all(read("kuberay/my-model.yaml")) if each["kind"] == "RayCluster"]
    pod = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]
    front = shlex.split(STARTS["kuberay"][-1])
    drain_timeout_s = int(front[front.index("--drain-timeout") + 1])
    assert drain_timeout_s < pod["terminationGracePeriodSeconds"]

    path = programs(tmp_path, RECORDER, pkill=RECORDER, pgrep=TWO_SECONDS, sleep=RECORDER)
    output = run(*pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"], PATH=path)
    assert [line.split()[:2] for line in output.splitlines()] == [
        ["ray", "drain-node"],
        ["pkill", "-TERM"],
        ["sleep", "1"],
        ["sleep", "1"],
    ]


def test_nodes_wait_long_for_a_head_whose_state_is_kept_and_which_is_apart_from_the_front() -> None:
    name = "RAY_gcs_rpc_server_reconnect_timeout_s"
    resources = list(yaml.safe_load_all(read("kuberay/my-model.yaml")))
    (cluster,) = [each["spec"] for each in resources if each["kind"] == "RayCluster"]
    (front,) = [each["spec"] for each in resources if each["kind"] == "Deployment"]
    addresses = [f"{each['metadata']['name']}:6379" for each in resources if each["kind"] == "Service"]
    assert cluster["gcsFaultToleranceOptions"]["redisAddress"] in addresses
    for template in (cluster["workerGroupSpecs"][0]["template"], front["template"]):
        assert {"name": name, "value": "86400"} in template["spec"]["containers"][0]["env"]

    services = yaml.safe_load(read("compose/compose.yaml"))["services"]
    assert "--head" in services["head"]["command"]
    assert services["head"]["environment"]["RAY_REDIS_ADDRESS"] == "redis:6379"
    for node in ("front", "worker-1", "worker-2"):
        assert services[node]["environment"][name] == "86400"
        assert "--address head:6379" in str(services[node]["command"])

    script = read("slurm/reactor.sbatch")
    assert script.index(f"export {name}=86400") < script.index("ray start --head")


def test_a_job_of_slurm_starts_a_node_of_ray_on_each_machine(tmp_path: Path) -> None:
    calls = recorded(STARTS["slurm"], tmp_path)
    (head,), (others,) = ([call for call in calls if call[0] == name and "start" in call] for name in ("ray", "srun"))
    assert head == ["ray", "start", "--head", "--port", "6379"]
    assert others[:7] == ["srun", "--nodes=1", "--ntasks=1", "--relative=1", "ray", "start", "--address"]
    assert ["ray", "stop"] in calls


def test_a_job_of_slurm_ends_after_its_front(tmp_path: Path) -> None:
    path = programs(tmp_path, DRAINING_FRONT)
    environment = {**os.environ, **VARIABLES, "PATH": path}
    with (
        subprocess.Popen(STARTS["slurm"], env=environment, stdout=subprocess.PIPE) as job,
        ended_after(job),
    ):
        assert job.stdout is not None
        while job.stdout.readline() != b"serving\n":
            assert job.poll() is None
        job.send_signal(signal.SIGTERM)
        lines = job.stdout.read().decode().splitlines()
        assert job.wait(TIMEOUT_S) == 0
    assert lines.index("drained") < lines.index("ray stop ")
