"""What the page's publisher sends: files the server reads, the newest picture only, and sound in order."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
import simplejpeg
from playwright.sync_api import Page

from reactor_runtime.media import wav
from reactor_runtime.wire.media_header import detach

from .fake_server import FakeServer

RIG = """
async ([pictures, sound]) => {
  const { Publisher, withHeader } = await import("/static/client/publish.js");
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const text = (file) => btoa(Array.from(file, (byte) => String.fromCharCode(byte)).join(""));
  const connection = { unsentBytes: 0, sent: [], sendBytes(file) { this.sent.push(text(file)); return true; } };
  const publisher = new Publisher(connection);
  const offer = (track, file) => publisher.publish(track, bytes(file));
  %s
}
"""
JPEG = simplejpeg.encode_jpeg(np.full((8, 8, 3), 90, np.uint8))
WAV = wav.encode(np.arange(5, dtype=np.int16)[np.newaxis], 16_000)


@pytest.fixture
def rig(page: Page, server: FakeServer) -> Page:
    page.goto(server.url)
    return page


def play(rig: Page, script: str, *pictures: bytes) -> Any:
    arguments = [[base64.b64encode(each).decode() for each in pictures], base64.b64encode(WAV).decode()]
    return rig.evaluate(RIG % script, arguments)


@pytest.mark.parametrize("track", ["camera", "Kamera №2 links"])
@pytest.mark.parametrize("file", [JPEG, WAV], ids=["picture", "sound"])
def test_the_server_reads_the_track_and_finds_the_file_as_it_was(rig: Page, track: str, file: bytes) -> None:
    script = f"offer({track!r}, pictures[0]); return connection.sent;"
    (sent,) = play(rig, script, file)
    header, rest = detach(base64.b64decode(sent))
    assert header is not None
    assert header.track == track
    assert rest == file


def test_what_is_no_picture_and_no_sound_is_refused(rig: Page) -> None:
    with pytest.raises(Exception, match="TypeError: camera: 3 bytes that are neither JPEG nor WAV"):
        play(rig, "offer('camera', pictures[0]);", b"png")


def test_while_the_line_is_busy_only_the_newest_picture_of_each_track_waits(rig: Page) -> None:
    script = """
    connection.unsentBytes = 100000;
    for (const picture of pictures) offer("camera", picture), offer("depth", picture);
    const early = connection.sent.length;
    connection.unsentBytes = 0;
    while (connection.sent.length < 2) await new Promise((resolve) => setTimeout(resolve, 1));
    return [early, connection.sent];
    """
    pictures = [simplejpeg.encode_jpeg(np.full((8, 8, 3), level, np.uint8)) for level in (10, 20, 30)]
    early, sent = play(rig, script, *pictures)
    assert early == 0
    read = [detach(base64.b64decode(each)) for each in sent]
    assert [(header and header.track, file) for header, file in read] == [
        ("camera", pictures[2]),
        ("depth", pictures[2]),
    ]


def test_sound_that_would_wait_long_is_left_out_and_said_so(rig: Page) -> None:
    script = """
    connection.unsentBytes = 5000;
    const first = offer("voice", sound);
    connection.unsentBytes = 100000;
    return [first, offer("voice", sound), connection.sent.length];
    """
    assert play(rig, script) == [True, False, 1]
