/** Tells a JPEG from a WAV and reads the APP15 segment of a JPEG; the picture itself is left to the browser's decoder. */

const MAGIC = [0x52, 0x45, 0x41, 0x43, 0x54, 0x4f, 0x52, 0]; // "REACTOR\0"
const RIFF = 0x52494646;
const VERSION = 1;
const FIXED_BYTES = 27; // version … length of the track name
const HELD = 2;
const utf8 = new TextDecoder();

export class MediaError extends Error {}

/** Return {kind: "jpeg" | "wav", header}; header is null where there is none of ours. Throws MediaError for the malformed. */
export function readMedia(buffer) {
  const view = new DataView(buffer);
  if (view.byteLength >= 4 && view.getUint16(0) === 0xffd8) return { kind: "jpeg", header: jpegHeader(view) };
  if (view.byteLength >= 12 && view.getUint32(0) === RIFF) return { kind: "wav", header: null };
  throw new MediaError(`${view.byteLength} bytes that are neither JPEG nor WAV`);
}

function jpegHeader(view) {
  if (view.getUint16(2) !== 0xffef || view.byteLength < 14) return null;
  if (!MAGIC.every((byte, i) => view.getUint8(6 + i) === byte)) return null;
  return fields(view, 14, 4 + view.getUint16(4));
}

function fields(view, start, end) {
  if (end > view.byteLength || end - start < FIXED_BYTES) throw new MediaError("the header is cut short");
  const version = view.getUint8(start);
  if (version !== VERSION) throw new MediaError(`header version ${version}, this page knows ${VERSION}`);
  const nameStart = start + FIXED_BYTES;
  const nameEnd = nameStart + view.getUint8(nameStart - 1);
  if (nameEnd > end) throw new MediaError("the track name is cut short");
  return {
    held: (view.getUint8(start + 1) & HELD) !== 0,
    seq: view.getUint32(start + 2),
    applied: view.getUint32(start + 22),
    track: utf8.decode(new Uint8Array(view.buffer, nameStart, nameEnd - nameStart)),
  };
}
