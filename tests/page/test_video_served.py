"""The page with a real server that sends H.264: what the canvas shows, and what a canvas of another page shows."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import av
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.server.running import RunningServer, serving, write_project
from tests.video import BITS, SQUARE, number_in, numbering_model

from .conftest import open_page
from .test_video import CANVAS, HIDE, PATIENT, SAMPLE, SIZE, samples

# Counts the frames that are decoded, and breaks the next message where `corrupt` is set.
COUNT = """
window.decoded = 0;
window.failed = 0;
const Decoder = window.VideoDecoder;
window.VideoDecoder = class extends Decoder {
  constructor({ output, error }) {
    super({
      output: (frame) => { window.decoded += 1; output(frame); },
      error: (reason) => { window.failed += 1; error(reason); },
    });
  }
};
const Chunk = window.EncodedVideoChunk;
window.EncodedVideoChunk = class extends Chunk {
  constructor(init) {
    if (window.corrupt) init = { ...init, data: new Uint8Array(init.data).fill(255) };
    window.corrupt = false;
    super(init);
  }
};
"""


def count_patiently(page: Page) -> None:
    """Count the frames that a page decodes once it is opened; it does not judge its decoder."""
    page.add_init_script(COUNT)
    page.add_init_script(f"({PATIENT})()")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    project = write_project(tmp_path_factory.mktemp("video"), numbering_model())
    with serving(project, "--codec", "always") as server:
        yield server


@pytest.fixture
def page(browser: Browser, served: RunningServer) -> Iterator[Page]:
    served.wait_for_health("ready")
    with open_page(browser, f"http://127.0.0.1:{served.port}") as page:
        count_patiently(page)
        page.goto("/")
        page.locator(f"{CANVAS}[data-seq]").wait_for(state="attached")
        # They keep only what comes after they were loaded.
        page.locator(".tools").wait_for(state="attached")
        # Frames that were sent before the server knew that this page takes video may be smaller.
        page.wait_for_function(
            "([selector, width]) => decoded > 0 && document.querySelector(selector).width === width",
            arg=[CANVAS, SIZE[0]],
        )
        page.evaluate(SAMPLE, [CANVAS, SQUARE, BITS])
        yield page


def check(page: Page) -> None:
    """Check that the canvas has shown no older frame and no other size."""
    taken = samples(page)
    numbers = [number for number, *_ in taken if number >= 0]
    assert numbers == sorted(numbers)
    assert all(size == SIZE for _, *size in taken)


def test_the_page_shows_video(page: Page) -> None:
    page.wait_for_function("() => decoded > 30")
    check(page)
    assert page.evaluate("failed") == 0


def test_after_a_corrupt_message_jpegs_are_shown_and_then_video_again(page: Page) -> None:
    page.wait_for_function("() => decoded > 5")
    page.evaluate("window.corrupt = true")
    page.wait_for_function("() => failed === 1")
    before = page.evaluate("decoded")
    page.wait_for_function("before => decoded > before + 5", arg=before)
    check(page)
    assert page.evaluate("failed") == 1


def test_a_clip_of_video_is_made(page: Page) -> None:
    wait_for_frames(page, 30)
    page.get_by_role("button", name="Share clip").click()
    expect(page.get_by_role("dialog").get_by_role("button", name="Download")).to_be_enabled()


@contextlib.contextmanager
def recording(page: Page, file: Path) -> Iterator[None]:
    """Record into a file in the block."""
    record = page.get_by_role("button", name="Record")
    record.click()
    expect(record).to_have_attribute("aria-pressed", "true")
    yield
    with page.expect_download() as download:
        record.click()
    download.value.save_as(file)


def frames_of(file: Path) -> list[tuple[float, int]]:
    """Return the time of each frame of a file of H.264, and the number in its pixels."""
    with av.open(str(file)) as video:
        (stream,) = video.streams.video
        assert stream.codec_context.name == "h264"
        return [(float(each.time or 0), number_in(each.to_ndarray(format="rgb24"))) for each in video.decode(stream)]


def wait_for_frames(page: Page, count: int) -> None:
    """Wait until so many more frames are decoded."""
    page.wait_for_function("most => decoded > most", arg=page.evaluate("decoded") + count)


def test_a_recording_of_video_has_what_came_from_the_next_key_on(page: Page, tmp_path: Path) -> None:
    page.evaluate("delete window.MediaRecorder")
    began_s = time.monotonic()
    wait_for_frames(page, 5)
    with recording(page, tmp_path / "a.mp4"):
        wait_for_frames(page, 60)
    took_s = time.monotonic() - began_s
    shown = frames_of(tmp_path / "a.mp4")
    (_, first), *_ = shown
    numbers = [number for _, number in shown]
    assert numbers == sorted(set(numbers))
    assert len(numbers) > 30
    times_s = [at_s for at_s, _ in shown]
    assert (times_s[0], times_s) == (0, sorted(times_s))
    # A busy machine makes fewer than 30 frames a second.
    assert (numbers[-1] - first) / 30 - 0.1 < times_s[-1] < took_s + 0.5


def test_a_recording_of_video_goes_on_while_the_page_is_hidden(page: Page, tmp_path: Path) -> None:
    wait_for_frames(page, 5)
    with recording(page, tmp_path / "a.mp4"):
        page.evaluate(HIDE, True)
        wait_for_frames(page, 60)
        page.evaluate(HIDE, False)
    numbers = [number for _, number in frames_of(tmp_path / "a.mp4")]
    assert numbers == sorted(set(numbers))
    assert len(numbers) > 30


def test_a_page_that_was_hidden_shows_video_again(page: Page) -> None:
    page.wait_for_function("() => decoded > 5")
    page.evaluate(HIDE, True)
    page.evaluate(HIDE, False)
    before = page.evaluate("decoded")
    page.wait_for_function("before => decoded > before + 5", arg=before)
    check(page)
    assert page.evaluate("failed") == 0


def test_a_reader_of_files_gets_jpegs_and_a_reader_of_images_gets_video(page: Page) -> None:
    kinds = page.evaluate("""async () => {
      const { connect } = await import("/reactor.js");
      const session = connect(location.href, { role: "viewer" });
      const read = async (jpeg, wanted) => {
        for await (const frame of session.frames(null, { jpeg })) {
          frame.bitmap.close();
          if ((frame.jpeg === null) === wanted) return frame.jpeg === null;
        }
      };
      const kinds = [await read(false, true), await read(true, false)];
      session.close();
      return kinds;
    }""")
    assert kinds == [True, False]
