from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from reactor_runtime.cluster.job import WorkerJob
from reactor_runtime.server.options import ServeOptions
from reactor_runtime.version import version
from tests.cluster.simulation import MANIFEST


@pytest.fixture
def job() -> WorkerJob:
    options = ServeOptions(manifest=MANIFEST, config={"seed": 3})
    return WorkerJob.of(options, cluster="test", worker="w-1", secret="5", project=str(Path("/project")))


def test_a_job_is_read_as_written(job: WorkerJob) -> None:
    assert WorkerJob.from_json(job.to_json()) == job


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
