"""A front with real workers, and clients that are redirected, relayed, and lose their worker."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import ssl
import time
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from reactor_runtime.cluster.front import remote_worker
from reactor_runtime.cluster.tickets import TicketIssuer
from reactor_runtime.errors import LoadError
from reactor_runtime.server.options import Access, TurnLimits
from reactor_runtime.server.security.certificate import pinned_context
from reactor_runtime.wire.protocol import SUBPROTOCOL
from tests.cluster.front import MODEL, Front, http_of, redirected, running_front, socket_of
from tests.cluster.local_placement import SECRET
from tests.server.client import WireClient, client, connect, controlling
from tests.server.running import write_project
from tests.server.security.test_certificate import make_certificate
from tests.timeouts import TIMEOUT_S


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(tmp_path / "project", MODEL)


async def refusal(url: str, **query: str) -> str:
    """Return why a WebSocket is refused."""
    with pytest.raises(InvalidStatus) as refused:
        async with client(url, **query):
            pass
    assert refused.value.response.status_code == 401
    return (refused.value.response.body or b"").decode().strip()


async def test_a_relayed_client_has_a_session_as_with_a_plain_server(project: Path) -> None:
    async with running_front(project) as front, client(front.url) as controller:
        welcome = await controller.data("reactor.welcome")
        await controller.data("reactor.session", phase="started")
        async with front.http() as http:
            (slot,) = front.slots
            async with asyncio.timeout(TIMEOUT_S):
                while slot.session is None or not slot.session.upload_key:  # noqa: ASYNC110  (no event reports it)
                    await asyncio.sleep(0.01)
            sent = await http.post("/uploads", params={"key": welcome["upload_key"]}, content=b"12345")
            assert (sent.status_code, sent.json()["upload"][:2]) == (201, "u-")
            assert (await http.post("/uploads", params={"key": "x"}, content=b"1")).status_code == 403
            assert await begin_upload(front, welcome["upload_key"], (256 << 20) + 1) == 413
        assert (await controller.ask("set_level", {"level": 200}))["data"] == {"n": 1}
        assert abs((await controller.frame(applied=1)).level - 200) < 3
        assert (await controller.ask("set_level", {"level": "x"}))["data"]["code"] == "invalid_event"
        assert "server_us" in await controller_pong(controller)
        async with client(front.url, role="viewer") as viewer, client(front.url) as second:
            assert abs((await viewer.frame()).level - 200) < 3
            assert await second.place() == {"position": 1, "length": 1}
            refused = await second.ask("set_level", {"level": 1})
            assert refused["data"]["code"] == "not_controller"
            async with front.http() as http:
                health = (await http.get("/health")).json()
                assert (health["status"], health["waiting"], health["viewers"]) == ("busy", 1, 1)
                (worker,) = health["engines"]
                (slot,) = front.slots
                assert (worker["worker"], worker["node"], worker["status"]) == (slot.worker, "here", "busy")
                assert worker["url"].startswith("http://127.0.0.1:")
                # The status of a worker is up to a second old.
                assert worker["clients"] >= 1
                assert worker["memory_bytes"] > 0
                (target,) = (await http.get("/workers")).json()
                assert target["targets"] == [f"127.0.0.1:{front.port}"]
                assert (target["labels"]["worker"], target["labels"]["node"]) == (slot.worker, "here")
                metrics = (await http.get(target["labels"]["__metrics_path__"])).text
                assert 'reactor_frames_emitted_total{track="main_video"}' in metrics
                assert (await http.get("/workers/w-none/metrics")).status_code == 404
                snapshot = await http.get("/snapshot/main_video.jpg")
                assert (snapshot.status_code, snapshot.headers["content-type"]) == (200, "image/jpeg")
                assert snapshot.content.startswith(b"\xff\xd8")
                assert "set_level" in (await http.get("/schema")).text
                assert "reactor_sessions_active 1" in (await http.get("/metrics")).text
            await controller.socket.close()
            await second.data("reactor.session", phase="started")
            assert abs((await second.frame()).level - 100) < 3


async def test_the_token_of_the_front_is_not_passed_on_with_a_file(project: Path) -> None:
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    token = "a-token-of-the-front"
    async with (
        running_front(project, access=Access(token=token)) as front,
        client(front.url, token=token) as controller,
    ):
        key = (await controller.data("reactor.welcome"))["upload_key"]
        (slot,) = front.slots
        async with asyncio.timeout(TIMEOUT_S):
            while slot.session is None or not slot.session.upload_key:  # noqa: ASYNC110  (no event reports it)
                await asyncio.sleep(0.01)
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            slot._access.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with front.http() as http:
                query = {"token": token, "name": "a b.png", "key": key}
                assert (await http.post("/uploads", params=query, content=b"12345")).status_code == 201
    assert heads[0].splitlines()[0].decode() == f"POST /uploads?key={key}&name=a+b.png HTTP/1.1"
    assert token.encode() not in heads[0]


async def test_each_client_is_counted_once_at_the_front_or_at_its_worker(project: Path) -> None:
    async with running_front(project) as front:
        async with client(front.url, role="viewer", redirect="1") as viewer:
            await viewer.data("reactor.welcome")
            assert front.fleet.statistics().clients == 1
        async with controlling(front.url), client(front.url, watch="1") as waiting:
            await waiting.frame()
            async with asyncio.timeout(TIMEOUT_S):
                while (status := front.slots[0].status) is None or status.clients != 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert front.fleet.statistics().clients == 2


async def begin_upload(front: Front, key: str, size_bytes: int) -> int:
    """Send the first bytes of a file; return the status that comes while the rest is not sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", front.port)
    head = f"POST /uploads?key={key} HTTP/1.1\r\nHost: 127.0.0.1:{front.port}\r\nContent-Length: {size_bytes}\r\n\r\n"
    writer.write(head.encode() + b"the beginning")
    async with asyncio.timeout(TIMEOUT_S):
        status = int((await reader.readline()).split()[1])
    writer.close()
    await writer.wait_closed()
    return status


