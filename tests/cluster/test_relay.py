"""One relay between a client and a worker: how it ends, and what it passes on."""

from __future__ import annotations

import asyncio
import json
import math
import os
from http import HTTPStatus

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from reactor_runtime.cluster.front.relay import Failure, Relay, RelayEnd
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.options import ClientOptions
from reactor_runtime.server.encoding.encoded import MediaFile
from reactor_runtime.server.encoding.encodings import ENCODINGS
from reactor_runtime.server.workers.engine import EnginePhase
from reactor_runtime.wire.codec import decode_text
from reactor_runtime.wire.containers import CONTAINERS, MP4, attach
from reactor_runtime.wire.fragmented_mp4 import VideoMessage, write_message
from reactor_runtime.wire.media_header import MediaHeader
from reactor_runtime.wire.messages import View
from reactor_runtime.wire.protocol import CloseCode
from tests.cluster.test_worker_socket import worker
from tests.fakes import FakeClock
from tests.server.admission_fixture import AdmissionFixture, phases, told
from tests.server.client import picture
from tests.server.encoding.png_encoding import PNG
from tests.timeouts import TIMEOUT_S


def new_client() -> Client:
    return Client(Role.CONTROLLER, "127.0.0.1", ClientOptions(FakeClock()))


async def end_of(url: str) -> RelayEnd:
    """Return how the relay of a new client has ended."""
    ended = asyncio.get_running_loop().create_future()
    Relay(new_client(), url, ended.set_result)
    return await asyncio.wait_for(ended, TIMEOUT_S)


async def waiting(connection: ServerConnection) -> None:
    await connection.wait_closed()


@pytest.mark.parametrize(
    ("code", "closed"), [(1001, CloseCode.SERVER_STOPPING), (1012, CloseCode.SESSION_OVER), (4999, 1000)]
)
async def test_a_close_of_the_worker_is_passed_on_and_an_unknown_code_is_the_end_of_the_session(
    code: int, closed: CloseCode
) -> None:
    async def handle(connection: ServerConnection) -> None:
        await connection.close(code, "because")

    async with worker(handle) as url:
        assert await end_of(url) == RelayEnd(closed, "because")


async def test_a_connection_that_breaks_is_no_close() -> None:
    async def handle(connection: ServerConnection) -> None:
        connection.transport.abort()

    async with worker(handle) as url:
        assert (await end_of(url)).failure is Failure.BROKEN


async def test_a_worker_that_refuses_a_client_can_be_reached() -> None:
    def refuse(connection: ServerConnection, _: Request) -> Response:
        return connection.respond(HTTPStatus.UNAUTHORIZED, "the ticket has expired\n")

    async def handle(_: ServerConnection) -> None: ...

    async with worker(handle, refuse) as url:
        expected = RelayEnd(CloseCode.FULL, "the worker refused the connection: the ticket has expired")
        assert await end_of(url) == expected
    assert (await end_of(url)).failure is Failure.UNREACHED


async def test_the_view_of_a_client_is_sent_first_and_what_it_changes_is_kept() -> None:
    arrived: asyncio.Queue[str | bytes] = asyncio.Queue()

    async def handle(connection: ServerConnection) -> None:
        async for message in connection:
            arrived.put_nowait(message)

    client = new_client()
    async with worker(handle) as url:
        client.outbox.set_view(View(max_fps=math.inf, tracks=("a",), codecs=("jpeg",)))
        relay = Relay(client, url, lambda _: None)
        sent = '{"type": "reactor.view", "data": {"paused": true, "max_fps": 5}}'
        relay.pass_on(sent.encode(), is_text=True)
        first, second = [await asyncio.wait_for(arrived.get(), TIMEOUT_S) for _ in range(2)]
    assert isinstance(first, str)
    assert decode_text(first) == View(tracks=("a",), codecs=("jpeg",))
    assert second == sent
    assert client.outbox.view == View(paused=True, max_fps=5.0, codecs=("jpeg",))


