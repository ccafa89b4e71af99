/** Reads the server's JPEGs and WAVs: the header with track, number, times and metadata, and the samples of a WAV. */

import { MediaError } from "./errors.js";

const [RIFF, RCTR, FMT, DATA] = [0x52494646, 0x72637472, 0x666d7420, 0x64617461];
// "REACTOR" and a zero byte.
export const MAGIC = 0x52454143544f5200n;
const VERSION = 1;
// From the version to the length of the track name.
const FIXED_BYTES = 27;
const AFTER_FLUSH = 1;
const HELD = 2;
const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Return {kind: "jpeg", header}, with header null in other JPEGs, or {kind: "wav", header, sampleRate, channels,
 * samples}, with samples an interleaved Int16Array. Throws MediaError.
 */
export function readFile(buffer) {
  const view = new DataView(buffer);
  if (view.byteLength >= 4 && view.getUint16(0) === 0xffd8) return { kind: "jpeg", header: jpegHeader(view) };
  if (view.byteLength >= 12 && view.getUint32(0) === RIFF) return { kind: "wav", ...readWav(view) };
  throw new MediaError(`${view.byteLength} bytes that are neither JPEG nor WAV`);
}

function jpegHeader(view) {
  if (view.getUint16(2) !== 0xffef || view.byteLength < 14) return null;
  if (view.getBigUint64(6) !== MAGIC) return null;
  return fields(view, 14, 4 + view.getUint16(4));
}

function readWav(view) {
  let header;
  let format;
  for (let at = 12; at + 8 <= view.byteLength; ) {
    const [name, size, start] = [view.getUint32(at), view.getUint32(at + 4, true), at + 8];
    if (start + size > view.byteLength) throw new MediaError("the sound is cut short");
    if (name === RCTR) header = fields(view, start, start + size);
    if (name === FMT && size >= 16) format = readFormat(view, start);
    if (name === DATA && header && format)
      return { header, ...format, samples: new Int16Array(view.buffer, start, size >> 1) };
    at = start + size + (size & 1);
  }
  throw new MediaError("a WAV without header, format or samples");
}

function readFormat(view, start) {
  const channels = view.getUint16(start + 2, true);
  const bits = view.getUint16(start + 14, true);
  if (bits !== 16 || channels < 1 || channels > 2)
    throw new MediaError(`a WAV with ${channels} channels of ${bits} bits`);
  return { channels, sampleRate: view.getUint32(start + 4, true) };
}

/** Return the header between two places; `ptsS` is in seconds since the session's start. */
export function fields(view, start, end) {
  if (end > view.byteLength || end - start < FIXED_BYTES) throw new MediaError("the header is cut short");
  const version = view.getUint8(start);
  if (version !== VERSION) throw new MediaError(`header version ${version}, this page knows ${VERSION}`);
  const nameStart = start + FIXED_BYTES;
  const nameEnd = nameStart + view.getUint8(nameStart - 1);
  if (nameEnd > end) throw new MediaError("the track name is cut short");
  const flags = view.getUint8(start + 1);
  return {
    afterFlush: (flags & AFTER_FLUSH) !== 0,
    held: (flags & HELD) !== 0,
    seq: view.getUint32(start + 2),
    ptsS: Number(view.getBigUint64(start + 6)) / 1e6,
    wallUs: Number(view.getBigUint64(start + 14)),
    applied: view.getUint32(start + 22),
    track: textOf(new Uint8Array(view.buffer, nameStart, nameEnd - nameStart), "the track name"),
    metadata: nameEnd === end ? null : readMetadata(new Uint8Array(view.buffer, nameEnd, end - nameEnd)),
  };
}

export function textOf(bytes, what) {
  try {
    return utf8.decode(bytes);
  } catch {
    throw new MediaError(`${what} is not UTF-8`);
  }
}

function readMetadata(bytes) {
  const text = textOf(bytes, "the metadata");
  let metadata = null;
  try {
    metadata = JSON.parse(text);
  } catch (error) {
    throw new MediaError(`metadata that is not JSON: ${error.message}`);
  }
  if (typeof metadata !== "object" || !metadata || Array.isArray(metadata))
    throw new MediaError("metadata that is no JSON object");
  return metadata;
}
