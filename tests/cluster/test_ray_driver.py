from __future__ import annotations

import pytest
from ray.exceptions import AuthenticationError, RuntimeEnvSetupError

from reactor_runtime.cluster.placement.driver_messages import DriverJob
from reactor_runtime.cluster.placement.ray_driver import INSTALLING, TOKEN_HINT, why_not_connected, why_pending

TOTAL = {"GPU": 4.0, "CPU": 8.0}
NO_GPU_FREE = "waiting for 1 GPU, 1 CPU: 0 of 4 GPU, 4 of 8 CPU are free"


def job(*requirements: str, gpus: float = 1.0, cpus: float = 1.0) -> DriverJob:
    return DriverJob(address="auto", cluster="test", gpus=gpus, cpus=cpus, requirements=requirements)


@pytest.mark.parametrize(
    ("requested", "workers", "reason"),
    [
        (job(), 4, NO_GPU_FREE),
        (job("torch"), 4, INSTALLING),
        (job("torch"), 5, NO_GPU_FREE),
        (job(gpus=0, cpus=0), 1, "waiting for a node of the cluster"),
        (job("torch", gpus=0, cpus=0), 1, INSTALLING),
    ],
    ids=["no place", "packages", "no place for one", "any node", "packages on any node"],
)
def test_a_worker_waits_for_a_place_or_for_its_packages(requested: DriverJob, workers: int, reason: str) -> None:
    assert why_pending(requested, workers, TOTAL, {"CPU": 4.0}) == reason


@pytest.mark.parametrize(
    ("error", "needs_token"),
    [
        (AuthenticationError("the mode is enabled"), True),
        (RuntimeError("RPC failed: Unauthenticated: no token"), True),
        (OSError("/home/author/.ray is read-only"), False),
        (RuntimeError("the tokenizer of the authority is missing"), False),
    ],
    ids=["exception of Ray", "text", "author", "tokenizer"],
)
def test_a_missing_token_is_told_from_other_errors(
    monkeypatch: pytest.MonkeyPatch, error: Exception, needs_token: bool
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0")
    assert (why_not_connected(job(), error).hint == TOKEN_HINT) is needs_token


def test_another_version_of_ray_or_python_is_named() -> None:
    text = "The cluster was started with:\n    Ray: 2.60.0\nThis process was started with:\n    Ray: 2.59.0\n"
    failed = why_not_connected(job(), RuntimeError(f"Version mismatch: {text}"))
    assert failed.error.endswith("was started with: Ray: 2.60.0 This process was started with: Ray: 2.59.0")
    assert failed.hint == "install the versions of the cluster here"


def test_a_project_that_ray_does_not_copy_is_not_an_error_of_a_node() -> None:
    text = "Failed to upload working_dir /project: Package size (540.02MiB) exceeds the maximum size of 512.00MiB."
    failed = why_not_connected(job(), RuntimeEnvSetupError(text))
    assert failed.error == f"Ray at auto can't be used: {text}"
    assert "--project-on-nodes" in failed.hint
