"""Many viewers: frames, delays and CPU of a controller and up to 200 viewers of one 720p stream, on two cores."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import selectors
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

from benchmarks.client_process import ClientGroup, Report, client_processes, measure_all
from benchmarks.serving import processes, serving
from reactor_runtime.wire.containers import attach
from reactor_runtime.wire.media_header import MediaHeader

Row = tuple[str, str, str]
FPS = 30
SECONDS = 8.0
SERVER_CORES = 2
CONTROLLER = ClientGroup(role="controller", count=1, pings=True)
FLOOR_BYTES = 200_000


def viewers() -> Iterator[Row]:
    """Measure 720p at 30 fps and more for up to 200 viewers, of which some never read or come and go."""
    for count in (0, 10, 50, 100):
        yield from _stream(f"{count} viewers", *_halves(count))
    yield from _stream("200 viewers", *_halves(200), options=("--max-viewers", "200"))
    for fps in (60, 120):
        yield from _stream(f"100 viewers of {fps} fps", *_halves(100), fps=fps)
    yield from _stream("100 viewers that acknowledge nothing", ClientGroup(count=100, acknowledges=False))
    yield from _stream("80 viewers, 20 more never read", ClientGroup(count=80, never_read=20))
    yield from _stream("40 viewers, 50 more come and go a second", ClientGroup(count=40), ClientGroup(joins_per_s=50))
    yield from _stream("90 viewers, 5 more come and go a second", ClientGroup(count=90), ClientGroup(joins_per_s=5))
    for count in (10, 50, 100):
        yield from _floor(count)


def _halves(count: int) -> tuple[ClientGroup, ...]:
    """Divide viewers between two processes, because one would limit the rate."""
    return ClientGroup(count=count - count // 2), ClientGroup(count=count // 2)


def _stream(name: str, *groups: ClientGroup, fps: int = FPS, options: Sequence[str] = ()) -> Iterator[Row]:
    with on_two_cores(), serving(options=options, fps=fps) as port:
        pids = processes()
        with _on_other_cores(), client_processes(port, CONTROLLER, *groups) as started:
            reports, shares = measure_all(started, SECONDS, pids)
            yield from _metrics(name, fps, reports, shares)


def _metrics(name: str, fps: int, reports: list[Report], shares: list[float]) -> Iterator[Row]:
    controller, *others = reports
    offered = f"{fps}"
    server_cpu, engine_cpu = shares[0], sum(shares[1:])
    (seqs,), (ats,), (delays_s,) = controller.seqs, controller.ats, controller.delays_s
    gaps = [after - before for before, after in itertools.pairwise(ats)]
    yield f"{name}: steps of the model a second", f"{(seqs[-1] - seqs[0]) / (ats[-1] - ats[0]):.1f}", offered
    yield "  frames a second, controller", f"{(len(seqs) - 1) / (ats[-1] - ats[0]):.1f}", offered
    yield "    hand-over to receipt, p50", _ms(delays_s, 0.5), ""
    yield "    p99", _ms(delays_s, 0.99), ""
    yield "    gap, p99", _ms(gaps, 0.99), ""
    yield "    ping to pong, p50", _ms(controller.pings_s, 0.5), ""
    yield "    p99", _ms(controller.pings_s, 0.99), ""
    yield from _viewer_rows(others, offered)
    yield "  of one core, server", f"{100 * server_cpu:.0f} %", ""
    yield "    engine", f"{100 * engine_cpu:.0f} %", ""
    yield "    clients", f"{100 * sum(report.cpu_s for report in reports) / SECONDS:.0f} %", ""


def _viewer_rows(reports: list[Report], offered: str) -> Iterator[Row]:
    seqs = [each for report in reports for each in report.seqs]
    if seqs:
        rates = sorted(len(each) / SECONDS for each in seqs)
        skipped = [max(0, each[-1] - each[0] + 1 - len(each)) for each in seqs if each]
        delays_s = [delay_s for report in reports for each in report.delays_s for delay_s in each]
        yield "  frames a second, viewers, p50", f"{statistics.median(rates):.1f}", offered
        yield "    worst", f"{rates[0]:.1f}", ""
        yield (
            "    skipped by all, of what was offered",
            f"{100 * sum(skipped) / (sum(map(len, seqs)) + sum(skipped)):.1f} %",
            "",
        )
        yield "    hand-over to receipt, p50", _ms(delays_s, 0.5), ""
        yield "    p99", _ms(delays_s, 0.99), ""
    joins_s = [join_s for report in reports for join_s in report.joins_s]
    if joins_s:
        yield "  joined", f"{len(joins_s)}", ""
        yield "    connect to first frame, p50", _ms(joins_s, 0.5), ""
        yield "    p99", _ms(joins_s, 0.99), ""
        yield "    left without a frame", f"{sum(report.never_served for report in reports)}", "0"


def _floor(viewers: int) -> Iterator[Row]:
    """Send the same bytes to as many sockets from a loop that does nothing else."""
    groups = ClientGroup(role="controller", count=1), *_halves(viewers)
    with (
        on_two_cores(),
        _bare_server(viewers + 1) as (port, pid),
        _on_other_cores(),
        client_processes(port, *groups) as started,
    ):
        (first, *others), (share,) = measure_all(started, SECONDS, (pid,))
    rates = sorted(len(each) / SECONDS for report in others for each in report.seqs)
    delays_s = [delay_s for report in others for each in report.delays_s for delay_s in each]
    yield f"a bare loop that sends to {viewers}: frames a second, p50", f"{statistics.median(rates):.1f}", f"{FPS}"
    yield "  worst", f"{rates[0]:.1f}", ""
    yield "  send to receipt, first, p99", _ms(first.delays_s[0], 0.99), ""
    yield "  the others, p50", _ms(delays_s, 0.5), ""
    yield "  p99", _ms(delays_s, 0.99), ""
    yield "  of one core", f"{100 * share:.0f} %", ""


def _ms(times_s: list[float], quantile: float) -> str:
    ordered = sorted(times_s)
    return (
        f"{1e3 * ordered[min(len(ordered) - 1, math.ceil(len(ordered) * quantile) - 1)]:.1f} ms" if ordered else "none"
    )


@contextlib.contextmanager
def on_two_cores() -> Iterator[None]:
    """Run processes started in the block on two cores."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, set(cores[:SERVER_CORES]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, set(cores))


