/** Reads the server's NPYs: the header and the pixels of a frame. */

import { MediaError } from "./errors.js";
import { fields, MAGIC, textOf } from "./media.js";

// After the magic, two bytes of version and two of length.
const NPY_START = 10;
const NPY_HEAD = /^{'descr': '\|u1', 'fortran_order': False, 'shape': \((\d{1,5}), (\d{1,5}), 3\), } *\n$/;

// "\x93NUMPY" and version 1.0.
const MAGIC_AND_VERSION = 0x934e554d50590100n;

export const NPY = {
  matches: (buffer) => buffer.byteLength >= 22 && new DataView(buffer).getBigUint64(0) === MAGIC_AND_VERSION,
  read: (buffer) => ({ kind: "raw", ...readNpy(new DataView(buffer)) }),
  imageSource,
};

/** Return {header, width, height, pixels}; the header comes last: its fields, their length, the magic. */
function readNpy(view) {
  const end = view.byteLength - 12;
  if (view.getBigUint64(end + 4) !== MAGIC) throw new MediaError("an NPY without header");
  const [start, at] = [end - view.getUint32(end), NPY_START + view.getUint16(8, true)];
  if (at > start) throw new MediaError("the NPY is cut short");
  const head = textOf(new Uint8Array(view.buffer, NPY_START, at - NPY_START), "the head of the NPY");
  const [height, width] = NPY_HEAD.exec(head)?.slice(1).map(Number) ?? [];
  if (start - at !== height * width * 3) throw new MediaError("an NPY that holds no frame");
  return { header: fields(view, start, end), width, height, pixels: new Uint8Array(view.buffer, at, start - at) };
}

function imageSource(buffer) {
  const { width, height, pixels } = readNpy(new DataView(buffer));
  const image = new ImageData(width, height);
  for (let from = 0, to = 0; from < pixels.length; to += 4) {
    image.data[to] = pixels[from++];
    image.data[to + 1] = pixels[from++];
    image.data[to + 2] = pixels[from++];
    image.data[to + 3] = 255;
  }
  return image;
}
