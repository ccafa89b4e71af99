"""What the page's publisher sends: files the server reads, the newest picture only, and sound in order."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
import simplejpeg
from playwright.sync_api import Page

from reactor_runtime.media import wav
from reactor_runtime.wire.containers import detach

RIG = """
async ([pictures, sound]) => {
  const { Publisher } = await import("/static/client/publish/publisher.js");
  const { withHeader } = await import("/static/client/publish/media_writer.js");
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const text = (file) => btoa(Array.from(file, (byte) => String.fromCharCode(byte)).join(""));
  const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const session = Object.assign(new EventTarget(), { role: "controller" });
  Object.defineProperty(session, "maySend", { get() { return this.role === "controller"; } });
  session.limits = {};
  session.tracks = [["camera", "video"], ["depth", "video"], ["voice", "audio"]].map(
    ([name, kind]) => ({ name, kind, direction: "in", sampleRate: 16000 }));
  const tell = (name, detail) => session.dispatchEvent(new CustomEvent(name, { detail }));
  const connection = {
    unsentBytes: 0,
    sent: [],
    pings: [],
    sendBytes(file) { this.sent.push(text(file)); return true; },
    notify(type, { t }) { this.pings.push(t); return true; },
    answer() { tell("pong", { t: this.pings.shift() }); },
  };
  const publisher = new Publisher({ session, connection, closing: new AbortController().signal });
  const offer = (track, file) => publisher.publish(track, bytes(file));
  %s
}
"""
JPEG = simplejpeg.encode_jpeg(np.full((8, 8, 3), 90, np.uint8))
WAV = wav.encode(np.zeros((1, 4_000), np.int16), 16_000)  # a quarter of a second


def play(still: Page, script: str, *pictures: bytes) -> Any:
    arguments = [[base64.b64encode(each).decode() for each in pictures], base64.b64encode(WAV).decode()]
    return still.evaluate(RIG % script, arguments)


@pytest.mark.parametrize("track", ["camera", "Kamera №2 links"])
@pytest.mark.parametrize("file", [JPEG, WAV], ids=["picture", "sound"])
def test_the_server_reads_the_track_and_finds_the_file_as_it_was(still: Page, track: str, file: bytes) -> None:
    script = f"return text(withHeader({track!r}, bytes(pictures[0])));"
    header, rest = detach(base64.b64decode(play(still, script, file)))
    assert header is not None
    assert header.track == track
    assert rest == file


def test_each_frame_of_a_source_has_its_time_and_its_metadata(still: Page) -> None:
    script = """
    const canvas = Object.assign(document.createElement("canvas"), { width: 16, height: 16 });
    canvas.getContext("2d").fillRect(0, 0, 8, 8);
    let made = 0;
    const [started, before] = [performance.now(), Date.now()];
    const capture = await publisher.publish("camera", canvas, { metadata: () => ({ made: made++ }) });
    while (connection.sent.length < 4) {
      await later(10);
      if (connection.pings.length) connection.answer();
    }
    capture.stop();
    return [1000 * started, 1000 * before, 1000 * Date.now(), connection.sent];
    """
    started, before, after, sent = play(still, script)
    headers = [detach(base64.b64decode(each))[0] for each in sent]
    assert [header and header.metadata for header in headers] == [b'{"made":%d}' % number for number in range(4)]
    times = [header.wall_us for header in headers if header is not None]
    assert before <= times[0] < times[1] < times[2] < times[3] <= after
    assert all(header is not None and header.pts_us >= started - 2000 for header in headers)


def test_a_source_whose_metadata_can_not_be_sent_ends(still: Page) -> None:
    script = """
    const canvas = Object.assign(document.createElement("canvas"), { width: 16, height: 16 });
    canvas.getContext("2d").fillRect(0, 0, 8, 8);
    const capture = await publisher.publish("camera", canvas, { metadata: "text" });
    return new Promise((resolve) => capture.addEventListener("ended", ({ detail }) => resolve(`${detail.error}`)));
    """
    assert play(still, script) == 'TypeError: camera: metadata is an object or bytes, not "text"'


def test_what_is_no_picture_and_no_sound_is_refused(still: Page) -> None:
    with pytest.raises(Exception, match="TypeError: camera: 3 bytes that are no JPEG, NPY or WAV"):
        play(still, "await offer('camera', pictures[0]);", b"png")


def test_a_track_that_does_not_take_it_is_told_which_do(still: Page) -> None:
    words = {
        "kamera": "the model takes no track kamera; it takes camera, depth, voice",
        "voice": "voice takes sound, not video",
    }
    for track, why in words.items():
        with pytest.raises(Exception, match=f"TypeError: {why}"):
            play(still, f"await offer({track!r}, pictures[0]);", JPEG)


def test_what_is_larger_than_the_server_takes_is_refused(still: Page) -> None:
    most = len(JPEG) + 512
    script = f"session.limits = {{ max_media_bytes: {most} }}; return await offer('camera', pictures[0]);"
    assert play(still, script, JPEG) is True
    with pytest.raises(Exception, match=f"RangeError: camera: {len(JPEG) + 1} bytes are too many; at most {most}"):
        play(still, script, JPEG + b"\0")


def test_what_is_no_source_is_refused(still: Page) -> None:
    with pytest.raises(Exception, match="TypeError: nothing that can be published"):
        play(still, "await publisher.publish('camera', document.body);")


def test_nobody_takes_anything_without_a_session_of_one_s_own(still: Page) -> None:
    script = "session.role = 'viewer'; return [await offer('camera', pictures[0]), await offer('voice', sound)];"
    assert play(still, script, JPEG) == [False, False]


def test_while_the_line_is_busy_only_the_newest_picture_of_each_track_waits(still: Page) -> None:
    script = """
    connection.unsentBytes = 100000;
    const offered = pictures.flatMap((picture) => [offer("camera", picture), offer("depth", picture)]);
    await later(0);
    const early = connection.sent.length;
    connection.unsentBytes = 0;
    return [early, await Promise.all(offered), connection.sent];
    """
    pictures = [simplejpeg.encode_jpeg(np.full((8, 8, 3), level, np.uint8)) for level in (10, 20, 30)]
    early, went, sent = play(still, script, *pictures)
    assert early == 0
    assert went == [False, False, False, False, True, True]
    read = [detach(base64.b64decode(each)) for each in sent]
    assert [(header and header.track, file) for header, file in read] == [
        ("camera", pictures[2]),
        ("depth", pictures[2]),
    ]


def test_what_waits_when_the_session_ends_is_not_for_the_next_one(still: Page) -> None:
    script = """
    connection.unsentBytes = 100000;
    const went = offer("camera", pictures[0]);
    await later(0);
    tell("status", { phase: "ended", role: null });
    return [await went, connection.sent.length];
    """
    assert play(still, script, JPEG) == [False, 0]


def at_times(script: str) -> str:
    """Return a script in which the time is `now`, in ms, which the script sets."""
    return f"""
    let now = 0;
    performance.now = () => now;
    try {{
      {script}
    }} finally {{
      delete performance.now;
    }}
    """


def test_a_server_that_takes_one_in_100_ms_is_sent_no_more_and_none_waits_long(still: Page) -> None:
    script = at_times("""
      let taken = 0, most = 0, offered = 0;
      while (taken < 20) {
        now += 5;
        offer("camera", pictures[0]);
        offered += 1;
        await later(0);
        now += 5;
        if (now % 100 === 0 && connection.pings.length) {
          taken += 1;
          connection.answer();
          await later(0);
        }
        most = Math.max(most, connection.sent.length - taken);
      }
      return [offered, connection.sent.length - taken, most];
    """)
    offered, unread, most = play(still, script, JPEG)
    assert offered == 200
    assert unread <= most <= 2


def test_who_awaits_each_picture_makes_as_many_as_the_server_takes(still: Page) -> None:
    script = at_times("""
      let made = 0, isOver = false;
      const makeThem = async () => { for (; !isOver; made += 1) await offer("camera", pictures[0]); };
      const making = makeThem();
      await later(0);
      const before = made;
      for (let i = 0; i < 5; i += 1) {
        now += 30;
        connection.answer();
        await later(0);
      }
      isOver = true;
      while (connection.pings.length) connection.answer();
      await making;
      return [before, made, connection.sent.length];
    """)
    before, made, sent = play(still, script, JPEG)
    assert before <= 1
    assert made == sent <= 10


def test_sound_that_would_wait_long_is_left_out_and_said_so(still: Page) -> None:
    script = """
    const went = [];
    for (let i = 0; i < 6; i += 1) went.push(await offer("voice", sound));
    connection.answer();
    connection.answer();
    went.push(await offer("voice", sound));
    return [went.join(), connection.sent.length];
    """
    went, sent = play(still, script, JPEG)
    assert went == "true,true,true,true,false,false,true"
    assert sent == 5