@contextlib.contextmanager
def _on_other_cores() -> Iterator[None]:
    """Run processes started in the block on the other cores, if there are any."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(range(os.cpu_count() or 1)))
    others = os.sched_getaffinity(0) - before
    os.sched_setaffinity(0, others or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def _bare_server(clients: int) -> Iterator[tuple[int, int]]:
    """Send from a process of its own; yield its port and its id."""
    command = [sys.executable, "-m", __name__, str(clients)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None, "stdout is a pipe"
    try:
        yield int(process.stdout.readline()), process.pid
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def _send_to(clients: int) -> None:
    """Accept connections and send each the same frame at a fixed rate, the rest of it when the socket is writable."""
    selector = selectors.DefaultSelector()
    unsent: dict[socket.socket, memoryview] = {}
    listening = socket.create_server(("127.0.0.1", 0), backlog=clients)
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    selector.register(listening, selectors.EVENT_READ)
    due, seq = time.monotonic(), 0
    while True:
        due, seq = due + 1 / FPS, seq + 1
        while (left_s := due - time.monotonic()) > 0:
            for key, events in selector.select(left_s):
                sock = key.fileobj
                assert isinstance(sock, socket.socket), "only sockets are registered"
                if sock is listening:
                    _accept(listening, selector, unsent)
                elif events & selectors.EVENT_WRITE:
                    _send(sock, unsent, selector)
                elif not _is_open(sock):
                    selector.unregister(sock)
                    del unsent[sock]
        frame = memoryview(_frame(seq))
        for sock, left in unsent.items():
            if not left:
                unsent[sock] = frame
                _send(sock, unsent, selector)


def _is_open(sock: socket.socket) -> bool:
    """Read and drop a client's data; return False when it has closed the connection."""
    try:
        return bool(sock.recv(65536))
    except ConnectionError:
        return False


def _accept(
    listening: socket.socket, selector: selectors.BaseSelector, unsent: dict[socket.socket, memoryview]
) -> None:
    sock, _ = listening.accept()
    sock.recv(65536)
    sock.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
    sock.setblocking(False)
    selector.register(sock, selectors.EVENT_READ)
    unsent[sock] = memoryview(b"")


def _send(sock: socket.socket, unsent: dict[socket.socket, memoryview], selector: selectors.BaseSelector) -> None:
    with contextlib.suppress(BlockingIOError, ConnectionError):
        unsent[sock] = unsent[sock][sock.send(unsent[sock]) :]
    wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if unsent[sock] else 0)
    if selector.get_key(sock).events != wanted:
        selector.modify(sock, wanted)


def _frame(seq: int) -> bytes:
    file = attach(MediaHeader("main_video", seq, 0, time.time_ns() // 1000, 0), b"\xff\xd8" + bytes(FLOOR_BYTES - 2))
    return b"\x82\x7f" + len(file).to_bytes(8, "big") + file


if __name__ == "__main__":
    _send_to(int(sys.argv[1]))
