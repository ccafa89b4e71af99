"""The JavaScript client reads any bytes as media or refuses them, as the Python client does."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from reactor_runtime.client.media import DECODERS, read_frame, read_header
from reactor_runtime.media import npy, wav
from reactor_runtime.wire.containers import JPEG, attach
from reactor_runtime.wire.media_header import MediaHeader
from tests.clients.node import node

CLIENT = Path(__file__).parents[2] / "reactor_runtime" / "page" / "client"
READ = """
const { readMedia } = await import(process.env.CLIENT);
const { readFile } = await import("node:fs/promises");
const bytes = await readFile(process.env.FILES);
const read = [];
for (let at = 0; at < bytes.length; ) {
  const length = bytes.readUInt32BE(at);
  const file = new Uint8Array(bytes.subarray(at + 4, at + 4 + length)).buffer;
  at += 4 + length;
  try {
    read.push(readMedia(file).header?.metadata ?? null);
  } catch (error) {
    read.push(error.name === "MediaError" ? "refused" : `${error}`);
  }
}
console.log(JSON.stringify(read));
"""
METADATA = (b"", b"{}", b'{"a":[1,"\\u00e9"]}', b"{", b"[1]", b"7", b"null", b"\xff\xfe", b"[" * 60_000)


def files() -> Iterator[bytes]:
    """Yield files that are whole, cut off, and changed at random."""
    chance = random.Random(7)
    sound = wav.encode(np.zeros((1, 9), np.int16), 48_000)
    for metadata in METADATA:
        for file in (b"\xff\xd8\xff\xd9", sound, npy.encode(np.zeros((2, 3, 3), np.uint8))):
            whole = attach(MediaHeader("main", 1, 2, 3, metadata=metadata), file)
            yield whole
            for _ in range(150):
                yield whole[: chance.randrange(len(whole) + 1)]
                at = chance.randrange(min(60, len(whole)))
                yield whole[:at] + chance.randbytes(chance.randrange(1, 5)) + whole[at + 1 :]
                yield chance.randbytes(chance.randrange(80))


def test_the_pixels_of_a_raw_frame_are_read(tmp_path: Path) -> None:
    frame = np.random.default_rng(3).integers(0, 256, (5, 7, 3), np.uint8)
    (tmp_path / "frame").write_bytes(attach(MediaHeader("main", 1, 2, 3), npy.encode(frame)))
    script = """
    const { readMedia } = await import(process.env.CLIENT);
    const { readFile } = await import("node:fs/promises");
    const media = readMedia(new Uint8Array(await readFile(process.env.FILE)).buffer);
    console.log(JSON.stringify([media.kind, media.width, media.height, media.header.seq, [...media.pixels]]));
    """
    arguments = "--input-type=module", "-e", script
    printed = node(*arguments, CLIENT=(CLIENT / "read_media.js").as_uri(), FILE=str(tmp_path / "frame"))
    assert json.loads(printed) == ["raw", 7, 5, 1, frame.ravel().tolist()]


def test_any_bytes_are_read_or_refused_as_malformed(tmp_path: Path) -> None:
    sent = list(files())
    (tmp_path / "files").write_bytes(b"".join(struct.pack(">I", len(file)) + file for file in sent))
    arguments = "--input-type=module", "-e", READ
    printed = node(*arguments, CLIENT=(CLIENT / "read_media.js").as_uri(), FILES=str(tmp_path / "files"))
    read = json.loads(printed)
    assert len(read) == len(sent)
    assert {str(each) for each in read if isinstance(each, str)} == {"refused"}
    for file, metadata in zip(sent, read, strict=True):
        if isinstance(metadata, dict) and JPEG.matches(file):
            frame = read_frame(read_header(JPEG, file), file, DECODERS[JPEG], delay_s=0.0)
            assert frame.metadata == metadata