@pytest.mark.parametrize("first", [b"RIFF" + bytes(3 << 20), picture(1)], ids=["in sum", "in place of a small one"])
async def test_what_does_not_fit_ends_the_relay_of_this_client_alone(first: bytes) -> None:
    ends: list[RelayEnd] = []
    async with worker(waiting) as url:
        relay = Relay(new_client(), url, ends.append)
        relay.pass_on(first, is_text=False)
        assert not ends
        relay.pass_on(picture(2) + bytes(4 << 20), is_text=False)
    assert [(end.code, end.failure) for end in ends] == [(CloseCode.FULL, None)]


async def test_how_loading_goes_is_sent_by_the_worker_of_a_relayed_client() -> None:
    services = AdmissionFixture()
    relayed, viewer = services.come(Role.VIEWER), services.come(Role.VIEWER)
    await told(relayed), await told(viewer)
    async with worker(waiting) as url:
        relay = Relay(relayed, url, lambda _: None)
        services.engine.phase = EnginePhase.LOADING
        services.admission.send_loading()
        assert (await phases(relayed), await phases(viewer)) == ([], ["loading"])
        relay.close()
    os.close(services.memory)


async def test_many_small_messages_end_the_relay_too() -> None:
    ends: list[RelayEnd] = []
    relay = Relay(new_client(), "ws://127.0.0.1:1/ws", ends.append)
    for _ in range(50_000):
        if not ends:
            relay.pass_on(b"{}", is_text=True)
    assert [(end.code, end.failure) for end in ends] == [(CloseCode.FULL, None)]


async def test_a_newer_frame_replaces_an_older_one_of_its_track_in_its_place() -> None:
    def frame(seq: int, track: str) -> bytes:
        return attach(MediaHeader(track, seq, 0, 0), picture(1))

    arrived: asyncio.Queue[str | bytes] = asyncio.Queue()

    async def handle(connection: ServerConnection) -> None:
        async for message in connection:
            arrived.put_nowait(message)

    async with worker(handle) as url:
        relay = Relay(new_client(), url, lambda _: None)
        for message in (picture(1), frame(1, "a"), frame(2, "b"), frame(3, "a"), picture(2), b"RIFF", b"RIFF"):
            relay.pass_on(message, is_text=False)
        expected = [picture(2), frame(3, "a"), frame(2, "b"), b"RIFF", b"RIFF"]
        assert [await asyncio.wait_for(arrived.get(), TIMEOUT_S) for _ in expected] == expected


UNKNOWN = {
    "a piece of a video stream": b"\0\0\0\x18ftypiso5" + bytes(100),
    "another piece": b"\0\0\0\x20uuidREACTOR\0" + bytes(100),
    "an image without a header": picture(1),
    "sound without a header": b"RIFF\x24\0\0\0WAVE" + bytes(100),
    "half a header": attach(MediaHeader("a", 1, 0, 0), picture(1))[:20],
    "nothing": b"",
}


async def test_what_the_front_does_not_know_is_passed_on_in_order_and_never_replaced() -> None:
    files = [file for file in UNKNOWN.values() for _ in range(3)]
    frames = [attach(MediaHeader("a", seq, 0, 0), picture(seq)) for seq in (1, 2)]
    arrived: asyncio.Queue[str | bytes] = asyncio.Queue()

    async def handle(connection: ServerConnection) -> None:
        for file in (*files, *frames):
            await connection.send(file)
        await connection.send("{}")
        async for message in connection:
            arrived.put_nowait(message)

    client = new_client()
    async with worker(handle) as url:
        queued = asyncio.Event()
        client.outbox.notify_queued(queued.set)
        relay = Relay(client, url, lambda _: None)
        for file in UNKNOWN.values():
            relay.pass_on(file, is_text=False)
        received: list[str | bytes] = []
        while "{}" not in received:
            await asyncio.wait_for(queued.wait(), TIMEOUT_S)
            queued.clear()
            if client.outbox.counters.offered < len(frames):
                continue
            while (item := client.outbox.take_next()[0]) is not None:
                received.append(item.data if isinstance(item, MediaFile) else item)
        assert received == [*files, frames[-1], "{}"]
        sent = [await asyncio.wait_for(arrived.get(), TIMEOUT_S) for _ in UNKNOWN]
        # An image without a header is a frame of the first track of a model.
        assert sent == list(UNKNOWN.values())


