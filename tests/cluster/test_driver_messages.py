from __future__ import annotations

import pytest

from reactor_runtime.cluster.placement.driver_messages import (
    FROM_DRIVER,
    TO_DRIVER,
    DriverConnected,
    DriverFailed,
    DriverJob,
    FromDriver,
    RemoveWorkers,
    StartWorker,
    StopWorker,
    ToDriver,
)
from reactor_runtime.cluster.placement.placement import (
    PlacementLost,
    PlacementRestored,
    WorkerGone,
    WorkerPending,
    WorkerPlaced,
)


@pytest.mark.parametrize(
    "message",
    [
        DriverJob(address="10.0.0.1:6379", cluster="demo", project="/a b", gpus=0.5, cpus=1, most=3),
        DriverJob(address="auto", cluster="demo", secret="0123", needs_secret=False),
        StartWorker("w-1", '{"line": "\\n"}'),
        StopWorker("w-1"),
        RemoveWorkers(),
    ],
)
def test_a_message_to_the_driver_is_one_line_and_read_as_written(message: ToDriver) -> None:
    text = TO_DRIVER.encode(message)
    assert "\n" not in text
    assert TO_DRIVER.decode(text) == message


@pytest.mark.parametrize(
    "message",
    [
        DriverConnected(("w-1", "w-2"), "secret"),
        DriverFailed("no Ray\nhere", "start it", is_final=True),
        WorkerPending("w-1", "no GPU"),
        WorkerPlaced("w-1", "https://gpu-1.example.org", "http://10.0.0.2:9000", "gpu-1", "-----BEGIN\n"),
        WorkerGone("w-1", "killed"),
        PlacementLost("silent"),
        PlacementRestored(("w-1",)),
    ],
)
def test_a_message_of_the_driver_is_one_line_and_read_as_written(message: FromDriver) -> None:
    text = FROM_DRIVER.encode(message)
    assert "\n" not in text
    assert FROM_DRIVER.decode(text) == message


def test_a_job_names_the_command_that_ends_the_workers_of_its_cluster() -> None:
    job = DriverJob(address="auto", cluster="my demo")
    assert job.namespace == "reactor-my-demo"
    assert job.removal == "reactor down --cluster 'my demo' --ray-address auto"
