"""The JavaScript client reads the messages of a video stream, and decides when it decodes them."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reactor_runtime.wire.fragmented_mp4 import read_message
from tests.clients.node import node
from tests.video import VideoStream, jpeg

CLIENT = Path(__file__).parents[2] / "reactor_runtime" / "page" / "client"
READ = """
const { readMedia } = await import(process.env.MODULE);
const { readFile } = await import("node:fs/promises");
const bytes = await readFile(process.env.FILES);
const read = [];
for (let at = 0; at < bytes.length; ) {
  const length = bytes.readUInt32BE(at);
  const file = new Uint8Array(bytes.subarray(at + 4, at + 4 + length)).buffer;
  at += 4 + length;
  try {
    const { kind, header, config, sample = [] } = readMedia(file);
    const { codec, description, width, height } = config ?? {};
    read.push([kind, header?.seq, header?.track, codec, width, height, description?.length, sample.length]);
  } catch (error) {
    read.push(error.name === "MediaError" ? "refused" : `${error}`);
  }
}
console.log(JSON.stringify(read));
"""


def read_in_node(files: list[bytes], path: Path) -> list[Any]:
    path.write_bytes(b"".join(struct.pack(">I", len(file)) + file for file in files))
    module = (CLIENT / "read_media.js").as_uri()
    read: list[Any] = json.loads(node("--input-type=module", "-e", READ, MODULE=module, FILES=str(path)))
    return read


def test_a_message_is_read_with_its_header_its_configuration_and_its_sample(tmp_path: Path) -> None:
    stream = VideoStream(90, 120)
    key, other = stream.message(7), stream.message(9, track="depth")
    read = read_in_node([key, other, jpeg(1)], tmp_path / "files")
    config = read_message(key).config
    assert config is not None
    size = [len(config.avcc), len(read_message(key).sample)]
    assert read[0] == ["mp4", 7, "main_video", config.codec, 120, 90, *size]
    assert read[1] == ["mp4", 9, "depth", None, None, None, None, len(read_message(other).sample)]
    assert read[2][:2] == ["jpeg", 1]


def broken(messages: list[bytes]) -> Iterator[bytes]:
    """Yield messages that are cut off and changed at random."""
    chance = random.Random(7)
    for message in messages:
        for _ in range(400):
            yield message[: chance.randrange(len(message))]
            at = chance.randrange(min(700, len(message)))
            yield message[:at] + chance.randbytes(chance.randrange(1, 5)) + message[at + 1 :]


def test_any_bytes_are_read_or_refused_as_malformed(tmp_path: Path) -> None:
    stream = VideoStream(32, 224)
    read = read_in_node(list(broken([stream.message(0), stream.message(1)])), tmp_path / "files")
    assert {each for each in read if isinstance(each, str)} == {"refused"}


# A decoder that returns the frames which a test takes from `pending`, and what a Video does with them.
RIG = """
const { makeVideo } = await import(process.env.MODULE);
const decoders = [];
class Decoder {
  state = "unconfigured";
  pending = [];
  static isConfigSupported = async () => ({ supported: given.supported ?? true });
  constructor(callbacks) {
    Object.assign(this, callbacks);
    decoders.push(this);
  }
  configure(config) {
    this.config = config;
    this.state = "configured";
  }
  decode({ type, timestamp }) {
    if (type === "key") log.push(`key ${timestamp}`);
    this.pending.push({ timestamp, displayWidth: 64, displayHeight: 48, close() {} });
  }
  close() {
    this.state = "closed";
  }
  give(count = 1) {
    for (const frame of this.pending.splice(0, count)) this.output(frame);
  }
}
const [given, log] = [JSON.parse(process.env.GIVEN), []];
const now = { ms: 0 };
const timers = [];
globalThis.isSecureContext = given.secure;
if (!given.without) globalThis.VideoDecoder = Decoder;
globalThis.EncodedVideoChunk = class { constructor(chunk) { Object.assign(this, chunk); } };
globalThis.setTimeout = (call, ms) => timers.push({ call, at: now.ms + ms });
globalThis.clearTimeout = (id) => id && (timers[id - 1].call = () => {});
performance.now = () => now.ms;
const pass = (ms) => {
  now.ms += ms;
  for (const timer of timers.filter(({ at }) => at <= now.ms)) {
    const { call } = timer;
    timer.call = () => {};
    call();
  }
};
const video = await makeVideo({
  show: (header) => log.push(`show ${header.seq}`),
  requestKey: (track) => log.push(`ask ${track}`),
  onGiveUp: () => log.push("give up"),
  emit() {},
});
const config = { codec: "avc1.42c01e", description: new Uint8Array(7), width: 64, height: 48 };
const put = (seq, key = false) =>
  video.put({ header: { seq, track: "main" }, config: key ? config : null, sample: new Uint8Array(4) });
