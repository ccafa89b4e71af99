"""A second encoding beside JPEG: everything between the model's pixels and a client's socket serves it unchanged."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reactor_runtime.client.media import DECODERS
from reactor_runtime.ipc.messages import Bundle, BundleFrame
from reactor_runtime.ipc.ring import RingReader, RingWriter, create_memory
from reactor_runtime.media import jpeg
from reactor_runtime.server.delivery.client import Client, Role
from reactor_runtime.server.delivery.latest_frames import LatestFrames
from reactor_runtime.server.delivery.options import ClientOptions
from reactor_runtime.server.delivery.playout import Playout
from reactor_runtime.server.delivery.seated_subscribers import SeatedSubscribers
from reactor_runtime.server.delivery.subscribers import Subscribers
from reactor_runtime.server.encoding.encoded import MediaFile
from reactor_runtime.server.encoding.encodings import DEFAULT, ENCODINGS, choose_encoding, encoding_names
from reactor_runtime.server.encoding.track_encoding import TrackEncoding
from reactor_runtime.server.telemetry.metrics import Metrics
from reactor_runtime.wire.containers import CONTAINERS, detach
from reactor_runtime.wire.media_header import FrameFlag, MediaHeader
from reactor_runtime.wire.messages import View
from tests.fakes import FakeClock, HandEncoder, settle, written
from tests.server.encoding.png_encoding import PNG, decode_png

REGISTERED: tuple[TrackEncoding, ...] = (*ENCODINGS, PNG)
# Pillow fills its table of media types when it loads its plugins.
Image.init()
READ_BY_PILLOW = [encoding for encoding in REGISTERED if encoding.container.media_type in Image.MIME.values()]
PNG_VIEW = View(codecs=("png",))


class Delivery:
    """A playout with its subscribers, which play frames of noise at once."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.encoder = HandEncoder()
        self.metrics = Metrics()
        self.subscribers = SeatedSubscribers(lambda: Subscribers(latest_frames=LatestFrames(self.encoder)))
        self.playout = Playout(self.clock, self.encoder, self.subscribers, lambda _: None, self.metrics)
        self.memory = create_memory()
        self.writer, self.reader = RingWriter(self.memory), RingReader(self.memory)
        self.playout.start_session("s", 0.0)
        self.running = asyncio.create_task(self.playout.run())
        self.pixels = np.random.default_rng(5).integers(0, 256, (64, 96, 3), np.uint8)

    def join(self, view: View, *, full_size_only: bool = False) -> Client:
        """Add a client that chooses its encoding after it has joined, as a WebSocket does."""
        options = ClientOptions(self.clock, self.metrics, REGISTERED)
        client = Client(Role.VIEWER, "127.0.0.1", options, full_size_only=full_size_only)
        self.subscribers.join(client)
        self.subscribers.set_view(client, view)
        return client

    async def show_frame(self, number: int, seat: int | None = None) -> None:
        (offset,) = written(self.writer, number, [self.pixels])
        picture = BundleFrame("video", number, offset, 64, 96, seat=seat)
        now, others_applied = self.clock.now(), () if seat is None else (0,)
        bundle = Bundle("s", number, now, 0.1, now, 0, 0, 0.0, (picture,), others_applied=others_applied)
        self.playout.put_bundle(bundle, self.reader)
        await self.finish_jobs()
        await self.clock.advance(bundle.interval_s)

    async def finish_jobs(self) -> None:
        self.encoder.run_all()
        await settle()


@pytest.fixture
async def delivery() -> AsyncIterator[Delivery]:
    delivery = Delivery()
    await settle()
    yield delivery
    delivery.running.cancel()
    await asyncio.gather(delivery.running, return_exceptions=True)
    os.close(delivery.memory)


def next_frame(client: Client) -> bytes:
    """Take the frame that waits for a client."""
    item, _ = client.outbox.take_next()
    assert isinstance(item, MediaFile)
    return item.data


def read_header(file: bytes) -> MediaHeader:
    """Return the header of a PNG of the server."""
    header = PNG.container.read(file)
    assert header is not None
    return header


