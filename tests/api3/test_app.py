"""Programs whose steps are those of a `ReactorApp`, served as a folder and driven by a bare WebSocket client."""

from __future__ import annotations

import http.client
import io
import itertools
import json
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from PIL import Image

from tests.cli.command import reactor
from tests.cluster.front import Front
from tests.server.client import Frame, WireClient, client, controlling, picture
from tests.server.running import RunningServer, serving, started
from tests.timeouts import TIMEOUT_S

HERE = Path(__file__).parent


def copied(name: str, to: Path) -> Path:
    """Copy a project, which a server writes its log into."""
    return shutil.copytree(HERE / name, to / name, ignore=shutil.ignore_patterns("__pycache__"))


@pytest.fixture(scope="module")
def seed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = copied("seed_app", tmp_path_factory.mktemp("seed"))
    # Each client has a session of its own.
    with serving(project, "--log-level", "debug", "--resume-grace", "0") as server:
        yield server


def upload(server: RunningServer | Front, controller: WireClient, content: bytes, name: str) -> dict[str, str]:
    (welcome,) = [text["data"] for text in controller.texts if text["type"] == "reactor.welcome"]
    query = urlencode({"key": welcome["upload_key"], "name": name})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
    connection.request("POST", f"/uploads?{query}", content, {"Content-Type": "image/png"})
    answer = connection.getresponse().read()
    connection.close()
    id: str = json.loads(answer)["upload"]
    return {"upload": id}


def png(level: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (64, 64), (level, level, level)).save(file, "PNG")
    return file.getvalue()


async def begin(server: RunningServer, controller: WireClient) -> int:
    """Send the seed image; return the number of the event."""
    image = upload(server, controller, png(40), "seed.png")
    answer = await controller.ask("set_seed_image", {"image": image}, id="seed")
    assert answer["data"]["message"] == {"type": "state_update", "data": {"has_seed": True, "paused": False}}
    n: int = answer["data"]["n"]
    return n


async def shown(controller: WireClient, level: int, *, applied: int = 0) -> Frame:
    while abs((frame := await controller.frame(applied=applied)).level - level) > 4:
        pass
    return frame


async def test_no_step_is_made_before_the_seed_image(seed: RunningServer) -> None:
    seed.wait_for_health("ready")
    async with controlling(seed.url) as controller:
        answer = await controller.ask("set_level", {"level": 5})
        assert answer["type"] == "reactor.reply"
        seed.wait_for(r"the model skips steps id=\S+: waiting for a seed image")
        assert controller.frames == 0
        n = await begin(seed, controller)
        frame = await controller.frame()
        assert (frame.header.seq, frame.header.applied, frame.size) == (0, n, (48, 32))
        assert abs(frame.level - 45) <= 4


async def test_a_file_that_is_no_image_is_answered_with_the_error_of_the_program(seed: RunningServer) -> None:
    seed.wait_for_health("ready")
    async with controlling(seed.url) as controller:
        image = upload(seed, controller, b"no image", "seed.png")
        answer = await controller.ask("set_seed_image", {"image": image})
        assert answer["type"] == "reactor.error"
        assert answer["data"]["code"] == "bad_image"
        assert answer["data"]["message"] == "seed.png is no image"


async def test_messages_of_a_step_come_before_its_frame(seed: RunningServer) -> None:
    seed.wait_for_health("ready")
    async with controlling(seed.url) as controller:
        await begin(seed, controller)
        for _ in range(20):
            frame = await controller.frame()
            # A client may skip frames; a frame never comes before its message.
            numbers = [text["data"]["number"] for text in controller.texts if text["type"] == "step_done"]
            assert numbers == list(range(1, len(numbers) + 1))
            assert frame.header.seq < len(numbers)


async def test_a_paused_program_makes_no_frame_until_it_continues(seed: RunningServer) -> None:
    seed.wait_for_health("ready")
    async with controlling(seed.url) as controller:
        await begin(seed, controller)
        paused = await controller.ask("set_paused", {"paused": True})
        seed.wait_for(r"the model skips steps id=\S+: paused")
        changed = await controller.ask("set_level", {"level": 60})
        continued = await controller.ask("set_paused", {"paused": False})
        assert [answer["data"]["n"] for answer in (paused, changed, continued)] == [2, 3, 4]
        frame = await controller.frame(applied=2)
        assert frame.header.applied == 4
        assert abs(frame.level - 100) <= 4


async def test_an_exception_that_the_program_handles_ends_nothing(seed: RunningServer) -> None:
    seed.wait_for_health("ready")
    async with controlling(seed.url) as controller:
        await begin(seed, controller)
        await controller.ask("fail", {"where": "handled"})
        await controller.message("step_done", number=-1)
        await controller.frame(applied=2)


