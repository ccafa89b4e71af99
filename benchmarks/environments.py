"""Steps of a served model as an environment, and the memory of sessions that share a loaded model."""

from __future__ import annotations

import importlib.util
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.serving import RUNS, address, cpu_of, running, serving
from reactor_runtime.testing import PipelineExecutor

Row = tuple[str, str, str]

WORLD = Path(__file__).parent / "world"
ENVIRONMENTS = 8
# The time of a forward pass, which several sessions share in a batch.
PASS_MS = 10
GOALS = {128: 600, 256: 400}
STEPS = 1500
EXACT_STEPS = 10_000
WEIGHTS_MB = 300
# A process that answers each request of 100 bytes with as many bytes as a frame has.
ECHO = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    connection, _ = server.accept()
    frame = bytes(int(sys.argv[1]))
    while connection.recv(100):
        connection.sendall(frame)
"""


def environments() -> Iterator[Row]:
    """Measure the steps a second of one environment and of eight in one loaded model; needs Gymnasium."""
    if importlib.util.find_spec("gymnasium") is None:
        yield "environments", "no gymnasium", ""
        return
    for size, goal in GOALS.items():
        floor = 1 / _round_trip_s(3 * size * size)
        with serving(WORLD, size=size) as port:
            rates = [_rate(port, 1) for _ in range(RUNS)]
            client_ms, server_ms, engine_ms = _cpu_ms(port)
        yield f"environment {size}x{size}", f"{statistics.median(rates):.0f} steps/s", f"at least {goal}"
        yield "  bare round trips of as many bytes", f"{floor:.0f} a second", ""
        yield "  CPU of a step: client", f"{client_ms:.2f} ms", ""
        yield "    server", f"{server_ms:.2f} ms", ""
        yield "    engine", f"{engine_ms:.2f} ms", ""
    for step_ms, bound in ((PASS_MS, "at least 3"), (0, "")):
        with serving(WORLD, step_ms=step_ms) as port:
            alone = statistics.median(_rate(port, 1) for _ in range(RUNS))
            together = statistics.median(_rate(port, ENVIRONMENTS) for _ in range(RUNS))
        yield f"{ENVIRONMENTS} environments 128x128, a pass of {step_ms} ms", f"{together:.0f} steps/s", ""
        yield "  one environment", f"{alone:.0f} steps/s", ""
        yield "  of one environment", f"{together / alone:.1f}", bound
    with serving(WORLD) as port:
        differing = _differing(port)
    yield f"{EXACT_STEPS} of their steps: unlike those offline", f"{differing}", "at most 0"


def sharing() -> Iterator[Row]:
    """Measure the memory of the engines of eight sessions: in one loaded model, and in eight; needs PyTorch."""
    if importlib.util.find_spec("torch") is None:
        yield "sharing", "no torch", ""
        return
    for name, options in (
        ("one loaded model", ()),
        ("eight loaded models", ("--sessions", str(ENVIRONMENTS), "--sessions-per-model", "1")),
    ):
        with serving(WORLD, options=options, weights_mb=WEIGHTS_MB) as port:
            _rate(port, ENVIRONMENTS)
            used = sum(map(_memory, running()[1:]))
        yield f"{ENVIRONMENTS} sessions, weights of {WEIGHTS_MB} MB, {name}", f"{used / 1e6:.0f} MB", ""


def _rate(port: int, count: int) -> float:
    """Return the steps a second of so many environments."""
    from reactor_runtime.client.gym import Env, VectorEnv

    env = Env(address(port)) if count == 1 else VectorEnv(address(port), count)
    try:
        env.reset(seed=1)
        action = env.action_space.sample()
        for _ in range(20):
            env.step(action)
        began = time.perf_counter()
        for _ in range(STEPS // count):
            env.step(action)
        return STEPS // count * count / (time.perf_counter() - began)
    finally:
        env.close()


def _differing(port: int) -> int:
    """Return how many steps of eight environments have another frame or reward than the same steps offline."""
    from reactor_runtime.client.gym import Env, VectorEnv

    chance = np.random.default_rng(29)
    actions = chance.integers(0, 3, (EXACT_STEPS // ENVIRONMENTS, ENVIRONMENTS))
    served = VectorEnv(address(port), ENVIRONMENTS)
    try:
        served.reset(seed=list(range(ENVIRONMENTS)))
        online = [served.step(each)[:2] for each in actions]
    finally:
        served.close()
    differing = 0
    spec = importlib.util.spec_from_file_location("bench_world", WORLD / "pipeline.py")
    assert spec is not None, "the model is a source file"
    assert spec.loader is not None, "the model is a source file"
    module = sys.modules["bench_world"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    config = {"size": 128, "step_ms": 0, "weights_mb": 0}
    with PipelineExecutor(module.World, config=config) as executor:
        executor.connect(stepped=True)
        env = Env(executor, environment={"message": "score", "reward": "reward"})
        for index in range(ENVIRONMENTS):
            # The seed of the session, not one for the numbers from which an environment draws it.
            env.world.read(executor.step(**env.world.starting_inputs(index, None)))
            for (frames, rewards), action in zip(online, actions[:, index], strict=True):
                frame, reward, *_ = env.step(action)
                differing += not (np.array_equal(frame, frames[index]) and reward == rewards[index])
    return differing


def _cpu_ms(port: int) -> tuple[float, float, float]:
    """Return the CPU time of client, server and engine for a step of one environment."""
    server, engine = running()
    before = time.process_time(), cpu_of(server), cpu_of(engine)
    _rate(port, 1)
    after = time.process_time(), cpu_of(server), cpu_of(engine)
    client_ms, server_ms, engine_ms = (1e3 * (end - began) / STEPS for began, end in zip(before, after, strict=True))
    return client_ms, server_ms, engine_ms


def _round_trip_s(size_bytes: int) -> float:
    """Return the floor: the time of a bare request to another process that answers with so many bytes, median."""
    process = subprocess.Popen([sys.executable, "-c", ECHO, str(size_bytes)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None, "stdout is a pipe"
    times = []
    with process, socket.create_connection(("127.0.0.1", int(process.stdout.readline()))) as connection:
        answer = bytearray(size_bytes)
        for _ in range(STEPS):
            began = time.perf_counter()
            connection.sendall(bytes(100))
            connection.recv_into(answer, size_bytes, socket.MSG_WAITALL)
            times.append(time.perf_counter() - began)
    return statistics.median(times)


def _memory(pid: int) -> int:
    """Return the memory of a process in bytes; what processes share counts in parts."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * int(text.split("\nPss:")[1].split()[0])