async def test_a_relayed_client_takes_no_video_streams_and_what_is_no_frame_passes_unchanged() -> None:
    """The worker gets a view that says why."""
    piece = write_message(VideoMessage(None, b"sample"), 1, 2, 3)
    binary = [MP4.attach(MediaHeader("a", seq, 0, 0), piece) for seq in (1, 2)]
    arrived: asyncio.Queue[str | bytes] = asyncio.Queue()

    async def handle(connection: ServerConnection) -> None:
        for file in binary:
            await connection.send(file)
        await connection.send("{}")
        async for message in connection:
            arrived.put_nowait(message)

    client = Client(Role.CONTROLLER, "127.0.0.1", ClientOptions(FakeClock()))
    client.outbox.set_view(View(codecs=("h264", "jpeg")))
    async with worker(handle) as url:
        queued = asyncio.Event()
        client.outbox.notify_queued(queued.set)
        relay = Relay(client, url, lambda _: None)
        view = {"type": "reactor.view", "data": {"max_fps": 5, "codecs": ["h264"]}}
        relay.pass_on(json.dumps(view).encode(), is_text=True)
        received: list[object] = []
        while "{}" not in received:
            await asyncio.wait_for(queued.wait(), TIMEOUT_S)
            queued.clear()
            while (item := client.outbox.take_next()[0]) is not None:
                received.append(item)
        assert received == [*binary, "{}"]
        sent = [json.loads(await asyncio.wait_for(arrived.get(), TIMEOUT_S)) for _ in range(2)]
    assert [message["data"]["codecs"] for message in sent] == [["jpeg", "relayed"], ["relayed"]]
    client.outbox.set_view(View(codecs=("relayed",)))
    assert client.statistics(0.0)["why"] == "relayed"


async def test_frames_of_another_encoding_are_relayed_as_frames() -> None:
    """The newest replaces those before it, and an acknowledgement is sent for a client that sends none."""
    pixels = np.random.default_rng(5).integers(0, 256, (16, 24, 3), np.uint8)
    frames = [PNG.container.attach(MediaHeader("a", seq, 0, 0), PNG.encode(pixels, 0)) for seq in (1, 2)]
    arrived: asyncio.Queue[str | bytes] = asyncio.Queue()

    async def handle(connection: ServerConnection) -> None:
        for file in frames:
            await connection.send(file)
        await connection.send("{}")
        async for message in connection:
            arrived.put_nowait(message)

    client = Client(Role.CONTROLLER, "127.0.0.1", ClientOptions(FakeClock(), encodings=(*ENCODINGS, PNG)))
    client.outbox.set_view(View(codecs=("png",)))
    async with worker(handle) as url:
        queued = asyncio.Event()
        client.outbox.notify_queued(queued.set)
        relay = Relay(client, url, lambda _: None, containers=(*CONTAINERS, PNG.container))
        received: list[str | MediaFile] = []
        while "{}" not in received:
            await asyncio.wait_for(queued.wait(), TIMEOUT_S)
            queued.clear()
            if client.outbox.counters.offered < len(frames):
                continue
            while (item := client.outbox.take_next()[0]) is not None:
                assert not isinstance(item, bytes)
                received.append(item)
        file, end = received
        assert isinstance(file, MediaFile)
        assert (file.data, end) == (frames[1], "{}")
        relay.on_media_sent(file.header)
        sent = [await asyncio.wait_for(arrived.get(), TIMEOUT_S) for _ in range(2)]
    assert [json.loads(message) for message in sent] == [
        {"type": "reactor.view", "data": {"paused": False, "codecs": ["png"]}},
        {"type": "reactor.ack", "data": {"track": "a", "seq": 2}},
    ]


async def test_a_client_whose_relay_fails_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def handle(connection: ServerConnection) -> None:
        await connection.close(1000, "")

    def fail(_: RelayEnd) -> None:
        raise ValueError("no such session")

    client = new_client()
    async with worker(handle) as url:
        closing = asyncio.Event()
        client.outbox.notify_queued(closing.set)
        Relay(client, url, fail)
        await asyncio.wait_for(closing.wait(), TIMEOUT_S)
    assert client.closing is not None
    assert client.closing.code == CloseCode.MODEL_FAILED
    assert "no such session" in caplog.text