async def test_a_wrong_input_ends_the_session_with_the_line_and_the_next_client_is_served(seed: RunningServer) -> None:
    seed.wait_for_health("ready")
    engine = seed.engine
    async with controlling(seed.url) as controller:
        await begin(seed, controller)
        await controller.send("fail", {"where": "input"})
        code, reason = await controller.closed()
        assert code == 1011
        assert "RuntimeError: the input is wrong" in reason
    seed.wait_for(r"seed_app\.py:\d+")
    async with controlling(seed.url) as controller:
        await begin(seed, controller)
        await controller.frame()
    assert seed.engine == engine


async def test_a_crash_of_process_output_starts_the_engine_again(tmp_path: Path) -> None:
    with serving(copied("seed_app", tmp_path)) as server:
        engine = server.engine
        async with controlling(server.url) as controller, client(server.url, role="viewer") as viewer:
            await begin(server, controller)
            await controller.frame()
            await controller.send("fail", {"where": "output"})
            for each in (controller, viewer):
                error = await each.data("reactor.error", code="model_error")
                assert "MemoryError: out of memory" in error["message"]
            code, reason = await controller.closed()
            assert (code, "MemoryError" in reason) == (1011, True)
            server.wait_for(r"seed_app\.py:\d+")
            await viewer.data("reactor.session", phase="loading")
            async with controlling(server.url) as next_controller:
                await begin(server, next_controller)
                await next_controller.frame()
        assert server.engine != engine


async def test_a_client_that_comes_back_continues_the_session(tmp_path: Path) -> None:
    with serving(copied("seed_app", tmp_path)) as server:
        async with controlling(server.url) as controller:
            await begin(server, controller)
            await controller.ask("set_level", {"level": 80})
            await shown(controller, 120)
            secret = controller.texts[0]["data"]["resume"]
        async with client(server.url, resume=secret) as controller:
            await shown(controller, 120)
            number = (await controller.message("step_done"))["data"]["number"]
            assert number > 1


# Programs whose step waits for a frame.
READING = """
from reactor_runtime import *

class Cameras(Input):
    camera: Video

class Shown(Output):
    main_video: Video

class Snapshot(ModelMessage):
    clients: int

class Nothing(InputState):
    pass

class Hooks:
    joined = 0

    @connected
    async def on_connected(self, client):
        self.joined += 1
        await client.send(Snapshot(clients=self.joined))
"""
READING_APP = (
    READING
    + """
class MyModel(Hooks, ReactorApp):
    cameras: Cameras

    async def process_input(self):
        return (await self.cameras.camera.read())[0]

    def generate(self, input):
        return Shown(main_video=255 - input)
"""
)
READING_PIPELINE = (
    READING
    + """
class MyModel(Hooks, ReactorPipeline):
    state: Nothing
    cameras: Cameras

    @session_started
    def on_start(self):
        pass

    async def inference(self):
        while True:
            [frame] = await self.cameras.camera.read()
            yield Shown(main_video=255 - frame)
"""
)


@pytest.mark.parametrize("model", [READING_APP, READING_PIPELINE], ids=["app", "pipeline"])
async def test_a_client_is_greeted_though_the_step_waited_for_a_frame_of_the_last_one(
    model: str, tmp_path: Path
) -> None:
    (tmp_path / "reactor.yaml").write_text("runtime: {import: 'reading:MyModel'}\n")
    (tmp_path / "reading.py").write_text(model)
    with serving(tmp_path) as server:
        for number in (1, 2, 3):
            async with controlling(server.url) as controller:
                assert await controller.data("snapshot") == {"clients": number}
                await controller.socket.send(picture(100))
                assert abs((await controller.frame()).level - 155) <= 4


# Three cameras


def camera_frame(track: str, level: int) -> bytes:
    """Make a JPEG for a track, with the header of a client."""
    name = track.encode()
    fields = struct.pack(">BBIQQIB", 1, 0, 0, 0, 0, 0, len(name)) + name
    segment = b"\xff\xef" + struct.pack(">H", 2 + 8 + len(fields)) + b"REACTOR\0" + fields
    jpeg = picture(level)
    return jpeg[:2] + segment + jpeg[2:]


