"""H.264 beside JPEG: bytes and CPU time at the same likeness, and the stream behind a slow link."""

from __future__ import annotations

import asyncio
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.link import Link, linked
from benchmarks.serving import MODEL, run, serving
from reactor_runtime.media import jpeg
from reactor_runtime.media.quality import ssim
from reactor_runtime.server.encoding.h264_encoding import H264
from reactor_runtime.wire.containers import MP4, required_container_of
from reactor_runtime.wire.fragmented_mp4 import read_message
from reactor_runtime.wire.media_header import MediaHeader

Row = tuple[str, str, str]
Images = NDArray[np.uint8]

WIDTH, HEIGHT, FPS = 1280, 720, 30
FRAMES = 60
# Of these SSIM is computed.
EVERY = 10
SEARCHES = 7
QUALITY = 85
SECONDS, SETTLED_S = 20.0, 5.0
LINK = Link(10, 0.04)
FALLING = Link(10, 0.04, then_mbit=3, change_every_s=10)
NARROW = Link(2.5, 0.04)


def video() -> Iterator[Row]:
    """Measure bytes and CPU time over those of JPEG q85 at its SSIM, and age and rate behind a link of 10 Mbit/s."""
    for name, make, most_bytes, most_cpu in CONTENTS:
        share, cpu = _beside_jpeg(make())
        yield f"H.264 720p, {name}: bytes over JPEG q{QUALITY} at its SSIM", f"{share:.3f}", f"at most {most_bytes}"
        yield "  CPU of conversion and encoding over JPEG's", f"{cpu:.1f}", f"at most {most_cpu}"
    for codecs in ([], ["h264"]):
        name = "H.264" if codecs else "JPEG"
        with serving(MODEL, fps=FPS) as port, linked(port, LINK) as through:
            painted = run(_watch(through, codecs))
        bound = "at most 90 ms, at least 29 fps" if codecs else ""
        yield f"{name} on 10 Mbit/s, 40 ms: age p50, p99, rate", painted.summary, bound
    with serving(MODEL, fps=FPS) as port, linked(port, FALLING) as through:
        painted = run(_watch(through, ["h264"]))
    late = sorted(age_ms for at, age_ms in painted.ages if 10 <= at < 14)
    yield "  link falls to 30 %: age p99 of the 4 s after", f"{late[int(0.99 * len(late))]:.0f} ms", "at most 250 ms"
    with serving(MODEL, fps=60, width=640, height=360) as port, linked(port, NARROW) as through:
        painted = run(_watch(through, ["h264"], most_fps=15))
    bound = "at most 230 ms, at least 14.5 fps"
    yield "H.264 360p60 on 2.5 Mbit/s, paints 15: age p50, p99, rate", painted.summary, bound


def _beside_jpeg(frames: list[Images]) -> tuple[float, float]:
    """Return bytes and CPU time of H.264 over those of JPEG, at the rate at which both are equally like the frames."""
    files, jpeg_s = [], []
    for frame in frames:
        began = time.process_time()
        files.append(jpeg.encode(frame, quality=QUALITY))
        jpeg_s.append(time.process_time() - began)
    goal = statistics.mean(ssim(frames[n], jpeg.decode(files[n])) for n in range(EVERY, FRAMES, EVERY))
    jpeg_bytes = statistics.mean(map(len, files))
    low, high = 4_000.0, 8 * jpeg_bytes
    for _ in range(SEARCHES):
        bits = (low * high) ** 0.5
        size, likeness, video_s = _encoded(frames, round(bits))
        low, high = (low, bits) if likeness >= goal else (bits, high)
    size, _, video_s = _encoded(frames, round(high))
    return size / jpeg_bytes, video_s / statistics.median(jpeg_s)