async def controller_pong(controller: WireClient) -> dict[str, str]:
    await controller.send("reactor.ping", {"t": "now"})
    data: dict[str, str] = await controller.data("reactor.pong")
    return data


async def test_a_redirected_client_goes_on_at_the_worker_with_a_ticket_for_one_connection(project: Path) -> None:
    async with running_front(project) as front:
        redirect = await redirected(front)
        url, ticket = socket_of(redirect), redirect["ticket"]
        async with client(url, ticket=ticket, role="viewer") as controller:
            # The role is that of the ticket.
            assert (await controller.data("reactor.welcome"))["role"] == "controller"
            assert (await controller.frame()).header.track == "main_video"
            viewed = await redirected(front, role="viewer")
            async with client(url, ticket=viewed["ticket"]) as viewer:
                assert (await viewer.data("reactor.welcome"))["role"] == "viewer"
                await viewer.frame()
            foreign = TicketIssuer(SECRET, "another", "f-1").issue("w", role="viewer", session="", client="", now=2e9)
            assert (
                await refusal(url, ticket=ticket)
                == "the ticket has been used or released: it is valid for one connection"
            )
            assert await refusal(url, ticket=foreign.text) == "the ticket is for another cluster"
            of_ended = TicketIssuer(SECRET, "test", front.id).issue(
                front.slots[0].worker, role="controller", session="", client="", now=time.time(), resume="x"
            )
            assert await refusal(url, ticket=of_ended.text) == "the session of the ticket is over"
            assert "connect to its front" in await refusal(url)
            assert "connect to its front" in await refusal(url, resume="x", token="y")
        async with http_of(redirect["url"]) as http:
            for path in ("/", "/metrics", "/schema", "/stream/main_video.mjpg", "/docs"):
                assert (await http.get(path)).status_code == 401
            assert (await http.get("/metrics", headers={"Authorization": f"Bearer {SECRET}"})).status_code == 200
            with pytest.raises(InvalidStatus):
                async with connect(url.replace("/ws", "/worker")):
                    pass


