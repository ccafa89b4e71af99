"""Clients of one track over links of their own, with a model, an encoder and sockets that take fake time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.cohorts import VideoDelivery
from reactor_runtime.server.delivery.latest_frames import LatestFrames
from reactor_runtime.server.delivery.options import ClientOptions
from reactor_runtime.server.delivery.subscribers import Subscribers
from reactor_runtime.server.encoding.encoded import EncodedFrame, MediaFile
from reactor_runtime.server.encoding.encoder import Encoder, JobBatch
from reactor_runtime.server.encoding.encodings import DEFAULT
from reactor_runtime.server.encoding.video_encoding import VideoEncoder, VideoEncoding
from reactor_runtime.server.telemetry.metrics import Metrics
from reactor_runtime.wire.containers import MP4, attach, container_of
from reactor_runtime.wire.fragmented_mp4 import VideoConfig, VideoMessage, read_message, write_message
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader
from reactor_runtime.wire.messages import View
from tests.fakes import FakeClock

R = TypeVar("R")

TRACK = "main_video"
CONFIG = VideoConfig(64, 48, b"\1\x42\xc0\x1e\xff\xe1\0\0\0")
H264_VIEW = View(codecs=("h264",))


class TimedEncoder(Encoder):
    """Run the jobs of a call one after the other; each takes so much fake time, but not that of the loop."""

    def __init__(self, clock: FakeClock) -> None:
        self.threads = []
        self.encode_s = 0.005
        self._clock = clock

    def submit(
        self,
        jobs: Sequence[Callable[[], R]],
        done: Callable[[Future[list[R]]], object],
        *,
        short: bool = False,  # noqa: ARG002
        copies: bool = False,  # noqa: ARG002
    ) -> None:
        batch = JobBatch(jobs, done)

        def run_all() -> None:
            for index in range(len(jobs)):
                batch.run_job(index)

        self._clock.call_at(self._clock.now() + self.encode_s, run_all)

    def close(self) -> None:
        """Do nothing."""


@dataclass
class ChainEncoding:
    """Encode a frame as the numbers of itself and of the frame before, with as many bytes as it may have."""

    clock: FakeClock
    name: str = "h264"
    encoders: list[ChainEncoder] = field(default_factory=list)
    fails: bool = False
    # How long an encoder works on a frame, by its own clock.
    busy_s: float = 0.0
    most_bytes: int = 1 << 30
    container = MP4

    def accepts(self, height: int, width: int) -> bool:
        return height % 2 == width % 2 == 0

    def open(self, threads: int) -> VideoEncoder:  # noqa: ARG002
        self.encoders.append(ChainEncoder(self))
        return self.encoders[-1]


class ChainEncoder:
    def __init__(self, encoding: ChainEncoding) -> None:
        self._encoding = encoding
        self._before: int | None = None
        self.keys: list[float] = []
        self.frames = 0

    def encode(
        self, pixels: NDArray[np.uint8], header: MediaHeader, interval_s: float, *, bits: int, key: bool
    ) -> bytes:
        if self._encoding.fails:
            raise RuntimeError("no encoder")
        self._encoding.clock.spend(self._encoding.busy_s)
        key = key or self._before is None
        if key:
            self.keys.append(self._encoding.clock.now())
        height, width, _ = pixels.shape
        sample = json.dumps([header.seq, None if key else self._before]).encode()
        self._before, self.frames = header.seq, self.frames + 1
        size = min(max(len(sample), bits // 8 - 300), self._encoding.most_bytes)
        message = VideoMessage(VideoConfig(width, height, CONFIG.avcc) if key else None, sample.ljust(size))
        return MP4.attach(header, write_message(message, header.seq, header.pts_us, round(interval_s * 1e6)))


class Viewer:
    """A client behind a link, which shows each file for `paint_s` and acknowledges it then.

    Decoding fails with an assertion if a piece of video depends on one that was not decoded.
    """

    def __init__(
        self,
        stage: Stage,
        view: View,
        *,
        bits_per_s: float = 1e9,
        delay_s: float = 0.001,
        paint_s: float = 0.0,
    ) -> None:
        self.stage = stage
        self.bits_per_s, self.delay_s, self.paint_s = bits_per_s, delay_s, paint_s
        self.client = Client(Role.VIEWER, "127.0.0.1", ClientOptions(stage.clock, stage.metrics))
        self.shown: list[tuple[float, int, str]] = []
        self.kinds: list[str] = []
        self.keys: list[int] = []
        self.headers: list[MediaHeader] = []
        self.stalled = False
        self._decoded: int | None = None
        self._link_free_at = self._received_at = self._painted_at = 0.0
        self.client.outbox.notify_queued(self._take)
        stage.subscribers.join(self.client)
        stage.subscribers.set_view(self.client, view)

    def since(self, at: float) -> list[int]:
        """Return the numbers of the frames shown since a time."""
        return [seq for shown_at, seq, _ in self.shown if shown_at >= at]

    def kinds_since(self, at: float) -> set[str]:
        return {kind for shown_at, _, kind in self.shown if shown_at >= at}

    def _take(self) -> None:
        clock = self.stage.clock
        # A socket takes more while at most 10 ms wait in it.
        while not self.stalled and self._link_free_at <= clock.now() + 0.01:
            item, retry_at = self.client.outbox.take_next()
            if isinstance(item, MediaFile):
                self._link_free_at = max(clock.now(), self._link_free_at) + 8 * len(item.data) / self.bits_per_s
                self._received_at = max(self._received_at, self._link_free_at + self.delay_s)
                clock.call_at(self._received_at, partial(self._receive, item))
            elif item is None:
                if retry_at is not None:
                    clock.call_at(retry_at, self._take)
                return
        if not self.stalled:
            clock.call_at(self._link_free_at, self._take)

    def _receive(self, file: MediaFile) -> None:
        self.headers.append(file.header)
        kind = "jpeg"
        if container_of(file.data) is MP4:
            kind = "h264"
            message = read_message(file.data)
            seq, before = json.loads(message.sample)
            assert seq == file.header.seq
            if message.config is not None:
                self.keys.append(seq)
            else:
                assert before == self._decoded, f"{seq} depends on {before}, decoded {self._decoded}"
            self._decoded = seq
        self.kinds.append(kind)
        now = self.stage.clock.now()
        self._painted_at = max(self._painted_at, now) + self.paint_s
        self.stage.clock.call_at(self._painted_at, partial(self._paint, file.header.seq, kind, now))

    def _paint(self, seq: int, kind: str, received_at: float) -> None:
        now = self.stage.clock.now()
        self.shown.append((now, seq, kind))
        held_s = now - received_at
        self.stage.clock.call_at(now + self.delay_s, partial(self.client.outbox.acknowledge, TRACK, seq, held_s))

    def stall(self) -> None:
        self.stalled = True

    def recover(self) -> None:
        self.stalled = False
        self._take()


class Stage:
    """A model whose frames are shown to subscribers at its rate."""

    def __init__(self, *, fps: float = 30.0, always: bool = True, jpeg_bytes: int = 2000) -> None:
        self.clock = FakeClock()
        self.metrics = Metrics()
        self.encoder = TimedEncoder(self.clock)
        self.encoding = ChainEncoding(self.clock)
        encodings: tuple[VideoEncoding, ...] = (self.encoding,)
        self.subscribers = Subscribers(
            latest_frames=LatestFrames(),
            video=VideoDelivery(encodings, self.encoder, self.clock, self.metrics, always=always),
        )
        self.interval_s = 1 / fps
        self.jpeg_bytes = jpeg_bytes
        self.pixels = np.zeros((720, 1280, 3), np.uint8)
        self.seq = 0
        self.flags = FrameFlag.AFTER_FLUSH
        self._next_at = self.clock.now()

    def add(self, view: View = H264_VIEW, **link: float) -> Viewer:
        return Viewer(self, view, **link)

    async def run(self, seconds: float) -> None:
        """Pass time, and show frames."""
        until = self.clock.now() + seconds
        while self._next_at <= until:
            self.clock.move_to(self._next_at)
            self.show_frame()
            self._next_at = max(self._next_at, self.clock.now()) + self.interval_s
            # Futures of the latest frames.
            for _ in range(3):
                await asyncio.sleep(0)
        self.clock.move_to(until)

    def show_frame(self) -> None:
        header = MediaHeader(TRACK, self.seq, round(self.clock.now() * 1e6), 5, flags=self.flags)
        self.flags = FrameFlag(0)
        self.seq += 1
        rungs = self.subscribers.rungs_in_use(TRACK).get(DEFAULT, ())
        files = {rung: MediaFile("video", header, self._jpeg(header, rung)) for rung in rungs}
        pixels = self.pixels if not files or self.subscribers.needs_pixels(TRACK) else None
        frame = EncodedFrame(header, {DEFAULT: files} if files else {}, self.interval_s, pixels)
        self.subscribers.show_frame(frame)

    def new_session(self) -> None:
        self.subscribers.clear_frames()
        self.seq, self.flags = 0, FrameFlag.AFTER_FLUSH

    def _jpeg(self, header: MediaHeader, rung: int) -> bytes:
        share = DEFAULT.rungs[rung].share
        return attach(header, b"\xff\xd8" + bytes(round(share * self.jpeg_bytes)) + b"\xff\xd9")
