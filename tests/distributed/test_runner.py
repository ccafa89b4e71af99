"""A runner and its ranks: real processes, without torch."""

from __future__ import annotations

import functools
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime.authoring.code.source import attached_location
from reactor_runtime.distributed import (
    DistributedRunner,
    RankDesync,
    RunnerUnhealthy,
    SharedSlotAllocationFailed,
    WorkerCrashed,
    WorkerTimeout,
)
from reactor_runtime.distributed.owner import Ranks, owned_by
from tests.distributed import workers
from tests.distributed.workers import DiesInLoad, Echo, FailsToLoad, Frames, Plain
from tests.processes import alive, children, gone
from tests.timeouts import TIMEOUT_S

# More than a rank that answers takes on a busy machine.
CALL_S = 5.0


@contextmanager
def started(worker: type = Plain, world_size: int = 2, **options: Any) -> Iterator[DistributedRunner]:
    runner = DistributedRunner(worker, world_size=world_size, init_process_group=False, **options)
    try:
        runner.start()
        yield runner
    finally:
        runner.shutdown()


@pytest.fixture(scope="module")
def runner() -> Iterator[DistributedRunner]:
    """Return a runner for the tests after which it can be used again."""
    with started(load_kwargs={"size": 3}) as runner:
        yield runner


@pytest.fixture(scope="module")
def echo() -> Iterator[DistributedRunner]:
    with started(Echo, world_size=1) as runner:
        yield runner


def test_the_result_is_that_of_rank_0(runner: DistributedRunner) -> None:
    assert runner.generate(workers.rank) == 0
    assert (runner.world_size, runner.healthy) == (2, True)


def test_load_gets_the_keyword_arguments(runner: DistributedRunner) -> None:
    assert runner.generate(None) == {"size": 3}


def test_ranks_have_the_environment_of_a_distributed_program(runner: DistributedRunner) -> None:
    found = runner.generate(workers.environment)
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR")
    assert [found[name] for name in names] == ["0", "0", "2", "127.0.0.1"]
    assert int(found["MASTER_PORT"]) > 0


def test_a_worker_of_the_base_class_knows_its_rank(runner: DistributedRunner) -> None:
    assert runner.generate(workers.describe) == (0, True)


def test_large_arrays_arrive_whole_in_both_directions(echo: DistributedRunner) -> None:
    values = np.random.default_rng(1).integers(0, 255, (3, 720, 1280), np.uint8)
    frames = [values, values[:, ::2], values.transpose(1, 2, 0)]
    received = echo.generate({"frames": frames, "small": np.arange(3), "name": "x"})
    for before, after in zip(frames, received["frames"], strict=True):
        np.testing.assert_array_equal(after, before)
    np.testing.assert_array_equal(received["small"], [0, 1, 2])
    assert received["name"] == "x"


def test_a_result_stays_as_it_was_and_can_be_changed() -> None:
    with started(Frames, world_size=1) as runner:
        first = runner.generate(1)
        second = runner.generate(2)
        assert (first[0, 0, 0, 0], second[0, 0, 0, 0]) == (1, 2)
        first += 1
        assert second[0, 1, 0, 0] == 0


def test_an_input_that_a_worker_keeps_stays_as_it_was() -> None:
    with started(Echo, world_size=1) as runner:
        for number in (1, 2):
            runner.generate(np.full(100_000, number))
        kept = runner.generate("inputs")
        assert [int(each[0]) for each in kept[:2]] == [1, 2]
        runner.reset()
        assert runner.generate("inputs") == ["inputs"]


def test_no_file_of_shared_memory_has_a_name(echo: DistributedRunner) -> None:
    echo.generate(np.zeros(1 << 20))
    (rank,) = rank_pids(echo)
    mapped = [line.split(maxsplit=5) for line in Path(f"/proc/{rank}/maps").read_text().splitlines()]
    shared = [name for _, permissions, *_, name in mapped if permissions == "rw-s"]
    assert shared
    assert all(name.endswith("(deleted)") for name in shared)


