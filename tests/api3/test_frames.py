"""Metadata and times of frames, out and in; a bare WebSocket client writes and reads their segment by the protocol."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import shutil
import struct
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reactor_runtime.client import connect
from reactor_runtime.recording.file import read_recording
from reactor_runtime.testing import Studio
from tests.api3.posed_program.posed import World
from tests.cli.command import reactor
from tests.cluster.front import running_front
from tests.server.client import WireClient, client, controlling, picture
from tests.server.running import RunningServer, listening, serving
from tests.timeouts import TIMEOUT_S

HERE = Path(__file__).parent
MS = 1000
NOW_US = 1_795_000_000_000_000


def copied(name: str, to: Path) -> Path:
    """Copy a project, which a server writes its log into."""
    return shutil.copytree(HERE / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(copied("robot_program", tmp_path_factory.mktemp("robot")), "--resume-grace", "20") as server:
        yield server


@pytest.fixture(scope="module")
def posed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with serving(copied("posed_program", tmp_path_factory.mktemp("posed"))) as server:
        yield server


def with_segment(track: str, image: bytes, *, pts_us: int = 0, captured_us: int = 0, metadata: bytes = b"") -> bytes:
    """Insert the APP15 segment after the start marker of a JPEG, by the table of the protocol."""
    name = track.encode()
    length = 37 + len(name) + len(metadata)
    segment = (
        b"\xff\xef"
        + length.to_bytes(2, "big")
        + b"REACTOR\0"
        + bytes([1, 0])
        + (0).to_bytes(4, "big")
        + pts_us.to_bytes(8, "big")
        + captured_us.to_bytes(8, "big")
        + (0).to_bytes(4, "big")
        + bytes([len(name)])
        + name
        + metadata
    )
    assert image[:2] == b"\xff\xd8"
    return image[:2] + segment + image[2:]


def metadata_of(file: bytes) -> Any:
    """Return the metadata of a frame, read by the table of the protocol; None where there is none."""
    assert file[2:4] == b"\xff\xef"
    (length,) = struct.unpack_from(">H", file, 4)
    text = file[41 + file[40] : 4 + length]
    return json.loads(text) if text else None


async def shown(viewer: WireClient, count: int, track: str = "main_video") -> list[Any]:
    """Return the metadata of the next frames of a track, each once."""
    found: list[Any] = []
    while len(found) < count:
        frame = await viewer.frame(track=track)
        await viewer.send("reactor.ack", {"track": track, "seq": frame.header.seq})
        found.append(metadata_of(frame.data))
    return found


async def see(controller: WireClient, head_us: int, *, left: int, right: tuple[int, int]) -> None:
    """Send a frame of each camera, two of the right one, captured so many ms after that of the head."""
    for track, after_ms in (("left", left), ("right", right[0]), ("right", right[1]), ("head", 0)):
        captured_us = head_us + MS * after_ms
        metadata = json.dumps({"pose": [track, after_ms]}).encode()
        file = with_segment(track, picture(80), pts_us=captured_us - NOW_US, captured_us=captured_us, metadata=metadata)
        await controller.socket.send(file)


async def test_three_cameras_are_aligned_by_the_time_of_capture(robot: RunningServer) -> None:
    async with controlling(robot.url) as controller:
        await see(controller, NOW_US + 100 * MS, left=-3, right=(-40, 2))
        (found,) = await shown(controller, 1)
        assert found == {
            "times": [NOW_US + 100 * MS, NOW_US + 97 * MS, NOW_US + 102 * MS],
            "pts": [100 * MS, 97 * MS, 102 * MS],
            "poses": [["head", 0], ["left", -3], ["right", 2]],
        }
        # The late frame of the right camera belongs to the next one of the head.
        await see(controller, NOW_US + 60 * MS, left=8, right=(30, 50))
        (found,) = await shown(controller, 1)
        assert found["times"] == [NOW_US + 60 * MS, NOW_US + 68 * MS, NOW_US + 60 * MS]
        assert found["poses"] == [["head", 0], ["left", 8], ["right", -40]]


async def test_each_frame_of_a_chunk_has_its_metadata(robot: RunningServer) -> None:
    async with controlling(robot.url) as controller:
        await controller.send("set_chunk", {"chunk": 12})
        # The event is handled after this step, which waits for frames already.
        await see(controller, NOW_US, left=0, right=(0, 1))
        await shown(controller, 1)
        found: dict[int, Any] = {}
        # A slow client skips frames, but not the last one of a chunk.
        for last in itertools.count(12, 12):
            await see(controller, NOW_US, left=0, right=(0, 1))
            while last not in found:
                frame = await controller.frame()
                await controller.send("reactor.ack", {"track": "main_video", "seq": frame.header.seq})
                found[frame.header.seq] = metadata_of(frame.data)
            if any(each["action"] < 11 for each in found.values()):
                break
        assert all(each["action"] == (seq - 1) % 12 for seq, each in found.items())
        assert {tuple(each["times"]) for each in found.values()} == {(NOW_US, NOW_US, NOW_US)}


async def test_the_python_client_sends_and_reads_them(robot: RunningServer) -> None:
    image = np.zeros((32, 48, 3), np.uint8)
    async with asyncio.timeout(TIMEOUT_S), connect(robot.url) as session:
        await session.ready()
        sent = []
        for track in ("left", "right", "right", "head"):
            sent.append(await session.publish(track, image, metadata={"pose": track}, capture_time_us=NOW_US))
        assert sent == [True] * 4
        frame = await session.frame()
        assert frame.metadata is not None
        assert frame.metadata["times"] == [NOW_US] * 3
        assert frame.metadata["poses"] == ["head", "left", "right"]
        for track in ("left", "right", "right", "head"):
            await session.publish(track, image, metadata=json.dumps({"pose": [track]}).encode())
        async for frame in session.frames():
            assert frame.metadata is not None
            if frame.metadata["poses"] == [["head"], ["left"], ["right"]]:
                assert all(abs(time - frame.metadata["times"][0]) < 1e6 * TIMEOUT_S for time in frame.metadata["times"])
                break


async def test_metadata_in_its_largest_size_arrives_and_more_is_refused(robot: RunningServer) -> None:
    most = 65_498 - len("head")
    async with controlling(robot.url) as controller:
        padded = b'{"pose":"far"}' + b" " * (most - 14)
        assert len(padded) == most
        for track in ("left", "right", "right"):
            await controller.socket.send(with_segment(track, picture(80), captured_us=NOW_US))
        await controller.socket.send(with_segment("head", picture(80), captured_us=NOW_US, metadata=padded))
        (found,) = await shown(controller, 1)
        assert found["poses"] == ["far"]
        # A length that ends before the metadata: the rest is no JPEG.
        short = bytearray(with_segment("head", picture(80), metadata=b"{}"))
        short[4:6] = (20).to_bytes(2, "big")
        await controller.socket.send(bytes(short))
        error = await controller.data("reactor.error")
        assert (error["code"], error["message"]) == (
            "bad_media",
            "truncated reactor header: the binary message was dropped",
        )


async def test_frames_of_a_step_have_poses_for_controllers_viewers_snapshots_and_streams(posed: RunningServer) -> None:
    async with controlling(posed.url) as controller, client(posed.url, role="viewer") as viewer:
        for each in (controller, viewer):
            angles = [found["angle"] for found in await shown(each, 9)]
            assert angles == sorted(set(angles))
        (depth,) = await shown(controller, 1, "depth")
        assert int.from_bytes(base64.b64decode(depth["b"]), "big") % 4 == 0
        for path in ("/snapshot/main_video.jpg", "/stream/main_video.mjpg"):
            found = await asyncio.to_thread(first_image, posed, path)
            assert metadata_of(found)["angle"] > 0


def first_image(server: RunningServer, path: str) -> bytes:
    """Return the first JPEG of a response."""
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=TIMEOUT_S) as response:
        data = b""
        while data.find(b"\xff\xd9", data.find(b"\xff\xd8")) < 0:
            data += response.read1()
    return data[data.index(b"\xff\xd8") :]


async def test_a_client_that_resumes_gets_the_latest_frame_with_its_metadata(robot: RunningServer) -> None:
    async with client(robot.url) as controller:
        secret = (await controller.data("reactor.welcome"))["resume"]
        await see(controller, NOW_US, left=1, right=(2, 3))
        (found,) = await shown(controller, 1)
        controller.socket.transport.abort()
    async with client(robot.url, resume=secret) as controller:
        # The model has made no other since.
        frame = await controller.frame()
        assert (frame.header.flags & 2, metadata_of(frame.data)) == (2, found)


async def test_two_sessions_have_their_own_metadata(tmp_path: Path) -> None:
    with listening(copied("posed_program", tmp_path), "--sessions", "2") as server:
        server.wait_for("ready 2 of 2")
        async with controlling(server.url) as left, controlling(server.url) as right:
            answers = [await each.ask("set_turn", {"turn": turn}) for each, turn in ((left, -5), (right, 3))]
            for each, turn, answer in zip((left, right), (-5, 3), answers, strict=True):
                frames: list[tuple[int, int]] = []
                while len(frames) < 8:
                    frame = await each.frame(applied=answer["data"]["n"], track="main_video")
                    await each.send("reactor.ack", {"track": "main_video", "seq": frame.header.seq})
                    frames.append((frame.header.seq, metadata_of(frame.data)["angle"]))
                for (before, was), (seq, angle) in itertools.pairwise(frames):
                    assert angle - was == turn * (seq - before)
        server.stop()


async def test_a_front_relays_times_and_metadata_both_ways(tmp_path: Path) -> None:
    async with (
        running_front(copied("robot_program", tmp_path)) as front,
        controlling(front.url) as controller,
        client(front.url, role="viewer") as viewer,
    ):
        await see(controller, NOW_US, left=3, right=(7, 9))
        (found,) = await shown(controller, 1)
        assert found["times"] == [NOW_US, NOW_US + 3 * MS, NOW_US + 7 * MS]
        assert await shown(viewer, 1) == [found]


async def test_a_recording_has_what_clients_sent_and_what_the_model_sent_and_a_replay_gives_the_same(
    tmp_path: Path,
) -> None:
    project = copied("robot_program", tmp_path)
    with serving(project, "--record", str(tmp_path / "sessions")) as server:
        async with controlling(server.url) as controller:
            for number in range(3):
                await see(controller, NOW_US + MS * 100 + number, left=number, right=(-number, 2))
                await shown(controller, 1)
        server.wait_for("recorded the session")
    (file,) = (tmp_path / "sessions").glob("*.mcap")
    recording = read_recording(file)
    heads = [read.sent[0] for read in recording.reads if read.track == "head"]
    assert [each.capture_time_us for each in heads] == [NOW_US + 100 * MS + number for number in range(3)]
    assert base64.b64decode(heads[0].metadata or "") == b'{"pose": ["head", 0]}'
    (first,) = recording.outputs[0].metadata["main_video"]
    assert first is not None
    assert first["times"] == [NOW_US + 100 * MS] * 3
    outcome = reactor("replay", str(file), str(project), "--diff", str(tmp_path / "diff.html"), cwd=tmp_path)
    assert outcome.code == 0, outcome.err
    source = (project / "robot.py").read_text()
    (project / "robot.py").write_text(source.replace('"pts": [', '"points": ['))
    changed = reactor("replay", str(file), str(project), cwd=tmp_path)
    assert changed.code == 1
    assert "the metadata of frame 0 of main_video is" in changed.out + changed.err


def test_render_ignores_metadata(tmp_path: Path) -> None:
    project = str(copied("posed_program", tmp_path))
    outcome = reactor("render", project, "--out", "film.mp4", "--seconds", "1", cwd=tmp_path)
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "film.mp4").stat().st_size > 0


def test_check_and_a_studio_make_steps_with_metadata(tmp_path: Path) -> None:
    outcome = reactor("check", str(copied("posed_program", tmp_path)), "--step", cwd=tmp_path)
    assert outcome.code == 0, outcome.err
    with Studio(World) as studio:
        studio.connect()
        studio.run(0.5)
        frames = [frame.metadata for frame in studio.frames if frame.track == "main_video"]
        assert frames[:3] == [{"angle": 1}, {"angle": 2}, {"angle": 3}]
        assert studio.frames[1].metadata == {"b": base64.b64encode((4).to_bytes(4, "big")).decode()}
