/** Reads the messages of a video stream: pieces of fragmented MP4 with the header in a box `uuid`. */

import { MediaError } from "../errors.js";
import { fields, MAGIC } from "../media.js";

const NAME = { ftyp: 0x66747970, moof: 0x6d6f6f66, moov: 0x6d6f6f76, mdat: 0x6d646174, uuid: 0x75756964 };
const AVC1 = 0x61766331;
const AVCC = 0x61766343;
// From moov down to the descriptions of samples: trak, mdia, minf, stbl, stsd.
const PATH = [0x7472616b, 0x6d646961, 0x6d696e66, 0x7374626c, 0x73747364];
const BOX_BYTES = 8;
const STSD_BYTES = 8;
const AVC1_BYTES = 78;
const USER_TYPE_BYTES = 16;
// A file of empty boxes must cost no more time than a valid one.
const MOST_BOXES = 16;

/** Return whether a binary message is one of a video stream. */
export function isVideo(buffer) {
  if (buffer.byteLength < BOX_BYTES) return false;
  const name = new DataView(buffer).getUint32(4);
  return name === NAME.ftyp || name === NAME.uuid || name === NAME.moof;
}

/**
 * Return {header, config, sample}: `config` is {codec, description, width, height} in a key message, from which decoding
 * can begin, null in others. Throws MediaError.
 */
export function readVideo(buffer) {
  const view = new DataView(buffer);
  const found = new Map();
  for (const box of boxes(view, 0, view.byteLength)) found.set(box.name, box);
  const [mdat, moov, uuid] = [found.get(NAME.mdat), found.get(NAME.moov), found.get(NAME.uuid)];
  if (!mdat || !uuid) throw new MediaError("a piece of MP4 without a sample or a header");
  if (uuid.end - uuid.start < USER_TYPE_BYTES || view.getBigUint64(uuid.start) !== MAGIC)
    throw new MediaError("a piece of MP4 with an unknown header");
  return {
    header: fields(view, uuid.start + USER_TYPE_BYTES, uuid.end),
    config: moov ? readConfig(view, moov) : null,
    sample: new Uint8Array(buffer, mdat.start, mdat.end - mdat.start),
  };
}

/** Yield the boxes between two places; `start` and `end` are those of their content. */
export function* boxes(view, start, end) {
  for (let [at, count] = [start, 0]; at !== end; count += 1) {
    const size = at + BOX_BYTES <= end ? view.getUint32(at) : 0;
    if (size < BOX_BYTES || size > end - at || count === MOST_BOXES)
      throw new MediaError("the piece of MP4 is cut short");
    yield { name: view.getUint32(at + 4), start: at + BOX_BYTES, end: at + size };
    at += size;
  }
}

function readConfig(view, moov) {
  let box = moov;
  for (const name of PATH) box = find(view, name, box.start, box.end);
  const avc1 = find(view, AVC1, box.start + STSD_BYTES, box.end);
  const { start, end } = find(view, AVCC, avc1.start + AVC1_BYTES, avc1.end);
  if (end - start < 7) throw new MediaError("a piece of MP4 that describes no video");
  const description = new Uint8Array(view.buffer.slice(start, end));
  const profile = Array.from(description.subarray(1, 4), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const [width, height] = [view.getUint16(avc1.start + 24), view.getUint16(avc1.start + 26)];
  return { codec: `avc1.${profile}`, description, width, height };
}

function find(view, name, start, end) {
  // Of a box that is shorter than its own fields.
  if (start <= end) for (const box of boxes(view, start, end)) if (box.name === name) return box;
  throw new MediaError("a piece of MP4 that describes no video");
}