@pytest.mark.parametrize("what", ["the input", "the result"])
def test_without_shared_memory_the_call_fails_and_the_next_does_not(what: str) -> None:
    with started(Frames, world_size=1) as runner, no_large_files(os.getpid() if what == "the input" else runner):
        with pytest.raises(SharedSlotAllocationFailed, match="no shared memory of"):
            runner.generate(np.zeros(20 << 20, np.uint8) if what == "the input" else 1)
        assert runner.healthy


@contextmanager
def no_large_files(target: int | DistributedRunner) -> Iterator[None]:
    pid = target if isinstance(target, int) else rank_pids(target)[0]
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def rank_pids(runner: DistributedRunner) -> list[int]:
    return [rank.pid for rank in runner._group._ranks]


def test_a_call_from_another_thread_and_many_at_once(echo: DistributedRunner) -> None:
    results: dict[int, Any] = {}
    threads = [
        threading.Thread(target=lambda n=n: results.update({n: echo.generate(np.full(50_000, n))})) for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert {n: int(value[0]) for n, value in results.items()} == {n: n for n in range(8)}


def test_a_call_inside_of_its_own_call_is_refused() -> None:
    with started(world_size=1) as runner:
        refused: list[BaseException] = []

        def call_again(*_: object) -> None:
            with pytest.raises(RuntimeError, match="inside of its own call") as caught:
                runner.generate(workers.rank)
            refused.append(caught.value)

        former = signal.signal(signal.SIGUSR1, call_again)
        try:
            # The rank sends the signal while this process waits for its answer.
            runner.generate(workers.signal_parent)
        finally:
            signal.signal(signal.SIGUSR1, former)
        assert refused
        assert runner.generate(workers.rank) == 0


def test_what_can_not_be_pickled_is_a_type_error_at_once(runner: DistributedRunner) -> None:
    with pytest.raises(TypeError, match="the input can't be sent to another process"):
        runner.generate(lambda: None)
    with pytest.raises(TypeError, match="the result can't be sent to another process"):
        runner.generate(workers.lock)
    with pytest.raises(TypeError, match="load_kwargs can't be sent"):
        DistributedRunner(Plain, load_kwargs={"lock": threading.Lock()})

    class Local(Plain):
        pass

    with pytest.raises(TypeError, match="top level of a module"):
        DistributedRunner(Local)
    assert runner.healthy


@pytest.mark.parametrize("world_size", [0, -1, True, 1.5, "2", None])
def test_a_world_size_that_is_no_positive_number_is_refused(world_size: Any) -> None:
    with pytest.raises(ValueError, match="world_size must be a whole number from 1"):
        DistributedRunner(Plain, world_size=world_size)


@pytest.mark.parametrize("name", ["call_timeout", "start_timeout"])
def test_a_timeout_that_is_no_positive_number_is_refused(name: str) -> None:
    options: dict[str, Any] = {name: 0}
    with pytest.raises(ValueError, match=f"{name} must be"):
        DistributedRunner(Plain, **options)


@pytest.mark.parametrize("worker", [object, "Plain"], ids=str)
def test_a_class_without_the_methods_of_a_worker_is_refused(worker: Any) -> None:
    with pytest.raises(TypeError):
        DistributedRunner(worker)


def test_an_exception_of_all_ranks_is_raised_with_its_traceback_and_the_runner_goes_on(
    runner: DistributedRunner,
) -> None:
    with pytest.raises(ValueError, match="every rank") as caught:
        runner.generate(workers.raise_value_error)
    text = "".join(traceback.format_exception(caught.value))
    line = workers.raise_value_error.__code__.co_firstlineno + 1
    assert "in rank 0:" in text
    assert f'workers.py", line {line}, in raise_value_error' in text
    where = attached_location(caught.value)
    assert where is not None
    assert (Path(where.file).name, where.line) == ("workers.py", line)
    assert runner.generate(workers.rank) == 0


@pytest.mark.parametrize(
    ("raise_it", "kind", "text"),
    [
        (workers.raise_needs_two, workers.NeedsTwo, "code 5 of x"),
        (workers.raise_unpicklable, workers.Unpicklable, "held"),
        (workers.raise_refusing, RuntimeError, "RefusesUnpickling: why"),
        (workers.raise_local, RuntimeError, "Local: deep"),
        (workers.raise_unicode_error, UnicodeDecodeError, "invalid start byte"),
        (workers.raise_os_error, FileNotFoundError, "/no/such/file"),
        (workers.raise_cancelled, RuntimeError, "CancelledError: stop"),
        (workers.raise_without_text, workers.WithoutText, ""),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_exceptions_of_any_class_arrive(
    runner: DistributedRunner, raise_it: Callable[[], None], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as caught:
        runner.generate(raise_it)
    assert type(caught.value) is kind
    if text:
        assert text in str(caught.value)
    assert runner.healthy


def test_the_attributes_of_an_exception_arrive(runner: DistributedRunner) -> None:
    with pytest.raises(workers.NeedsTwo) as caught:
        runner.generate(workers.raise_needs_two)
    assert (caught.value.code, caught.value.name) == (5, "x")


def test_a_reset_calls_all_workers_and_raises_what_they_raise(runner: DistributedRunner) -> None:
    with pytest.raises(RuntimeError, match="reset fails"):
        runner.reset()
    assert runner.healthy


def refuses_use(runner: DistributedRunner) -> None:
    """See that a runner is unhealthy, can't be used and has no process."""
    assert not runner.healthy
    for use in (lambda: runner.generate(workers.rank), runner.reset, runner.start):
        with pytest.raises(RuntimeError):
            use()
    for pid in rank_pids(runner):
        gone(pid)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (workers.raise_in_one, "rank 1 raised ValueError: only here; rank 0 returned"),
        (workers.raise_different, "rank 0 raised KeyError: 'differs'; rank 1 raised ValueError: differs"),
    ],
)
def test_ranks_that_do_not_do_the_same_are_a_desync(task: Callable[[], None], message: str) -> None:
    with started() as runner:
        with pytest.raises(RankDesync) as caught:
            runner.generate(task)
        assert message in str(caught.value)
        assert task.__name__ in "".join(traceback.format_exception(caught.value))
        refuses_use(runner)


def test_an_exception_in_one_rank_for_which_the_others_wait_is_a_desync() -> None:
    with started(call_timeout=CALL_S) as runner:
        with pytest.raises(RankDesync, match="rank 1 raised ValueError: only here; rank 0 did not answer"):
            runner.generate(workers.raise_or_block)
        refuses_use(runner)


def test_a_slow_rank_is_a_timeout_that_names_the_ranks_and_the_line() -> None:
    with started(call_timeout=CALL_S) as runner:
        with pytest.raises(WorkerTimeout) as caught:
            runner.generate(workers.block_in_one)
        assert f"took longer than {CALL_S:.0f} s: rank 1 did not answer, rank 0 did" in str(caught.value)
        assert "in wait_here" in str(caught.value)
        refuses_use(runner)


def test_a_stopped_rank_is_a_timeout_also_for_a_large_input() -> None:
    with started(Echo, call_timeout=2.0) as runner:
        os.kill(rank_pids(runner)[0], signal.SIGSTOP)
        with pytest.raises(WorkerTimeout):
            runner.generate(b"x" * (4 << 20))
        refuses_use(runner)


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (workers.exit_in_one, "rank 1 of Plain exited with code 7\nrank 1 wrote last:\n  about to go"),
        (workers.kill_one, "rank 1 of Plain was killed (SIGKILL"),
        (workers.call_sys_exit, "of Plain exited with code 4"),
    ],
)
def test_a_dead_rank_is_a_crash_with_the_end_and_the_last_lines(task: Callable[[], None], message: str) -> None:
    with started() as runner:
        with pytest.raises(WorkerCrashed) as caught:
            runner.generate(task)
        assert message in str(caught.value)
        refuses_use(runner)