async def test_a_redirected_viewer_returns_to_the_front_after_its_session(project: Path) -> None:
    async with running_front(project, workers=2) as front, controlling(front.url) as first, controlling(front.url):
        viewed = await redirected(front, role="viewer")
        async with (
            client(socket_of(viewed), ticket=viewed["ticket"]) as viewer,
            client(front.url, role="viewer") as relayed,
        ):
            await viewer.frame()
            session = (await relayed.data("reactor.welcome"))["session"]
            await first.socket.close()
            await viewer.data("reactor.session", phase="ended")
            assert await viewer.closed() == (1001, "the session is over: connect to the front to watch another")
            assert (await relayed.data("reactor.welcome"))["session"] != session
        other = await redirected(front, role="viewer")
        assert other["url"] != viewed["url"]
        async with client(socket_of(other), ticket=other["ticket"]) as viewer:
            await viewer.frame()


async def test_a_client_that_can_not_reach_its_worker_is_relayed_before_all_others(project: Path) -> None:
    async with running_front(project) as front:
        redirect = await redirected(front)
        async with client(front.url) as waiting:
            await waiting.data("reactor.queue", position=1)
            # A proxy may have logged the URL of the worker, with the ticket.
            async with client(front.url, returning=redirect["ticket"]) as thief:
                assert await thief.place() == {"position": 2, "length": 2}
            async with client(front.url, returning=redirect["returning"]) as back:
                lost = await back.data("reactor.session")
                assert (lost["phase"], lost["message"]) == ("lost", "the client could not reach its worker")
                await back.data("reactor.session", phase="started")
                assert (await back.frame()).header.track == "main_video"
                assert "used or released" in await refusal(socket_of(redirect), ticket=redirect["ticket"])
                # The secret gives no second place at the head of the queue.
                async with client(front.url, returning=redirect["returning"]) as again:
                    assert await again.place() == {"position": 2, "length": 2}
                await back.socket.close()
            await waiting.data("reactor.session", phase="started")


async def test_a_controller_returns_before_all_others_only_if_its_connection_broke(project: Path) -> None:
    async with running_front(project, limits=TurnLimits(max_session_s=3600.0)) as front:
        for breaks in (True, False):
            redirect = await redirected(front)
            async with (
                client(socket_of(redirect), ticket=redirect["ticket"]) as controller,
                client(front.url) as waiting,
            ):
                await controller.data("reactor.session", phase="started")
                await waiting.data("reactor.queue", position=1)
                async with client(front.url, returning=redirect["returning"]) as back:
                    # The session continues, whoever has its secret.
                    assert (await back.data("reactor.queue"))["position"] == 2
                    assert (await controller.ask("set_level", {"level": 50}))["data"] == {"n": 1}
                    if breaks:
                        controller.socket.transport.abort()
                        lost = await back.data("reactor.session", phase="lost")
                        assert lost["message"] == "the connection to the session broke"
                        await back.data("reactor.session", phase="started")
                        (session,) = [slot.session for slot in front.slots]
                        assert session is not None
                        assert session.seats[0].turn.used_s > 0
                        await back.socket.close()
                    else:
                        await controller.socket.close()
                await waiting.data("reactor.session", phase="started")


