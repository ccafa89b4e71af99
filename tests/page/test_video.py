"""H.264 in the page: what the canvas shows from JPEG to video and back, and what the page sends the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from playwright.sync_api import Page, expect

from reactor_runtime.server.encoding.h264_encoding import H264
from reactor_runtime.wire.fragmented_mp4 import read_message
from tests.video import BITS, SQUARE, VideoStream, header, jpeg, number_in, numbered

from .conftest import as_modules_and_as_bundle
from .fake_server import FakeServer

CANVAS = 'canvas[data-track="main_video"]'
# The number in the pixels of each animation frame, -1 for none that is legible, and the size of the canvas.
SAMPLE = """([selector, square, bits]) => {
  const canvas = document.querySelector(selector);
  const probe = new OffscreenCanvas((bits + 1) * square, 1).getContext("2d", { willReadFrequently: true });
  window.samples = [];
  (function sample() {
    probe.drawImage(canvas, 0, square / 2, (bits + 1) * square, 1, 0, 0, (bits + 1) * square, 1);
    const { data } = probe.getImageData(0, 0, (bits + 1) * square, 1);
    const levels = Array.from({ length: bits + 1 }, (_, place) => data[4 * (place * square + square / 2)]);
    const isLegible = levels[0] > 191 && levels.every((level) => level < 64 || level > 191);
    const number = levels.slice(1).reduce((sum, level, place) => sum + ((level > 127) << place), 0);
    samples.push([isLegible ? number : -1, canvas.width, canvas.height]);
    requestAnimationFrame(sample);
  })();
}"""
SIZE = [256, 96]
HIDE = """hidden => { Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
                      document.dispatchEvent(new Event("visibilitychange")); }"""


@pytest.fixture
def playing(page: Page, server: FakeServer) -> Page:
    """A page whose server has video, and which has shown frame 0, a JPEG."""
    server.script.frames = False
    server.script.encodings = ("jpeg", "h264")
    page.goto(server.url)
    server.wait_for("reactor.view", lambda data: data.get("codecs") == ["h264"])
    show(page, server, 0, jpeg(0))
    page.evaluate(SAMPLE, [CANVAS, SQUARE, BITS])
    return page


def show(page: Page, server: FakeServer, seq: int, message: bytes) -> None:
    """Send a frame, and wait until the page has painted and acknowledged it."""
    server.send_raw(message)
    expect(page.locator(CANVAS)).to_have_attribute("data-seq", str(seq))
    server.wait_for("reactor.ack", lambda data: data["seq"] == seq)


def samples(page: Page) -> list[list[int]]:
    page.wait_for_function("count => samples.length > count", arg=page.evaluate("samples.length"))
    taken: list[list[int]] = page.evaluate("samples")
    return taken


def count(server: FakeServer, kind: str) -> int:
    return sum(message.type == kind for message in server.received)


def corrupt(message: bytes) -> bytes:
    """Return a message whose NAL unit has another length and other bytes."""
    at = message.rindex(b"mdat") + 4
    return message[:at] + b"\xff" * (len(message) - at)


@as_modules_and_as_bundle
def test_from_jpeg_to_video_and_back_nothing_blank_older_or_of_another_size_is_shown(
    playing: Page, server: FakeServer
) -> None:
    stream = VideoStream()
    for seq in range(1, 5):
        server.send_raw(jpeg(seq))
    # The key and JPEGs until it is acknowledged; some of these overtake a frame of video.
    server.send_raw(stream.message(5))
    for seq in range(6, 9):
        server.send_raw(stream.message(seq))
        server.send_raw(jpeg(seq))
    for seq in range(9, 30):
        show(playing, server, seq, stream.message(seq))
    for seq in range(30, 40):
        server.send_raw(jpeg(seq))
    show(playing, server, 40, stream.message(40, key=True))
    taken = samples(playing)
    numbers = [number for number, *_ in taken]
    assert numbers == sorted(numbers)
    assert numbers[0] >= 0
    assert {*range(9, 30), 40} <= {*numbers}
    assert all(size == SIZE for _, *size in taken)
    assert count(server, "reactor.key") == 0


def test_a_frame_is_acknowledged_with_the_time_from_receipt_to_painting(playing: Page, server: FakeServer) -> None:
    stream = VideoStream()
    show(playing, server, 1, stream.message(1))
    held_ms = server.wait_for("reactor.ack", lambda data: data["seq"] == 1)["held_ms"]
    assert isinstance(held_ms, int)
    assert 0 <= held_ms < 10_000


def test_video_that_cannot_be_decoded_is_asked_for_anew_once_and_jpegs_are_shown(
    playing: Page, server: FakeServer
) -> None:
    stream = VideoStream()
    show(playing, server, 1, stream.message(1))
    server.send_raw(corrupt(stream.message(2)))
    assert server.wait_for("reactor.key") == {"track": "main_video"}
    # Of before the request.
    server.send_raw(stream.message(3))
    show(playing, server, 4, jpeg(4))
    show(playing, server, 5, stream.message(5, key=True))
    show(playing, server, 6, stream.message(6))
    assert count(server, "reactor.key") == 1
    assert all(size == SIZE for _, *size in samples(playing))


def test_after_two_errors_in_a_minute_the_session_continues_with_jpegs(playing: Page, server: FakeServer) -> None:
    stream = VideoStream()
    show(playing, server, 1, stream.message(1))
    server.send_raw(corrupt(stream.message(2)))
    server.wait_for("reactor.key")
    show(playing, server, 3, stream.message(3, key=True))
    server.send_raw(corrupt(stream.message(4)))
    server.wait_for("reactor.view", lambda data: data.get("codecs") == [])
    show(playing, server, 5, jpeg(5))
    assert count(server, "reactor.key") == 1


def test_a_hidden_page_decodes_nothing_and_needs_a_key_on_its_return(playing: Page, server: FakeServer) -> None:
    stream = VideoStream()
    show(playing, server, 1, stream.message(1))
    playing.evaluate(HIDE, True)
    server.wait_for("reactor.view", lambda data: data == {"paused": True, "codecs": ["h264"]})
    server.send_raw(stream.message(2))
    playing.evaluate(HIDE, False)
    server.wait_for("reactor.view", lambda data: data == {"paused": False, "codecs": ["h264"]})
    server.send_raw(stream.message(3))
    server.wait_for("reactor.key")
    show(playing, server, 4, stream.message(4, key=True))
    assert 2 not in {number for number, *_ in samples(playing)}


def test_the_colours_of_video_are_those_of_the_frames(playing: Page, server: FakeServer) -> None:
    colours = [(220, 30, 30), (30, 200, 40), (40, 40, 220), (240, 240, 240), (128, 128, 128), (200, 160, 60)]
    pixels = np.zeros((96, 256, 3), np.uint8)
    for place, colour in enumerate(colours):
        pixels[:, 40 * place : 40 * (place + 1)] = colour
    show(playing, server, 1, VideoStream().message(1, pixels))
    shown: Any = playing.evaluate(
        """([selector, count]) => {
          const context = document.querySelector(selector).getContext("2d");
          const colour = (n) => [...context.getImageData(40 * n + 20, 48, 1, 1).data.slice(0, 3)];
          return Array.from({ length: count }, (_, n) => colour(n));
        }""",
        [CANVAS, len(colours)],
    )
    assert np.abs(np.array(shown) - colours).max() <= 6


def test_video_of_another_and_odd_size_is_shown_in_its_size(playing: Page, server: FakeServer) -> None:
    show(playing, server, 1, VideoStream().message(1))
    show(playing, server, 2, VideoStream(97, 241).message(2))
    assert samples(playing)[-1] == [2, 241, 97]


def test_a_page_without_a_secure_context_stays_with_jpegs(page: Page, server: FakeServer) -> None:
    server.script.encodings = ("jpeg", "h264")
    page.add_init_script("Object.defineProperty(window, 'isSecureContext', { value: false })")
    page.goto(server.url)
    server.wait_for("reactor.view", lambda data: data.get("codecs") == [])
    expect(page.locator(f"{CANVAS}[data-seq]")).to_be_attached()


def test_a_server_without_video_is_asked_for_none(page: Page, server: FakeServer) -> None:
    page.goto(server.url)
    expect(page.locator(f"{CANVAS}[data-seq]")).to_be_attached()
    assert not [message for message in server.received if "codecs" in message.data]
    assert (
        page.evaluate("performance.getEntriesByType('resource').filter(({ name }) => /video/.test(name)).length") == 0
    )


def test_a_recording_of_video_continues_in_another_file_with_frames_of_another_size(
    playing: Page, server: FakeServer, tmp_path: Path
) -> None:
    record = playing.get_by_role("button", name="Record")
    expect(record).to_be_visible()
    small, large = VideoStream(), VideoStream(128)
    show(playing, server, 1, small.message(1))
    record.click()
    server.wait_for("reactor.key")
    show(playing, server, 2, small.message(2, key=True))
    expect(record).to_have_attribute("aria-pressed", "true")
    show(playing, server, 3, small.message(3))
    with playing.expect_download() as first:
        server.send_raw(large.message(4))
    show(playing, server, 5, large.message(5, key=True))
    expect(record).to_have_attribute("aria-pressed", "true")
    with playing.expect_download() as second:
        record.click()
    for name, download, expected in (("a", first, [(96, 2), (96, 3)]), ("b", second, [(128, 5)])):
        download.value.save_as(tmp_path / name)
        with av.open(str(tmp_path / name)) as video:
            frames = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
        assert [(frame.shape[0], number_in(frame)) for frame in frames] == expected


def test_a_recording_of_video_goes_on_with_a_stream_of_another_rate(
    playing: Page, server: FakeServer, tmp_path: Path
) -> None:
    record, encoder = playing.get_by_role("button", name="Record"), H264.open(1)
    expect(record).to_be_visible()
    # The encoder is opened again for another rate, and has other parameter sets.
    messages = [
        encoder.encode(numbered(seq), header(seq), 0.04, bits=bits, key=seq == 2)
        for seq, bits in enumerate((20_000, 20_000, 20_000, 400_000, 400_000), start=1)
    ]
    configs = [config for config in (read_message(each).config for each in messages) if config]
    assert len({config.avcc for config in configs}) == 2
    show(playing, server, 1, messages[0])
    record.click()
    server.wait_for("reactor.key")
    show(playing, server, 2, messages[1])
    expect(record).to_have_attribute("aria-pressed", "true")
    for seq in (3, 4, 5):
        show(playing, server, seq, messages[seq - 1])
    with playing.expect_download() as download:
        record.click()
    download.value.save_as(tmp_path / "a.mp4")
    with av.open(str(tmp_path / "a.mp4")) as video:
        assert [number_in(frame.to_ndarray(format="rgb24")) for frame in video.decode(video=0)] == [2, 3, 4, 5]