def test_a_rank_that_dies_between_two_calls_is_reported_by_the_next() -> None:
    with started() as runner:
        os.kill(rank_pids(runner)[1], signal.SIGKILL)
        for pid in rank_pids(runner):
            gone(pid)
        with pytest.raises(WorkerCrashed, match="rank 1 of Plain was killed"):
            runner.generate(workers.rank)
        refuses_use(runner)


class Owner:
    """An owner that notes what it hears of."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self.lost: list[RunnerUnhealthy] = []
        self.heard = threading.Event()

    def on_runner_start(self, ranks: Ranks) -> None:
        self.modules.append(ranks.module)

    def on_runner_lost(self, error: RunnerUnhealthy) -> None:
        self.lost.append(error)
        self.heard.set()


def test_the_owner_hears_of_a_rank_that_dies_while_nothing_is_called() -> None:
    owner = Owner()
    with owned_by(owner), started() as runner:
        assert owner.modules == ["tests.distributed.workers"]
        os.kill(rank_pids(runner)[0], signal.SIGKILL)
        assert owner.heard.wait(TIMEOUT_S)
        assert isinstance(owner.lost[0], WorkerCrashed)
    assert len(owner.lost) == 1


def test_the_owner_hears_of_a_desync_and_not_of_a_shutdown() -> None:
    owner = Owner()
    with owned_by(owner), started() as first, started() as second:
        with pytest.raises(RankDesync):
            first.generate(workers.raise_in_one)
        second.shutdown()
    assert [type(each) for each in owner.lost] == [RankDesync]


def test_load_failing_in_all_ranks_raises_its_exception() -> None:
    runner = DistributedRunner(FailsToLoad, world_size=2, load_kwargs={"ranks": (0, 1)}, init_process_group=False)
    with pytest.raises(ValueError, match="no weights") as caught:
        runner.start()
    assert "in load" in "".join(traceback.format_exception(caught.value))
    refuses_use(runner)


def test_load_failing_in_one_rank_for_which_the_others_wait_is_a_desync() -> None:
    runner = DistributedRunner(
        FailsToLoad,
        world_size=2,
        load_kwargs={"ranks": (1,), "block": True},
        init_process_group=False,
        call_timeout=0.5,
    )
    with pytest.raises(RankDesync, match="rank 1 raised ValueError: no weights; rank 0 did not answer"):
        runner.start()
    refuses_use(runner)


def test_a_rank_that_dies_in_load_is_a_crash() -> None:
    runner = DistributedRunner(DiesInLoad, world_size=2, init_process_group=False)
    with pytest.raises(WorkerCrashed, match="rank 1 of DiesInLoad exited with code 3"):
        runner.start()
    refuses_use(runner)


def test_a_load_that_takes_too_long_is_a_timeout() -> None:
    runner = DistributedRunner(
        FailsToLoad, load_kwargs={"ranks": (), "block": True}, start_timeout=5.0, init_process_group=False
    )
    with pytest.raises(WorkerTimeout, match=r"load\(\) of FailsToLoad took longer than 5 s"):
        runner.start()
    refuses_use(runner)


def test_a_runner_that_has_not_started_or_starts_again_is_refused(runner: DistributedRunner) -> None:
    with pytest.raises(RuntimeError, match="started before"):
        runner.start()
    new = DistributedRunner(Plain)
    assert not new.healthy
    with pytest.raises(RuntimeError, match="has not started"):
        new.generate(None)
    new.shutdown()
    with pytest.raises(RuntimeError):
        new.start()


def test_a_shutdown_ends_the_ranks_and_may_come_again() -> None:
    with started() as runner:
        pids = rank_pids(runner)
        runner.shutdown()
        assert not any(map(alive, pids))
        runner.shutdown()
        refuses_use(runner)


def test_a_shutdown_lets_the_ranks_end_by_themselves(tmp_path: Path) -> None:
    with started() as runner:
        runner.generate(functools.partial(workers.touch_at_exit, tmp_path / "ended"))
        runner.shutdown()
        assert (tmp_path / "ended").exists()


def test_a_shutdown_ends_a_call_in_another_thread() -> None:
    with started(world_size=1) as runner:
        failures: list[BaseException] = []

        def call() -> None:
            try:
                runner.generate(workers.wait_for_child)
            except RuntimeError as error:
                failures.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        # The rank computes when it has a child, which ends the call.
        (rank,) = rank_pids(runner)
        found = until_children(rank)
        shutdown = threading.Thread(target=runner.shutdown)
        shutdown.start()
        thread.join(TIMEOUT_S)
        os.kill(found[0], signal.SIGKILL)
        shutdown.join(TIMEOUT_S)
        assert "has been shut down" in str(failures[0])
        assert not alive(rank)


def until_children(pid: int) -> list[int]:
    """Wait until a process has children, and return them."""
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := children(pid)):
        assert time.monotonic() < deadline, "it starts none"
        time.sleep(0.01)
    return found


def test_a_runner_that_nothing_refers_to_ends_its_ranks() -> None:
    runner = DistributedRunner(Plain)
    runner.start()
    (pid,) = rank_pids(runner)
    del runner
    gone(pid)


@pytest.mark.parametrize("how", ["exits", "is killed"])
def test_the_processes_of_a_rank_end_with_it(how: str) -> None:
    with started(world_size=1) as runner:
        child = runner.generate(workers.start_child)
        if how == "exits":
            runner.shutdown()
        else:
            os.kill(rank_pids(runner)[0], signal.SIGKILL)
        gone(child)


PARENT = """
import os, signal, sys
from reactor_runtime.distributed import DistributedRunner
from tests.distributed import workers