async def test_a_step_takes_one_frame_of_each_of_three_cameras(tmp_path: Path) -> None:
    with started(copied("camera_app", tmp_path), "--sessions", "2") as server:
        server.wait_for("ready 2 of 2")
        async with controlling(server.url) as first, controlling(server.url) as second:
            for controller, base in ((first, 40), (second, 140)):
                for number, track in enumerate(("left", "right")):
                    await controller.socket.send(camera_frame(track, base + 30 * number))
                await controller.send("reactor.ping", {"t": 1})
                await controller.data("reactor.pong")
                assert controller.frames == 0
                await controller.socket.send(camera_frame("wrist", base + 60))
                frame = await controller.frame()
                assert (frame.size, frame.header.seq) == ((3 * 48, 32), 0)
                with Image.open(io.BytesIO(frame.data)) as image:
                    levels = [image.convert("L").getpixel((24 + 48 * idx, 16)) for idx in range(3)]
                assert levels == pytest.approx([base, base + 30, base + 60], abs=4)


# Sound only


async def test_sound_alone_is_paced_by_its_own_length(tmp_path: Path) -> None:
    with serving(copied("voice_app", tmp_path)) as server:
        async with controlling(server.url) as controller:
            pieces = [await controller.sound() for _ in range(10)]
    assert [piece.header.seq for piece in pieces] == list(range(10))
    assert {(piece.samples, piece.sample_rate, piece.channels) for piece in pieces} == {(1920, 24_000, 1)}
    gaps = [second.header.pts_us - first.header.pts_us for first, second in itertools.pairwise(pieces)]
    # 1920 samples last 80 ms: 12.5 pieces in a second. A busy machine may stall, after which sound starts again.
    assert min(gaps) == pytest.approx(80_000, abs=2)


# Chunks


async def test_all_frames_of_a_chunk_come_at_the_rate_that_load_has_set(tmp_path: Path) -> None:
    with serving(copied("chunk_app", tmp_path)) as server:
        async with controlling(server.url) as controller:
            frames = [await controller.frame() for _ in range(40)]
    seqs = [frame.header.seq for frame in frames]
    assert seqs == sorted(set(seqs))
    times = {frame.header.seq: frame.header.pts_us for frame in frames[1:]}
    gaps = {
        (after - before) / (times_after - times_before)
        for (times_before, before), (times_after, after) in itertools.pairwise(times.items())
    }
    # A rate of 120: no gap between two chunks, even though the buffer has room for one frame.
    assert min(gaps) == pytest.approx(1e6 / 120, abs=2)


# Hot reload


async def test_a_session_outlives_a_failed_step_and_continues_with_new_code(tmp_path: Path) -> None:
    project = copied("chunk_app", tmp_path)
    file = project / "chunk_app.py"
    good = file.read_text()
    with serving(project, "--reload") as server:
        engine = server.engine
        async with controlling(server.url) as controller:
            await controller.ask("set_level", {"level": 90})
            await shown(controller, 90, applied=1)
            replace(file, good.replace("chunk, level = input", "chunk, level = 1 / 0, 0"))
            failed = await controller.data("reactor.reload", status="failed")
            assert "ZeroDivisionError" in failed["error"]["message"]
            line = 1 + good[: good.index("chunk, level = input")].count("\n")
            assert failed["error"]["line"] == line
            await shown(controller, 90)
            replace(file, good.replace("[level, chunk", "[level + 100, chunk"))
            await controller.data("reactor.reload", status="applied")
            await shown(controller, 190)
        assert server.engine == engine


def replace(file: Path, text: str) -> None:
    """Replace a file as editors do: its name never has half a file."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


# Without a client


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("seed_app", "the model skips its steps: waiting for a seed image"),
        ("camera_app", "view: 1920x480, uint8"),
        ("voice_app", "voice: 0.08 s of sound, mono, int16"),
        ("chunk_app", "main_video: 12 frames of 48x32, uint8"),
    ],
)
def test_check_shows_the_first_step(name: str, shown: str, tmp_path: Path) -> None:
    outcome = reactor("check", "--step", str(copied(name, tmp_path)), cwd=tmp_path)
    assert outcome.code == 0, outcome
    assert shown in outcome.out + outcome.err


async def test_a_viewer_sees_what_the_controller_makes(seed: RunningServer) -> None:
    seed.wait_for_health("ready")
    async with controlling(seed.url) as controller, client(seed.url, role="viewer") as viewer:
        n = await begin(seed, controller)
        assert (await shown(viewer, 40)).header.applied == n


def test_a_rendering_without_a_frame_names_the_refusal(tmp_path: Path) -> None:
    outcome = reactor("render", str(copied("seed_app", tmp_path)), "--seconds", "0.5", "--out", "frames/", cwd=tmp_path)
    assert outcome.code == 1
    assert "the model showed nothing in 0.5 s of its time: it skips its steps: waiting for a seed image" in outcome.err
