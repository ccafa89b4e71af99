"""H.264 from a real server in the Python client, and its file."""

from __future__ import annotations

import asyncio
import itertools
import math
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import av
import pytest

from reactor_runtime.client import Frame, Session, connect
from tests.cli.command import running_reactor
from tests.server.running import RunningServer, serving, write_project
from tests.timeouts import TIMEOUT_S
from tests.video import number_in, numbering_model

BASELINE = 66

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = write_project(tmp_path_factory.mktemp("video"), numbering_model())
    with serving(project, "--codec", "always") as server:
        yield server


@pytest.fixture
def url(served: RunningServer) -> str:
    served.wait_for_health("ready")
    return f"http://127.0.0.1:{served.port}"


async def pieces(session: Session, count: int) -> list[Frame]:
    """Return the next frames that come as video."""
    found: list[Frame] = []
    async with asyncio.timeout(TIMEOUT_S):
        async for frame in session.frames():
            if frame.number is not None:
                found.append(frame)
            if len(found) == count:
                break
    return found


def check_numbers(frames: list[Frame]) -> None:
    """Check the numbers in the pixels; the server may have had too few bits for a key on a busy machine."""
    legible = [frame for frame in frames if number_in(frame.array) >= 0]
    assert [number_in(frame.array) for frame in legible] == [frame.seq for frame in legible]
    assert len(legible) > len(frames) // 2


async def test_every_frame_of_video_shows_its_number(url: str) -> None:
    async with connect(url) as session:
        frames = await pieces(session, 40)
        check_numbers(frames)
        async with asyncio.timeout(TIMEOUT_S):
            while session.stats.get("codec") != "h264":
                await session.connection.streams.changed.wait()


async def test_a_requested_stream_begins_after_jpegs(url: str) -> None:
    async with connect(url) as session, asyncio.timeout(TIMEOUT_S):
        await pieces(session, 1)
        session.request_key("main_video")
        async for frame in session.frames():
            if frame.number is None:
                break
            # If the last key was a second ago, the next frame is one, and no JPEG comes.
            session.request_key("main_video")
        check_numbers(await pieces(session, 10))


async def test_a_view_with_a_lower_rate_gets_video_that_can_be_decoded(url: str) -> None:
    async with connect(url) as session:
        session.view(max_fps=10)
        check_numbers(await pieces(session, 10))


def sent_as_video(server: RunningServer) -> int:
    """Return how many frames the server has sent as video to all its clients."""
    counter = r'^reactor_frames_sent_total\{encoding="h264".*\} (\d+)'
    return sum(map(int, re.findall(counter, server.get("/metrics")[1], re.MULTILINE)))


def test_connect_saves_video_as_it_came(served: RunningServer, url: str, tmp_path: Path) -> None:
    before = sent_as_video(served)
    with running_reactor("connect", url, "--save", "out.mp4", cwd=tmp_path, PATH="/nowhere") as process:
        served.until(lambda: sent_as_video(served) > before + 30, "video")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, "saved to out.mp4" in err) == (0, True)
    with av.open(str(tmp_path / "out.mp4")) as file:
        # The profiles in the parameter sets of the keys: frames that came as JPEGs have another.
        keys = [packet for packet in file.demux(video=0) if packet.is_keyframe and bytes(packet)[5] == BASELINE]
        keys_pts = [packet.pts or 0 for packet in keys]
    assert keys_pts
    with av.open(str(tmp_path / "out.mp4")) as file:
        shown = [(frame.pts or 0, number_in(frame.to_ndarray(format="rgb24"))) for frame in file.decode(video=0)]
    legible = [(pts, number) for pts, number in shown if number >= 0]
    assert len(legible) > 10
    # The first pieces from a key on may show frames that came as JPEGs, while the key was encoded.
    for begins, ends in itertools.pairwise([0, *keys_pts, math.inf]):
        numbers = [number for pts, number in legible if begins <= pts < ends]
        assert numbers == sorted(numbers)