if __name__ == "__main__":
    runner = DistributedRunner(workers.Plain, world_size=2, init_process_group=False)
    runner.start()
    print(*[rank.pid for rank in runner._group._ranks], flush=True)
    {}
"""


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os._exit(3)", 3),
        ("runner.generate(workers.kill_parent)", -signal.SIGKILL),
        ("sys.exit(0)", 0),
    ],
)
def test_ranks_end_with_the_process_of_the_runner(tmp_path: Path, end: str, status: int) -> None:
    program = tmp_path / "program.py"
    program.write_text(PARENT.format(end))
    done = subprocess.run(
        [sys.executable, str(program)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == status
    for pid in map(int, done.stdout.split()):
        gone(pid)


def test_a_worker_may_be_in_the_main_module_of_a_script(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from reactor_runtime.distributed import DistributedRunner, DistributedWorker\n"
        "class Doubling(DistributedWorker):\n"
        "    def generate(self, input): return 2 * input\n"
        "if __name__ == '__main__':\n"
        "    runner = DistributedRunner(Doubling)\n"
        "    runner.start()\n"
        "    print(runner.generate(21))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, str(program)], stdout=subprocess.PIPE, env=environment, timeout=TIMEOUT_S, check=True
    )
    assert done.stdout == b"42\n"


def test_prints_and_logs_of_the_ranks_are_in_the_log_with_their_rank(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), started() as runner:
        runner.generate(workers.log_and_print)
        runner.generate(workers.log_exception)
        runner.shutdown()
    found = {(vars(each).get("rank"), each.levelname, each.name, each.getMessage()) for each in caplog.records}
    for rank in ("0", "1"):
        assert (rank, "WARNING", "weights", f"half of them n={rank}") in found
        assert (rank, "INFO", "model", f"printed by {rank}") in found
        assert (rank, "INFO", "model", "on stderr") in found
        (failed,) = [each[3] for each in found if each[0] == rank and each[1] == "ERROR"]
        assert failed.startswith("it failed\nTraceback")
        assert failed.endswith("ValueError: logged")


def test_the_start_reports_each_rank(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), started():
        pass
    lines = [each.getMessage() for each in caplog.records if each.name.startswith("reactor_runtime")]
    assert lines[0] == "loading ranks=2 worker=Plain"
    assert set(lines[1:3]) == {"loaded rank=0 of=2", "loaded rank=1 of=2"}
    assert lines[3].startswith("loaded ranks=2 worker=Plain seconds=")


def test_a_progress_bar_of_rank_0_stays_a_progress_bar(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO), started() as runner:
        runner.generate(workers.progress_bar)
        runner.shutdown()
    assert capsys.readouterr().err == "loading:   0%|##| 0/100\rloading:  50%|##| 50/100\r"
    lines = [each.getMessage() for each in caplog.records if each.name == "model"]
    assert lines == ["loading: 100%|##| 100/100"] * 2
