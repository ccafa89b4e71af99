"""H.264 in the page: what the canvas shows from JPEG to video and back, and what the page sends the server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from reactor_runtime.server.encoding.h264_encoding import H264
from reactor_runtime.wire.fragmented_mp4 import read_message
from tests.video import BITS, SQUARE, VideoStream, header, jpeg, number_in, numbered

from .conftest import as_modules, as_modules_and_as_bundle
from .fake_server import FakeServer
from .states import A_SECOND

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
# Waits of five seconds are over at once.
LATE = """() => {
  const wait = setTimeout;
  window.setTimeout = (callback, ms, ...rest) => wait(callback, ms === 5000 ? 0 : ms, ...rest);
}"""
# On a busy machine the first frames take longer than the page gives a decoder before it judges it. That wait begins
# with a call of the decoder; others are as long.
PATIENT = """() => {
  const wait = setTimeout;
  const { decode } = VideoDecoder.prototype;
  let begins = false;
  VideoDecoder.prototype.decode = function (chunk) {
    begins = true;
    queueMicrotask(() => { begins = false; });
    decode.call(this, chunk);
  };
  window.setTimeout = (callback, ms, ...rest) => wait(callback, begins && ms === 200 ? 1e9 : ms, ...rest);
}"""
# The clock of the page hardly goes on.
SLOW = """() => {
  const now = performance.now.bind(performance), start = now();
  performance.now = () => start + (now() - start) / 1000;
}"""
HIDE = """hidden => { Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
                      document.dispatchEvent(new Event("visibilitychange")); }"""


@pytest.fixture
def viewing(server: FakeServer) -> None:
    server.script.role = "viewer"


def open_with_video(page: Page, server: FakeServer) -> None:
    """Open a page whose server has video, and wait until it takes video."""
    server.script.frames = False
    server.script.encodings = ("jpeg", "h264")
    page.goto(server.url)
    server.wait_for("reactor.view", lambda data: data.get("codecs") == ["h264"])


@pytest.fixture
def playing(page: Page, server: FakeServer) -> Page:
    """A page whose server has video, and which has shown frame 0, a JPEG."""
    open_with_video(page, server)
    # It requests a key too where video began before it was loaded.
    expect(page.locator(".tools")).to_be_attached()
    show(page, server, 0, jpeg(0))
    page.evaluate(SAMPLE, [CANVAS, SQUARE, BITS])
    return page


def show(page: Page, server: FakeServer, seq: int, message: bytes) -> None:
    """Send a frame, and wait until the page has painted and acknowledged it."""
    server.send_raw(message)
    expect(page.locator(CANVAS)).to_have_attribute("data-seq", str(seq))
    wait_for_ack(server, seq)


def wait_for_ack(server: FakeServer, seq: int) -> None:
    server.wait_for("reactor.ack", lambda data: data["seq"] == seq)


def samples(page: Page) -> list[list[int]]:
    page.wait_for_function("count => samples.length > count", arg=page.evaluate("samples.length"))
    taken: list[list[int]] = page.evaluate("samples")
    return taken


def count(server: FakeServer, kind: str) -> int:
    return sum(message.type == kind for message in server.received)


def is_unpaused(view: dict[str, Any]) -> bool:
    return view["paused"] is False


def corrupt(message: bytes) -> bytes:
    """Return a message whose NAL unit has another length and other bytes."""
    at = message.rindex(b"mdat") + 4
    return message[:at] + b"\xff" * (len(message) - at)


@as_modules_and_as_bundle
def test_from_jpeg_to_video_and_back_nothing_blank_older_or_of_another_size_is_shown(
    playing: Page, server: FakeServer
) -> None:
    playing.evaluate(PATIENT)
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
    # After two seconds it may ask once more.
    playing.evaluate(SLOW)
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


def start_recording(page: Page, server: FakeServer, stream: VideoStream) -> Locator:
    """Show frame 1 of a stream, and record it from frame 2 on; return the button."""
    record = page.get_by_role("button", name="Record")
    expect(record).to_be_visible()
    show(page, server, 1, stream.message(1))
    record.click()
    server.wait_for("reactor.key")
    show(page, server, 2, stream.message(2, key=True))
    expect(record).to_have_attribute("aria-pressed", "true")
    return record


def test_a_recording_of_video_continues_in_another_file_with_frames_of_another_size(
    playing: Page, server: FakeServer, tmp_path: Path
) -> None:
    small, large = VideoStream(), VideoStream(128)
    record = start_recording(playing, server, small)
    show(playing, server, 3, small.message(3))
    with playing.expect_download() as first:
        server.send_raw(large.message(4))
    server.wait_for("reactor.key", count=2)
    show(playing, server, 5, large.message(5, key=True))
    expect(record).to_have_attribute("aria-pressed", "true")
    with playing.expect_download() as second:
        record.click()
    for name, download, expected in (("a", first, [(96, 2), (96, 3)]), ("b", second, [(128, 5)])):
        download.value.save_as(tmp_path / name)
        with av.open(str(tmp_path / name)) as video:
            frames = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
        assert [(frame.shape[0], number_in(frame)) for frame in frames] == expected


def test_a_recording_of_video_waits_for_its_key_on_a_busy_machine(playing: Page, server: FakeServer) -> None:
    record, stream = playing.get_by_role("button", name="Record"), VideoStream()
    expect(record).to_be_visible()
    show(playing, server, 1, stream.message(1))
    playing.evaluate(LATE)
    record.click()
    server.wait_for("reactor.key")
    show(playing, server, 2, jpeg(2))
    show(playing, server, 3, stream.message(3, key=True))
    expect(record).to_have_attribute("aria-pressed", "true")
    show(playing, server, 4, jpeg(4))
    show(playing, server, 5, stream.message(5, key=True))
    with playing.expect_download() as download:
        # After more than two seconds of the session.
        server.send_raw(jpeg(100))
    assert download.value.suggested_filename.endswith(".mp4")
    with av.open(str(download.value.path())) as video:
        assert [number_in(frame.to_ndarray(format="rgb24")) for frame in video.decode(video=0)] == [3, 5]


@as_modules
def test_video_that_began_before_the_toolbar_was_loaded_is_recorded_as_it_comes(page: Page, server: FakeServer) -> None:
    held: list[Route] = []
    page.route("**/toolbar/toolbar.js", lambda route: held.append(route))
    with page.expect_request("**/toolbar/toolbar.js"):
        open_with_video(page, server)
    stream, record = VideoStream(), page.get_by_role("button", name="Record")
    show(page, server, 1, stream.message(1))
    show(page, server, 2, stream.message(2))
    held.pop().continue_()
    expect(record).to_be_visible()
    for seq in (3, 4):
        show(page, server, seq, stream.message(seq))
    server.wait_for("reactor.key")
    assert count(server, "reactor.key") == 1
    show(page, server, 5, jpeg(5))
    record.click()
    server.wait_for("reactor.key", count=2)
    show(page, server, 6, stream.message(6, key=True))
    expect(record).to_have_attribute("aria-pressed", "true")
    with page.expect_download() as download:
        record.click()
    with av.open(str(download.value.path())) as video:
        assert [number_in(frame.to_ndarray(format="rgb24")) for frame in video.decode(video=0)] == [6]


@pytest.mark.usefixtures("viewing")
def test_a_recording_of_video_goes_on_in_another_session_that_has_run_for_long(
    playing: Page, server: FakeServer
) -> None:
    stream = VideoStream()
    record = start_recording(playing, server, stream)
    server.broadcast("reactor.session", phase="ended", reason="left", message="the controller has left")
    server.broadcast("reactor.session", phase="started", session="s-2")
    for seq in (100, 101):
        show(playing, server, seq, jpeg(seq))
    show(playing, server, 102, stream.message(102, key=True))
    with playing.expect_download() as download:
        record.click()
    with av.open(str(download.value.path())) as video:
        assert [number_in(frame.to_ndarray(format="rgb24")) for frame in video.decode(video=0)] == [2, 102]


def test_a_recording_of_video_goes_on_in_a_hidden_page_after_a_model_that_died(
    playing: Page, server: FakeServer
) -> None:
    stream = VideoStream()
    record = start_recording(playing, server, stream)
    playing.evaluate(HIDE, True)
    server.script.session, server.script.loading, server.script.held_loading = "s-2", ("Restarting",), True
    server.crash("the process was killed")
    expect(playing.locator("html[data-phase=loading]")).to_be_attached()
    views = sum(message.type == "reactor.view" and is_unpaused(message.data) for message in server.received)
    server.release()
    expect(playing.locator("html[data-phase=connected]")).to_be_attached()
    # The recording reads this session too.
    server.wait_for("reactor.view", is_unpaused, count=views + 1)
    for seq in (3, 4, 5):
        server.send_raw(stream.message(seq, key=seq == 3))
        wait_for_ack(server, seq)
    with playing.expect_download() as download:
        record.dispatch_event("click")
    with av.open(str(download.value.path())) as video:
        assert [number_in(frame.to_ndarray(format="rgb24")) for frame in video.decode(video=0)] == [2, 3, 4, 5]


def test_a_recording_is_made_of_what_is_shown_where_no_key_comes(playing: Page, server: FakeServer) -> None:
    record = playing.get_by_role("button", name="Record")
    expect(record).to_be_visible()
    show(playing, server, 1, VideoStream().message(1))
    record.click()
    server.wait_for("reactor.key")
    show(playing, server, 2, jpeg(2))
    for _ in range(5):
        server.broadcast("reactor.stats", codec="jpeg")
    expect(record).to_have_attribute("aria-pressed", "true")
    expect(record).to_contain_text(A_SECOND)
    with playing.expect_download() as download:
        record.click()
    assert download.value.suggested_filename.endswith(".webm")


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