def _encoded(frames: list[Images], bits: int) -> tuple[float, float, float]:
    """Return bytes of a frame, SSIM and seconds of CPU of a frame, after the first ten."""
    encoder, decoder = H264.open(1), av.CodecContext.create("h264", "r")
    sizes, likenesses, spent_s = [], [], []
    for number, frame in enumerate(frames):
        began = time.process_time()
        header = MediaHeader("main_video", number, number * 1_000_000 // FPS, 0)
        data = encoder.encode(frame, header, 1 / FPS, bits=bits, key=number == 0)
        spent_s.append(time.process_time() - began)
        sizes.append(len(data))
        message = read_message(data)
        if message.config is not None:
            decoder.extradata = message.config.avcc
        (decoded,) = decoder.decode(av.Packet(message.sample))
        if number and number % EVERY == 0:
            likenesses.append(ssim(frame, decoded.to_ndarray(format="rgb24").astype(np.uint8, copy=False)))
    return statistics.mean(sizes[EVERY:]), statistics.mean(likenesses), statistics.median(spent_s[EVERY:])


@dataclass
class _Painted:
    """The frames that a client decoded: when, how old, and how large."""

    ages: list[tuple[float, float]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    @property
    def summary(self) -> str:
        ages = sorted(age_ms for at, age_ms in self.ages if at > SETTLED_S)
        fps = len(ages) / (SECONDS - SETTLED_S)
        return f"{ages[len(ages) // 2]:.0f} {ages[int(0.99 * len(ages))]:.0f} ms {fps:.1f} fps {self.names[-1]}"


async def _watch(port: int, codecs: list[str], *, most_fps: float = math.inf) -> _Painted:
    """Decode and acknowledge each frame as it comes, at most so many a second."""
    painted, decoder = _Painted(), av.CodecContext.create("h264", "r")
    async with connect(f"ws://127.0.0.1:{port}/ws", max_size=None, compression=None) as socket:
        await socket.send(json.dumps({"type": "reactor.view", "data": {"codecs": codecs} if codecs else {}}))
        began = free_at = time.monotonic()
        messages: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        receiving = asyncio.create_task(_receive(socket, messages))
        while (now := time.monotonic()) - began < SECONDS:
            received_at, message = await asyncio.wait_for(messages.get(), SECONDS)
            container = required_container_of(message)
            header = container.read(message)
            if header is None or container.kind != "video":
                continue
            if container is MP4:
                piece = read_message(message)
                if piece.config is not None:
                    decoder = av.CodecContext.create("h264", "r")
                    decoder.extradata = piece.config.avcc
                _ = [frame.to_ndarray(format="rgb24") for frame in decoder.decode(av.Packet(piece.sample))]
            else:
                jpeg.decode(message)
            free_at = max(free_at, time.monotonic()) + 1 / most_fps
            await asyncio.sleep(free_at - time.monotonic())
            painted.ages.append((now - began, 1e3 * (time.time() - header.wall_us / 1e6)))
            painted.sizes.append(len(message))
            painted.names.append(container.name)
            ack: dict[str, Any] = {"track": header.track, "seq": header.seq}
            if codecs:
                ack["held_ms"] = round(1e3 * (time.monotonic() - received_at), 2)
            await socket.send(json.dumps({"type": "reactor.ack", "data": ack}))
        receiving.cancel()
    return painted


async def _receive(socket: ClientConnection, messages: asyncio.Queue[tuple[float, bytes]]) -> None:
    """Queue binary messages with the time at which they came."""
    async for message in socket:
        if isinstance(message, bytes):
            messages.put_nowait((time.monotonic(), message))


def _texture(width: int, seed: int = 7) -> NDArray[np.float32]:
    """Return random light and dark of several sizes, as a photograph has."""
    random = np.random.default_rng(seed)
    image = np.full((HEIGHT, width, 3), 128, np.float32)
    for size, contrast in ((2, 5), (8, 14), (32, 28), (96, 32)):
        noise = random.normal(0, contrast, (HEIGHT // size + 2, width // size + 2, 3)).astype(np.float32)
        image += np.kron(noise, np.ones((size, size, 1), np.float32))[:HEIGHT, :width]
    return image


def _clipped(image: NDArray[np.float32]) -> Images:
    return np.clip(image, 0, 255).astype(np.uint8)


def _talking_head() -> list[Images]:
    """A still room with grain of a camera, and a head that moves a little."""
    room, head = _texture(WIDTH), _texture(400, 8)[:440]
    frames = []
    for number in range(FRAMES):
        image = room.copy()
        left = 440 + round(8 * np.sin(number / 7))
        image[200:640, left : left + 400] = np.roll(head, round(3 * np.sin(number / 3)), axis=0)
        frames.append(_clipped(image))
    return frames


def _screen() -> list[Images]:
    """Lines of letters, of which one more is written every fifth frame."""
    random = np.random.default_rng(3)
    image = np.full((HEIGHT, WIDTH, 3), 245, np.float32)
    frames = []
    for number in range(FRAMES):
        if number % 5 == 0:
            top, letters = 20 + 16 * (number // 5) % 680, random.integers(0, 2, (10, 300, 1)) * 215.0
            image[top : top + 10, 40 : 40 + 1200] = 245 - np.repeat(letters, 4, axis=1)
        frames.append(_clipped(image))
    return frames


def _pan() -> list[Images]:
    """A photograph that passes by 4.3 pixels a frame, with the grain of a camera."""
    random = np.random.default_rng(4)
    wide = _texture(WIDTH + 5 * FRAMES)
    frames = []
    for number in range(FRAMES):
        left, share = divmod(4.3 * number, 1)
        first, second = (wide[:, int(left) + shift :][:, :WIDTH] for shift in (0, 1))
        grain = random.normal(0, 1.5, (HEIGHT, WIDTH, 1)).astype(np.float32)
        frames.append(_clipped((1 - share) * first + share * second + grain))
    return frames


def _generated() -> list[Images]:
    """Shapes that become others, with grain that is new in every frame."""
    random = np.random.default_rng(5)
    first, second = _texture(WIDTH, 1), _texture(WIDTH, 2)
    frames = []
    for number in range(FRAMES):
        share = 0.5 + 0.5 * np.sin(number / 12)
        grain = random.normal(0, 2.5, (HEIGHT, WIDTH, 1)).astype(np.float32)
        frames.append(_clipped(share * first + (1 - share) * second + grain))
    return frames


CONTENTS: tuple[tuple[str, Callable[[], list[Images]], float, float], ...] = (
    ("talking head", _talking_head, 0.03, 2.3),
    ("screen", _screen, 0.05, 2.3),
    ("pan", _pan, 0.25, 3.8),
    ("generated", _generated, 0.45, 5.0),
)