async def test_each_client_gets_the_frame_in_the_encoding_that_it_chose(delivery: Delivery) -> None:
    by_default, chooses_png = delivery.join(View()), delivery.join(PNG_VIEW)
    await delivery.show_frame(7)
    header, file = detach(next_frame(by_default))
    assert np.array_equal(jpeg.decode(file), jpeg.decode(jpeg.encode(delivery.pixels)))
    png = next_frame(chooses_png)
    assert np.array_equal(decode_png(png), delivery.pixels)
    assert read_header(png) == header
    assert header is not None
    assert header.seq == 7


async def test_a_frame_is_encoded_in_the_encodings_in_use_alone(delivery: Delivery) -> None:
    delivery.join(PNG_VIEW)
    delivery.join(PNG_VIEW)
    assert delivery.subscribers.rungs_in_use("video") == {PNG: [0]}
    await delivery.show_frame(0)
    assert delivery.metrics.frames.encoded == {("video", "png", 0): 1}
    by_default = delivery.join(View())
    by_default.outbox.track_sender("video").ladder.rung = 3
    assert list(delivery.subscribers.rungs_in_use("video").items()) == [(DEFAULT, [3]), (PNG, [0])]


async def test_a_client_changes_its_encoding_with_the_next_frame(delivery: Delivery) -> None:
    client = delivery.join(View())
    await delivery.show_frame(0)
    delivery.subscribers.set_view(client, PNG_VIEW)
    header, _ = detach(next_frame(client))
    assert header is not None
    assert header.seq == 0
    await delivery.show_frame(1)
    assert read_header(next_frame(client)).seq == 1
    # A view without `codecs` keeps the last ones.
    delivery.subscribers.set_view(client, View(max_fps=60))
    await delivery.show_frame(2)
    assert read_header(next_frame(client)).seq == 2
    delivery.subscribers.set_view(client, View(codecs=()))
    await delivery.show_frame(3)
    assert detach(next_frame(client))[0] is not None


async def test_a_frame_encoded_before_a_client_chose_is_in_the_default_encoding(delivery: Delivery) -> None:
    client = delivery.join(View())
    (offset,) = written(delivery.writer, 0, [delivery.pixels])
    picture = BundleFrame("video", 0, offset, 64, 96)
    bundle = Bundle("s", 0, delivery.clock.now(), 0.1, 0.0, 0, 0, 0.0, (picture,))
    delivery.playout.put_bundle(bundle, delivery.reader)
    delivery.subscribers.set_view(client, PNG_VIEW)
    await delivery.finish_jobs()
    assert detach(next_frame(client))[0] is not None


async def test_a_client_that_resumes_gets_the_latest_frame_in_its_encoding(delivery: Delivery) -> None:
    client = delivery.join(PNG_VIEW)
    delivery.subscribers.set_view(client, View(paused=True, codecs=("png",)))
    other = delivery.join(PNG_VIEW)
    await delivery.show_frame(3)
    delivery.subscribers.set_view(client, PNG_VIEW)
    held = next_frame(client)
    assert np.array_equal(decode_png(held), delivery.pixels)
    assert read_header(held).flags == FrameFlag.HELD | FrameFlag.AFTER_FLUSH
    assert read_header(next_frame(other)).flags == FrameFlag.AFTER_FLUSH


@pytest.mark.parametrize("is_watched", [False, True])
async def test_a_client_that_has_chosen_an_encoding_gets_the_latest_frame_of_another_seat(
    delivery: Delivery, is_watched: bool
) -> None:
    delivery.subscribers.set_seats(2)
    client, other = delivery.join(PNG_VIEW), delivery.join(View())
    if is_watched:
        other.seat = 1
        delivery.subscribers.join(other)
    await delivery.show_frame(3, seat=1)
    client.seat = 1
    delivery.subscribers.join(client)
    await delivery.finish_jobs()
    header, file = detach(next_frame(client))
    assert header is not None
    assert (header.seq, header.flags) == (3, FrameFlag.HELD | FrameFlag.AFTER_FLUSH)
    assert np.array_equal(jpeg.decode(file), jpeg.decode(jpeg.encode(delivery.pixels)))


