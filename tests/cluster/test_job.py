from __future__ import annotations

import json
import socket
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from reactor_runtime.cluster.job import LOCAL, WorkerJob
from reactor_runtime.errors import UsageError
from reactor_runtime.options.run_options import RunOptions
from reactor_runtime.server.options import Access, ServeOptions, TurnLimits
from reactor_runtime.version import version
from tests.cluster.simulation import MANIFEST
from tests.server.running import write_project

# A value other than the default for each field that travels.
LIMITS: dict[str, Any] = {"outlives_s": 8.5, "max_session_s": 1.5, "idle_timeout_s": 2.5, "resume_grace_s": 3.5}
ACCESS: dict[str, Any] = {"certificate": Path("/tls/cert.pem"), "key": Path("/tls/key.pem"), "expose_errors": True}
SHARED: dict[str, Any] = {
    "config": {"seed": 3},
    "max_viewers": 7,
    "limits": TurnLimits(**LIMITS),
    "access": Access(**ACCESS, token="abc", hosts=("example.org",)),
    "sessions_per_model": 3,
    "shared": True,
    "codec": "always",
    "step_timeout_s": 4.5,
    "load_timeout_s": 5.5,
    "drain_timeout_s": 6.5,
    "log_level": "debug",
    "log_format": "json",
}
NOT_IN_ACCESS: Any = LOCAL["access"]


# The options in `LOCAL` that the front reads itself.
OF_FRONT = {"manifest", "merged_config", "host", "port", "max_waiting", "sessions", "access"}
# The others, as given.
REFUSED: dict[str, dict[str, Any]] = {
    "gpus": {"gpus": "0"},
    "trace": {"trace": Path("trace.json")},
    "record": {"record": Path("sessions")},
    "record_video": {"record": Path("sessions"), "record_video": "jpeg"},
    "reload": {"reload": "full"},
}


@pytest.fixture
def job() -> WorkerJob:
    options = ServeOptions(manifest=MANIFEST, config={"seed": 3})
    return WorkerJob.of(options, cluster="test", worker="w-1", secret="5", project=str(Path("/project")))


def test_a_job_is_read_as_written(job: WorkerJob) -> None:
    assert WorkerJob.from_json(job.to_json()) == job


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", "")


def at_worker(project: Path, **of_front: Any) -> ServeOptions:
    options = ServeOptions(manifest=MANIFEST, **{"config": {}, **of_front})
    job = WorkerJob.of(options, cluster="test", worker="w-1", secret="5", project=str(project))
    return WorkerJob.from_json(job.to_json()).serve_options(9000)


@pytest.mark.parametrize("name", [each.name for each in fields(ServeOptions) if LOCAL.get(each.name) is not True])
def test_a_worker_gets_each_option_that_is_not_local(project: Path, name: str) -> None:
    of_worker = getattr(at_worker(project, **{name: SHARED[name]}), name)
    expected = SHARED[name]
    if name == "access":
        expected = replace(expected, **{each: getattr(of_worker, each) for each in NOT_IN_ACCESS})
    assert of_worker == expected


@pytest.mark.parametrize("name", [each.name for each in fields(TurnLimits)])
def test_a_worker_gets_each_limit(project: Path, name: str) -> None:
    of_worker = at_worker(project, limits=TurnLimits(**{name: LIMITS[name]})).limits
    assert getattr(of_worker, name) == LIMITS[name]


@pytest.mark.parametrize("name", [each.name for each in fields(Access) if each.name not in NOT_IN_ACCESS])
def test_a_worker_gets_each_option_on_access_that_is_not_local(project: Path, name: str) -> None:
    access = Access(**{name: ACCESS[name]})
    # Beyond loopback errors are exposed only if that is requested.
    assert getattr(at_worker(project, host="0.0.0.0", access=access).access, name) == ACCESS[name]


def test_a_worker_exposes_no_errors_where_its_front_does_not(project: Path) -> None:
    assert not at_worker(project, host="0.0.0.0").access.expose_errors


def test_local_names_only_fields() -> None:
    assert {each.name for each in fields(ServeOptions)} >= LOCAL.keys()
    assert {each.name for each in fields(Access)} >= NOT_IN_ACCESS


def test_secrets_and_hosts_of_the_front_stay_there(project: Path) -> None:
    options = ServeOptions(manifest=MANIFEST, config={}, access=SHARED["access"])
    text = WorkerJob.of(options, cluster="test", worker="w-1", secret="5", project=str(project)).to_json()
    assert "abc" not in text
    assert "example.org" not in text


@pytest.mark.parametrize(
    ("at_front", "named"),
    [({"version": "9.9"}, "9.9"), ({"version": "9.9", "news": 1}, "9.9"), ({}, "another version")],
)
def test_a_job_of_another_version_names_both(job: WorkerJob, at_front: dict[str, object], named: str) -> None:
    fields = json.loads(job.to_json())
    del fields["version"]
    with pytest.raises(
        ValueError,
        match=f"the node {socket.gethostname()} has Reactor {version()}, and the front {named}: install the same",
    ):
        WorkerJob.from_json(json.dumps({**fields, **at_front}))


def test_a_config_that_only_the_model_reads_is_a_part_of_the_job(tmp_path: Path) -> None:
    config = tmp_path / "conf.json5"
    options = ServeOptions(manifest=replace(MANIFEST, config_path=config), config=None)
    jobs = []
    for text in ("// a", "// b"):
        config.write_text(text)
        jobs.append(WorkerJob.of(options, cluster="test", worker="w-1", secret="5", project=str(tmp_path)))
    assert jobs[0].config_hash != jobs[1].config_hash
    assert WorkerJob.from_json(jobs[0].to_json()) == jobs[0]


@pytest.mark.parametrize("name", sorted(LOCAL.keys() - OF_FRONT))
def test_an_option_that_neither_front_nor_worker_reads_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not available with --on ray"):
        RunOptions(**REFUSED[name]).refuse_on_cluster()
