"""A server with a low limit of descriptors, and clients that open more connections, from one address and several."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

from tests.server.bare import MODEL
from tests.server.client import client, controlling
from tests.server.running import RunningServer, serving, write_project

LIMIT = 256


@contextlib.contextmanager
def silent(server: RunningServer, count: int, *hosts: int) -> Iterator[list[socket.socket]]:
    """Open connections from addresses of this machine that send nothing; some may be reset at once."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(client)
            for host in hosts
            for _ in range(count)
            if (client := _connected(server.port, f"127.0.0.{host}")) is not None
        ]


def _connected(port: int, source: str) -> socket.socket | None:
    try:
        return socket.create_connection(("127.0.0.1", port), source_address=(source, 0))
    except ConnectionError:
        return None


def _limit(pid: int) -> tuple[str, str]:
    (line,) = (line for line in Path(f"/proc/{pid}/limits").read_text().splitlines() if "open files" in line)
    soft, hard = line.split()[3:5]
    return soft, hard


def test_the_soft_limit_is_raised_to_the_hard_one(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL), descriptors=(200, 300)) as server:
        assert _limit(server.process.pid) == ("300", "300")


async def test_an_address_that_opens_many_connections_leaves_descriptors_to_others(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL), descriptors=(LIMIT, LIMIT)) as server:
        async with controlling(server.url) as controller:
            with silent(server, 2 * LIMIT, 2):
                async with client(server.url, role="viewer") as viewer:
                    await viewer.frame()
                assert (await controller.ask("set_level", {"level": 200}))["data"] == {"n": 1}
                await controller.frame(applied=1)
                await controller.data("reactor.stats")
                assert server.get("/metrics")[0] == 200
        assert server.log.count("warn  connection refused from=") == 1
        assert "Traceback" not in server.log


async def test_an_engine_is_started_again_while_clients_hold_all_their_descriptors(tmp_path: Path) -> None:
    with serving(write_project(tmp_path, MODEL), descriptors=(LIMIT, LIMIT)) as server:
        async with controlling(server.url) as controller:
            await controller.frame()
            with silent(server, LIMIT // 2, 2, 3, 4, 5):
                server.wait_for("connections are refused: the limit of open files")
                os.kill(server.engine, signal.SIGKILL)
                await controller.data("reactor.session", phase="ended")
                server.wait_for("is started again")
        server.wait_for_health("ready")
        async with controlling(server.url) as controller:
            await controller.frame()
        assert "could not be loaded" not in server.log
        assert "Traceback" not in server.log