async def test_a_client_that_resumes_gets_a_frame_that_others_took_in_another_encoding(delivery: Delivery) -> None:
    client = delivery.join(View(paused=True))
    delivery.join(PNG_VIEW)
    await delivery.show_frame(3)
    delivery.subscribers.set_view(client, View())
    await delivery.finish_jobs()
    header, _ = detach(next_frame(client))
    assert header is not None
    assert header.seq == 3


@pytest.mark.parametrize("full_size_only", [False, True])
async def test_newcomers_and_snapshots_get_the_default_encoding(delivery: Delivery, full_size_only: bool) -> None:
    delivery.join(PNG_VIEW)
    await delivery.show_frame(3)
    newcomer = delivery.join(View(), full_size_only=full_size_only)
    await delivery.finish_jobs()
    file = next_frame(newcomer)
    assert np.array_equal(jpeg.decode(detach(file)[1]), jpeg.decode(jpeg.encode(delivery.pixels)))
    snapshot = await delivery.subscribers.snapshot("video")
    assert snapshot == (DEFAULT.container.media_type, file)


async def test_a_client_on_the_only_rung_stays_on_it(delivery: Delivery) -> None:
    client = delivery.join(PNG_VIEW)
    for number in range(120):
        await delivery.show_frame(number)
        if number % 20 == 0:
            next_frame(client)
            client.outbox.acknowledge("video", number)
    statistics = client.statistics(delivery.clock.now())
    assert (statistics["skipped"] > 90, statistics["rung"], statistics["quality"]) == (True, 0, 100)


@pytest.mark.parametrize(
    ("codecs", "encodings", "chosen"),
    [
        ((), REGISTERED, DEFAULT),
        (("png",), REGISTERED, PNG),
        (("png", "jpeg"), REGISTERED, PNG),
        (("jpeg", "png"), REGISTERED, DEFAULT),
        (("none-such", "png"), REGISTERED, PNG),
        (("none-such",), ENCODINGS, DEFAULT),
    ],
)
def test_the_first_known_codec_of_a_client_is_chosen(
    codecs: Sequence[str], encodings: Sequence[TrackEncoding], chosen: TrackEncoding
) -> None:
    assert choose_encoding(codecs, encodings) is chosen


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: str(encoding.name))
def test_relays_and_the_python_client_know_the_container_of_an_encoding(encoding: TrackEncoding) -> None:
    assert encoding.container in CONTAINERS
    assert encoding.container in DECODERS


@pytest.mark.parametrize("name", encoding_names("auto"))
def test_the_docs_have_a_row_for_an_encoding(name: str) -> None:
    page = Path(__file__).parents[3] / "docs" / "wire-media.md"
    table = page.read_text(encoding="utf-8").partition("| name in `codecs` |")[2].partition("\n\n")[0]
    assert f"\n| `{name}` |" in table


@pytest.mark.parametrize("encoding", REGISTERED, ids=lambda encoding: str(encoding.name))
def test_the_rungs_of_an_encoding_begin_with_full_size_and_get_smaller(encoding: TrackEncoding) -> None:
    assert (encoding.rungs[0].scale, encoding.rungs[0].share) == (1.0, 1.0)
    scales = [rung.scale for rung in encoding.rungs]
    assert scales == sorted(scales, reverse=True)
    shares = [rung.share for rung in encoding.rungs]
    assert shares == sorted(set(shares), reverse=True)


@pytest.mark.parametrize("encoding", READ_BY_PILLOW, ids=lambda encoding: str(encoding.name))
def test_bands_of_an_encoding_become_one_file(encoding: TrackEncoding) -> None:
    pixels = np.random.default_rng(5).integers(0, 256, (720, 1280, 3), np.uint8)
    bands = encoding.bands(720, 1280, 4)
    assert [row for rows in bands for row in range(720)[rows]] == list(range(720))
    header = MediaHeader("video", 1, 2, 3)
    files = [
        encoding.container.attach(header, encoding.join(parts))
        for parts in ([encoding.encode(pixels[rows], 0) for rows in bands], [encoding.encode(pixels, 0)])
    ]
    first, second = (np.asarray(Image.open(io.BytesIO(file)).convert("RGB")) for file in files)
    assert np.array_equal(first, second)
