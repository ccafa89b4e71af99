"""The leak guard: what grows in three sessions in a row is reported once, with its origin, and nothing else is."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from reactor_runtime import Input, InputState, Output, ReactorPipeline, Video, config, connected, manifest
from reactor_runtime.authoring.contract import Contract
from reactor_runtime.authoring.importing import import_class
from reactor_runtime.authoring.model_config import config_of
from reactor_runtime.authoring.styles.model import Model
from reactor_runtime.clock import SystemClock
from reactor_runtime.engine.author import call_load, make_model
from reactor_runtime.engine.host import Host
from reactor_runtime.engine.host_parts import HostParts, Outlet
from reactor_runtime.engine.leaks import (
    STEP_BYTES,
    LeakGuard,
    Usage,
    read_processes,
    read_usage,
    record_task_starts,
    thread_starts_recorded,
)
from reactor_runtime.engine.output.sink import OutgoingBundle
from reactor_runtime.engine.recorder import Recorder, RecordOptions
from reactor_runtime.engine.served import ServedModel, Version
from reactor_runtime.ipc.messages import (
    LEAK_KINDS,
    Credit,
    Ended,
    ModelWarning,
    Shutdown,
    Started,
    StartSession,
    StopSession,
    ToServer,
)
from tests.engine.rig import frame
from tests.template_projects import NAMES, template_project
from tests.timeouts import TIMEOUT_S

MB = 1 << 20
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists the children of a process")


def guard(values: list[Usage]) -> LeakGuard:
    return LeakGuard(partial(next, iter(values)))


def used(*, threads: int = 0, memory: int = 0) -> Usage:
    return Usage({"threads": dict.fromkeys(range(threads)), "tasks": {}, "descriptors": {}}, {"memory": memory})


@pytest.mark.parametrize(
    ("counts", "reports"),
    [
        ([4, 5, 6, 7, 8, 9, 10], 1),
        ([4, 5, 6, 6, 7, 8], 0),
        ([4, 5, 6, 6, 7, 8, 9], 1),
        ([4, 5, 4, 5, 4, 5, 4, 5], 0),
        ([4, 8, 8, 8, 8], 0),
        ([4, 9, 5, 6, 7, 8], 0),
    ],
    ids=["always", "a pause", "after a pause", "up and down", "once", "below its maximum"],
)
def test_a_count_is_reported_once_when_it_has_grown_three_times_in_a_row(counts: list[int], reports: int) -> None:
    leaks = guard([used(threads=count) for count in counts])
    leaks.begin()
    leaks.begin()
    found = [leak for _ in counts[1:] for leak in leaks.compare()]
    assert [leak.kind for leak in found] == ["threads"] * reports


@pytest.mark.parametrize(
    ("grown_mb", "reports"),
    [
        (range(0, 64, 1), 1),
        (range(0, 400, 20), 1),
        (range(0, 47, 1), 0),
        ([0, *[400] * 20], 0),
        ([0, 1, *[500, 1, 1] * 20], 0),
        ([0, 20, 40, *[40] * 20], 0),
        ([0, *[each + 300 * (each % 2) for each in range(70)]], 1),
    ],
    ids=["1 MB a session", "20 MB a session", "too little", "once", "peaks", "a cache that fills", "below peaks"],
)
def test_memory_that_keeps_growing_is_reported_however_slowly(grown_mb: list[int], reports: int) -> None:
    leaks = guard([used(memory=(100 + grown) * MB) for grown in grown_mb])
    leaks.begin()
    found = [leak for _ in grown_mb[1:] for leak in leaks.compare()]
    assert [leak.kind for leak in found] == ["memory"] * reports


def test_the_report_of_memory_has_its_growth() -> None:
    leaks = guard([used(memory=100_000_000 + number * STEP_BYTES) for number in range(6)])
    leaks.begin()
    (leak,) = [leak for _ in range(5) for leak in leaks.compare()]
    assert leak.warning.message == "memory grows from session to session: by 84 MB in 5 sessions, to 184 MB now"


class Picture(Output):
    main_video: Video


class Leaking(ReactorPipeline):
    state: InputState
    output: Picture
    fps = 60

    def load(self, config: dict[str, Any]) -> None:  # noqa: ARG002
        self.stop = threading.Event()
        self.kept: list[Any] = []
        self.pool = ThreadPoolExecutor()

    @connected
    def on_connected(self) -> None:
        self.leak()
        # A pool that grows has a limit.
        for _ in range(len(self.kept)):
            self.pool.submit(self.stop.wait)

    def leak(self) -> None:
        self.kept.append(None)

    def inference(self) -> Iterator[Any]:
        while True:
            yield frame(1)


class LeaksThreads(Leaking):
    def leak(self) -> None:
        super().leak()
        threading.Thread(target=self.stop.wait, name="decoder").start()  # the line


class LeaksPools(Leaking):
    def leak(self) -> None:
        super().leak()
        self.kept.append(ThreadPoolExecutor(1, "decoder"))
        self.kept[-1].submit(self.stop.wait)  # the line


class LeaksTasks(Leaking):
    def leak(self) -> None:
        super().leak()
        self.kept.append(asyncio.create_task(self.poll()))

    async def poll(self) -> None:
        await asyncio.sleep(3600)  # the line


class LeaksInnerTasks(Leaking):
    def leak(self) -> None:
        super().leak()
        self.kept.append(asyncio.create_task(self.poll()))

    async def poll(self) -> None:
        await self.inner()

    async def inner(self) -> None:
        await asyncio.Event().wait()  # the line


class LeaksTasksOfAsyncio(Leaking):
    def leak(self) -> None:
        super().leak()
        self.kept.append(asyncio.create_task(asyncio.sleep(3600)))  # the line


class LeaksProcesses(Leaking):
    def leak(self) -> None:
        super().leak()
        self.kept.append(subprocess.Popen(["sleep", "3600"]))


class LeaksFiles(Leaking):
    def leak(self) -> None:
        super().leak()
        self.kept.append(os.open(__file__, os.O_RDONLY))


class Discarding:
    """Discard bundles, return their credits at once, and keep the warnings; `changed` is set by other messages."""

    def __init__(self) -> None:
        self.host: Host
        self.warnings: list[ModelWarning] = []
        self.changed: dict[type, asyncio.Event] = {Started: asyncio.Event(), Ended: asyncio.Event()}

    def send_bundle(self, bundle: OutgoingBundle) -> None:
        credit = Credit(bundle.session, bundle.number, bundle.handed_over)
        asyncio.get_running_loop().call_soon(self.host.receive_message, credit)

    def send(self, message: ToServer) -> None:
        if isinstance(message, ModelWarning):
            self.warnings.append(message)
        elif type(message) in self.changed:
            self.changed[type(message)].set()

    def release(self, number: int) -> None: ...

    async def wait_for(self, kind: type) -> None:
        await self.changed[kind].wait()
        self.changed[kind].clear()


async def leaks_of(model: Model, sessions: int, *, project: Path, session_s: float = 0.0) -> list[ModelWarning]:
    """Serve sessions on a model that is loaded; return what the guard has found."""
    clock, sink = SystemClock(), Discarding()
    served = ServedModel(Version(model, Contract.of(type(model)), {}))
    sink.host = host = Host(
        served, [Outlet(sink=sink)], HostParts(clock=clock, project=project), leaks=LeakGuard(read_usage)
    )
    record_task_starts(asyncio.get_running_loop())
    serving = asyncio.create_task(host.serve())
    for number in range(sessions):
        host.receive_message(StartSession(f"s-{number}", "c-1", 0.0))
        await sink.wait_for(Started)
        await asyncio.sleep(session_s)
        host.receive_message(StopSession(f"s-{number}"))
        await sink.wait_for(Ended)
    host.receive_message(Shutdown())
    await serving
    clock.close()
    return [warning for warning in sink.warnings if warning.leak]


@pytest.mark.parametrize(
    ("kind", "leak", "message", "line"),
    [
        (LeaksThreads, "threads", 'left the thread "decoder" started in test_leaks.py:', "# the line"),
        (LeaksPools, "threads", 'left the thread "decoder_0" started in test_leaks.py:', "# the line"),
        (LeaksTasks, "tasks", 'left the task "LeaksTasks.poll" which waits in test_leaks.py:', "# the line"),
        (LeaksInnerTasks, "tasks", 'left the task "LeaksInnerTasks.poll" which waits in test_leaks.py:', "# the line"),
        (LeaksTasksOfAsyncio, "tasks", 'left the task "sleep" started in test_leaks.py:', "# the line"),
        pytest.param(LeaksProcesses, "processes", "(sleep", "", marks=ON_LINUX),
        (LeaksFiles, "descriptors", f"left the descriptor of {__file__} behind", ""),
    ],
)
async def test_what_is_left_is_reported_with_its_origin(
    kind: Callable[[], Any], leak: str, message: str, line: str, tmp_path: Path
) -> None:
    model = kind()
    model.load({})
    try:
        with thread_starts_recorded():
            (warning,) = await leaks_of(model, 5, project=tmp_path)
        assert warning.leak == leak
        assert message in warning.error["message"]
        assert line in (warning.error["where"] or [""])[-1]
        assert "@disconnected" in warning.error["hint"]
    finally:
        model.stop.set()
        for each in model.kept:
            match each:
                case asyncio.Task():
                    each.cancel()
                case subprocess.Popen():
                    each.kill()
                    each.wait()
                case int():
                    os.close(each)
                case ThreadPoolExecutor():
                    each.shutdown()
        model.pool.shutdown()


@ON_LINUX
def test_a_process_for_which_nothing_waits_is_counted_and_said_to_have_ended() -> None:
    with subprocess.Popen(["true"]) as process:
        # Leaves it to be waited for.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert read_processes()[str(process.pid)] == f"{process.pid} (true), which has ended"


async def test_the_server_knows_every_kind_that_is_watched() -> None:
    usage = read_usage()
    assert {*usage.things, *usage.bytes, "memory", "GPU memory"} == set(LEAK_KINDS)


@pytest.mark.parametrize("only_kept", [False, True])
async def test_the_file_of_a_recording_is_no_leak(only_kept: bool, tmp_path: Path) -> None:
    written = threading.Event()
    recorder = Recorder(RecordOptions(tmp_path, only_kept=only_kept), {}, tmp_path, on_kept=lambda _: written.set())
    before = read_usage(recorder.descriptors).things["descriptors"]
    assert recorder.start_log(StartSession("s-1", "c-1", 0.0), Contract.of(Leaking)) is not None
    recorder.keep("s-1")
    assert await asyncio.to_thread(written.wait, TIMEOUT_S)
    assert len(read_usage().things["descriptors"]) == len(before) + 1
    assert read_usage(recorder.descriptors).things["descriptors"] == before
    recorder.close()
    assert not recorder.descriptors


def test_the_line_that_starts_a_thread_is_found_in_a_project_about_asyncio(tmp_path: Path) -> None:
    file = tmp_path / "asyncio_model.py"
    file.write_text("import threading\n\nthread = threading.Thread(target=print, args=('',))\nthread.start()\n")
    threads: dict[object, object] = {}
    guard = LeakGuard(lambda: Usage({"threads": dict(threads)}, {}))
    guard.begin()
    with thread_starts_recorded():
        for number in range(3):
            model: dict[str, Any] = {}
            exec(compile(file.read_text(), file, "exec"), model)
            model["thread"].join()
            threads[number] = model["thread"]
            leaks = guard.compare()
    assert [str(leak.warning.where) for leak in leaks] == [f"{file}:4:1"]


class Camera(Input):
    camera: Video


class Waiting(ReactorPipeline):
    """Hold a frame in each step, which ends with an exception when the session does."""

    state: InputState
    input: Camera
    output: Picture
    held: ClassVar[list[weakref.ref[Any]]] = []

    async def inference(self) -> AsyncIterator[Any]:
        while True:
            picture = frame(100)
            self.held.append(weakref.ref(picture))
            await asyncio.sleep(0.005)
            self.input.camera.try_read()
            yield Picture(picture)


async def test_a_session_that_is_stopped_in_a_step_frees_what_the_step_holds(tmp_path: Path) -> None:
    model = Waiting()
    model.load({})
    Waiting.held.clear()
    gc.collect()
    gc.disable()
    try:
        assert await leaks_of(model, 3, project=tmp_path, session_s=0.05) == []
        assert all(picture() is None for picture in Waiting.held)
    finally:
        gc.enable()


def leaks_of_template(name: str, folder: Path) -> list[str]:
    """Serve sessions on a template in this process; return what the guard has found."""
    project = template_project(name, folder)
    os.chdir(project)
    checked = manifest.load(project)
    kind = import_class(project, checked.module, checked.class_name)
    given = {} if checked.config_path is None else config.load(checked.config_path)
    values = config_of(kind, given, project)
    model = make_model(Contract.of(kind), values, project)
    call_load(model, values, project)
    warnings = asyncio.run(leaks_of(model, 20, project=project, session_s=0.05))
    return [warning.error["message"] for warning in warnings]


@pytest.mark.parametrize("name", NAMES)
def test_templates_leave_nothing(name: str, tmp_path: Path) -> None:
    # The guard reads the memory of the whole process, and the tests before this one have left caches and free memory.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        assert process.submit(leaks_of_template, name, tmp_path).result() == []