@pytest.mark.parametrize("ends_by", ["SIGKILL", "SIGTERM", "its actor", "its node"])
async def test_clients_of_a_lost_worker_wait_before_all_others_and_others_see_no_change(
    project: Path, ends_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A worker that is told to end closes its connection first, and may take long to end.
    monkeypatch.setattr(remote_worker, "LOST_AFTER_S", TIMEOUT_S)
    async with running_front(project, workers=2) as front:
        redirect = await redirected(front)
        async with client(socket_of(redirect), ticket=redirect["ticket"]) as direct:
            await direct.data("reactor.session", phase="started")
            async with controlling(front.url) as relayed, client(front.url) as waiting:
                await waiting.data("reactor.queue", position=1, length=1)
                (hit,) = [slot for slot in front.slots if slot.session and not slot.session.controllers]
                match ends_by:
                    case "SIGKILL":
                        front.kill(hit)
                    case "SIGTERM":
                        # As Ray does to the processes of an actor that has ended.
                        front.placement.processes[hit.worker].send_signal(signal.SIGTERM)
                    case "its actor":
                        front.end_input(hit)
                    case "its node":
                        # Ray reports the end of a node though the worker still runs.
                        front.placement.report_gone(hit.worker)
                assert (await direct.closed())[0] == 1006
                # The client may come before the front knows of the loss.
                async with client(front.url, returning=redirect["returning"], redirect="1") as back:
                    message = (await back.data("reactor.session", phase="lost"))["message"]
                    assert re.search("ended|broke", message)
                    assert await back.place(position=1) == {"position": 1, "length": 2}
                    await back.data("reactor.redirect")
                frame = await relayed.frame()
                assert (await relayed.frame()).header.seq > frame.header.seq
            await waiting_is_served(front)


async def waiting_is_served(front: Front) -> None:
    async with controlling(front.url) as controller:
        await controller.frame()


async def test_a_relayed_client_of_a_killed_worker_gets_the_next_worker_on_its_connection(project: Path) -> None:
    async with running_front(project) as front, controlling(front.url) as controller:
        front.kill(front.slots[0])
        assert (await controller.data("reactor.session", phase="lost"))["message"]
        await controller.data("reactor.session", phase="started")
        assert (await controller.ask("set_level", {"level": 50}))["data"] == {"n": 1}


@pytest.mark.parametrize("query", [{}, {"redirect": "1"}], ids=["relayed", "redirected"])
async def test_a_session_is_resumed_over_the_front(project: Path, query: dict[str, str]) -> None:
    async with running_front(project, limits=TurnLimits(resume_grace_s=TIMEOUT_S)) as front:
        async with client(front.url) as controller:
            secret = (await controller.data("reactor.welcome"))["resume"]
            await controller.data("reactor.session", phase="started")
            assert (await controller.ask("set_level", {"level": 50}))["data"] == {"n": 1}
            controller.socket.transport.abort()
            await controller.closed()
        async with client(front.url, resume=secret, **query) as back:
            if not query:
                await resumed(back)
                return
            redirect = await back.data("reactor.redirect")
        async with client(socket_of(redirect), ticket=redirect["ticket"]) as at_worker:
            await resumed(at_worker)


async def resumed(controller: WireClient) -> None:
    assert (await controller.data("reactor.welcome"))["state"] == {"level": 50}
    await controller.data("reactor.session", phase="resumed")
    assert abs((await controller.frame(applied=1)).level - 50) < 3


async def test_with_a_certificate_workers_serve_https_and_the_front_trusts_that_one_alone(project: Path) -> None:
    certificate, key = make_certificate(project.parent)
    async with running_front(project, access=Access(certificate=certificate, key=key)) as front:
        async with controlling(front.url) as controller:
            assert abs((await controller.frame()).level - 100) < 3
        redirect = await redirected(front)
        assert redirect["url"].startswith("https://")
        url = f"{socket_of(redirect)}?ticket={redirect['ticket']}"
        async with connect(
            url, ssl=pinned_context(certificate.read_text()), subprotocols=[Subprotocol(SUBPROTOCOL)]
        ) as socket:
            assert "reactor.welcome" in str(await socket.recv())
        other, _ = make_certificate(project.parent, "other")
        with pytest.raises(ssl.SSLCertVerificationError):
            await connect(url, ssl=pinned_context(other.read_text()))


async def test_the_front_trusts_the_certificate_that_a_worker_has_read_though_it_was_renewed_since(
    project: Path,
) -> None:
    certificate, key = make_certificate(project.parent)
    async with running_front(project, workers=2, access=Access(certificate=certificate, key=key)) as front:
        make_certificate(project.parent)
        hit, other = front.slots
        front.kill(hit)
        async with asyncio.timeout(TIMEOUT_S):
            while hit in front.slots or len(front.slots) < 2 or not front.slots[1].status:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        # One worker has the old certificate, the other one the new.
        assert front.slots[0] is other
        async with controlling(front.url) as first, controlling(front.url) as second:
            for controller in (first, second):
                assert abs((await controller.frame()).level - 100) < 3


async def test_a_worker_that_is_silent_is_given_up_and_its_client_gets_another(project: Path) -> None:
    async with running_front(project, workers=2) as front, controlling(front.url) as controller:
        (hit,) = [slot for slot in front.slots if slot.session]
        # As after a machine has lost its network: connections stay open.
        front.placement.processes[hit.worker].send_signal(signal.SIGSTOP)
        lost = await controller.data("reactor.session", phase="lost")
        assert "no contact with the worker" in lost["message"]
        await controller.data("reactor.session", phase="started")
        assert abs((await controller.frame()).level - 100) < 3


async def test_a_worker_that_drains_is_replaced_and_finishes_its_session(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The front kills a worker whose end takes longer.
    monkeypatch.setattr(remote_worker, "LOST_AFTER_S", TIMEOUT_S)
    async with running_front(project, drain_timeout_s=TIMEOUT_S) as front:
        async with controlling(front.url) as controller:
            await controller.frame()
            (first,) = front.slots
            front.placement.processes[first.worker].send_signal(signal.SIGTERM)
            async with controlling(front.url) as other:
                assert abs((await other.frame()).level - 100) < 3
                assert (await controller.ask("set_level", {"level": 50}))["data"] == {"n": 1}
        await front.placement.processes[first.worker].wait()
        assert front.placement.processes[first.worker].returncode == 0


async def test_a_session_that_is_not_over_when_its_worker_has_drained_is_lost(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The front kills a worker whose end takes longer.
    monkeypatch.setattr(remote_worker, "LOST_AFTER_S", TIMEOUT_S)
    async with running_front(project, drain_timeout_s=0.2) as front:
        redirect = await redirected(front)
        async with client(socket_of(redirect), ticket=redirect["ticket"]) as direct:
            await direct.data("reactor.session", phase="started")
            process = front.placement.processes[front.slots[0].worker]
            process.send_signal(signal.SIGTERM)
            await direct.data("reactor.session", phase="stopping")
            assert (await direct.closed())[0] == 1006
        assert await asyncio.wait_for(process.wait(), TIMEOUT_S) == 0


async def test_the_turn_at_a_worker_ends_when_clients_wait_at_the_front(project: Path) -> None:
    async with (
        running_front(project, limits=TurnLimits(max_session_s=0.5)) as front,
        controlling(front.url) as controller,
    ):
        await controller.frame()
        async with client(front.url) as second:
            assert await controller.data("reactor.session", phase="ended", reason="turn_over")
            assert (await controller.closed())[0] == 1000
            await second.data("reactor.session", phase="started")


async def test_a_session_that_fails_closes_with_the_reason_of_the_worker(project: Path) -> None:
    async with running_front(project) as front, controlling(front.url) as controller:
        await controller.send("set_level", {"level": 255})
        code, reason = await controller.closed()
        assert code == 1011
        assert "it fell over" in reason


async def test_a_client_has_one_id_in_all_logs_from_the_front_to_the_model(
    project: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with running_front(project, log_format="json") as front:
        redirect = await redirected(front)
        async with client(socket_of(redirect), ticket=redirect["ticket"]) as controller:
            welcome = await controller.data("reactor.welcome")
            await controller.send("set_level", {"level": 255})
            await controller.closed()
    id = welcome["client"]
    at_front = [record.getMessage() for record in caplog.records if vars(record).get("client") == id]
    begins = "client attached", "client redirected", "client gone", "session over"
    assert [text[: len(begin)] for text, begin in zip(at_front, begins, strict=True)] == list(begins)
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    at_worker = {line["logger"]: line for line in lines if line.get("client") == id and "session" in line}
    assert {line["session"] for line in at_worker.values()} == {welcome["session"]}
    assert "it fell over" in at_worker["reactor_runtime.engine.session_host"]["traceback"]


async def test_a_model_that_can_not_load_ends_the_front_with_the_reason(project: Path) -> None:
    with pytest.raises(LoadError, match=r"3 workers .* the last one: .*load\(\) failed: OSError: disk on fire"):
        async with running_front(project, config={"fail": True}):
            pass