const codecs = (paused = false) => video.follow({ paused, wanted: true });
"""


def run(script: str, **given: object) -> str:
    module = (CLIENT / "video" / "video.js").as_uri()
    printed = node(
        "--input-type=module",
        "-e",
        RIG + script + "\nconsole.log(log.join());",
        MODULE=module,
        GIVEN=json.dumps(given),
    )
    return printed.strip()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "network"),
        ({"secure": False}, "insecure"),
        ({"supported": False}, "unsupported"),
        ({"without": True}, "unsupported"),
    ],
    ids=["works", "insecure", "no H.264", "no WebCodecs"],
)
def test_a_client_that_cannot_decode_requests_nothing_and_says_why(given: dict[str, object], why: str) -> None:
    script = """
        const stats = { why: "network" };
        video.explain(stats);
        log.push(codecs(), stats.why);
    """
    assert run(script, **given) == f"{'h264' if why == 'network' else ''},{why}"


def test_a_stream_without_its_key_is_asked_for_once_in_a_while() -> None:
    script = "put(1); put(2); pass(1999); put(3); pass(1); put(4); put(5, true); decoders[0].give();"
    assert run(script) == "ask main,ask main,key 5,show 5"


def test_an_error_is_followed_by_a_request_and_a_second_one_within_a_minute_by_giving_up() -> None:
    script = """
        put(0, true); decoders[0].error(new Error("broken")); put(1);
        pass(60_000); put(2, true); decoders[1].error(new Error("broken")); put(3);
        pass(59_999); put(4, true); decoders[2].error(new Error("broken")); put(5, true);
        log.push(`codecs ${codecs()}`);
        video.restart(); log.push(`codecs ${codecs()}`);
    """
    assert run(script) == "key 0,ask main,key 2,ask main,key 4,give up,codecs ,codecs h264"


def test_a_decoder_that_the_browser_has_closed_is_made_anew_without_counting_as_an_error() -> None:
    script = """
        for (const seq of [0, 1, 2]) {
          put(seq, true);
          decoders.at(-1).error(Object.assign(new Error("idle"), { name: "QuotaExceededError" }));
        }
    """
    assert run(script) == "key 0,ask main,key 1,ask main,key 2,ask main"


def test_a_decoder_that_holds_frames_back_is_replaced_by_software_and_then_by_jpegs() -> None:
    script = """
        const lag = () => {
          const decoder = decoders.at(-1);
          for (const seq of [1, 2, 3, 4, 5]) {
            put(seq);
            if (decoder.pending.length > 2) decoder.give();
          }
          pass(200);
        };
        put(0, true); lag();
        put(0, true); lag();
        log.push(...decoders.map(({ config }) => config.hardwareAcceleration), `codecs ${codecs()}`);
        video.restart(); log.push(`codecs ${codecs()}`);
    """
    shown = "show 0,show 1,show 2,show 3"
    assert run(script) == (f"key 0,{shown},ask main,key 0,{shown},give up,no-preference,prefer-software,codecs ,codecs")


def test_a_decoder_that_catches_up_after_a_burst_is_kept() -> None:
    script = """
        put(0, true); put(1); put(2); put(3);
        pass(199);
        decoders[0].give(3);
        pass(1);
    """
    assert run(script) == "key 0,show 0,show 1,show 2"


def test_after_a_malformed_message_a_key_is_needed() -> None:
    script = """
        put(0, true);
        video.reset(); put(1); put(2, true);
    """
    assert run(script) == "key 0,ask main,key 2"


def test_nothing_is_decoded_while_paused_and_a_key_is_needed_afterwards() -> None:
    script = """
        put(0, true); decoders[0].give();
        codecs(true); put(1); put(2, true);
        codecs(); put(3); put(4, true); decoders[1].give();
    """
    assert run(script) == "key 0,show 0,ask main,key 4,show 4"
