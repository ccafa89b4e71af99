/** Writes WAVs and NPYs, and the header of a file with its track, its times and its metadata; media.js reads them. */

// From the version to the length of the track name.
const FIXED_BYTES = 27;
// Of the track name and the metadata, in the segment of a JPEG.
const MOST_BYTES = 65498;
const utf8 = new TextEncoder();
const NOTHING = new Uint8Array(0);
const MAGIC = "REACTOR\0";
const KINDS = { video: "video", audio: "sound" };

/**
 * Return what goes with a frame or a piece of sound that was captured `ageMs` ago: {ptsUs, captureTimeUs, metadata},
 * with the metadata as bytes. `options` are those of publish(). Throws TypeError and RangeError.
 */
export function stampOf(track, { metadata, captureTimeUs } = /** @type {any} */ ({}), ageMs = 0) {
  captureTimeUs ??= 1000 * (Date.now() - ageMs);
  if (!(captureTimeUs >= 0 && captureTimeUs < 2 ** 64))
    throw new RangeError(`${track}: captureTimeUs is microseconds since the epoch, not ${captureTimeUs}`);
  const ptsUs = 1000 * Math.max(0, performance.now() - ageMs);
  return { ptsUs, captureTimeUs, metadata: encoded(track, typeof metadata === "function" ? metadata() : metadata) };
}

/** Return the bytes of an ArrayBuffer or a view of one. */
export const bytesOf = (source) => new Uint8Array(source.buffer ?? source, source.byteOffset ?? 0, source.byteLength);

/** Return the bytes of metadata as the model gets them. */
function encoded(track, metadata) {
  if (metadata === undefined || metadata === null) return NOTHING;
  if (typeof metadata !== "object" || Array.isArray(metadata))
    throw new TypeError(`${track}: metadata is an object or bytes, not ${JSON.stringify(metadata)}`);
  const isBytes = metadata instanceof ArrayBuffer || ArrayBuffer.isView(metadata);
  const bytes = isBytes ? bytesOf(metadata).slice() : utf8.encode(JSON.stringify(metadata));
  const most = MOST_BYTES - utf8.encode(track).length;
  if (bytes.length > most)
    throw new RangeError(`${track}: metadata of ${bytes.length} bytes; at most ${most} go with a frame`);
  return bytes;
}

/** Return the JPEG, NPY or WAV `file` (Uint8Array) with the header for `track`; `stamp` is of stampOf(). */
export function withHeader(track, file, { ptsUs = 0, captureTimeUs = 0, metadata = NOTHING } = {}) {
  const name = utf8.encode(track);
  const fields = new Uint8Array(FIXED_BYTES + name.length + metadata.length);
  const view = new DataView(fields.buffer);
  fields[0] = 1;
  view.setBigUint64(6, BigInt(Math.round(ptsUs)));
  view.setBigUint64(14, BigInt(Math.round(captureTimeUs)));
  fields[FIXED_BYTES - 1] = name.length;
  fields.set(name, FIXED_BYTES);
  fields.set(metadata, FIXED_BYTES + name.length);
  if (kindOf(file) === "audio") return wavWith(fields, file);
  if (isNpy(file)) return join(file, fields, bigEndian(fields.length), utf8.encode(MAGIC));
  return join(file.subarray(0, 2), jpegSegment(fields), file.subarray(2));
}

/** Return the description of an input track, which takes this kind of media. */
export function findInput({ tracks }, name, kind) {
  const known = tracks.filter(({ direction }) => direction === "in");
  const track = known.find((each) => each.name === name);
  if (!track)
    throw new TypeError(
      `the model takes no track ${name}; it takes ${known.map((each) => each.name).join(", ") || "none"}`,
    );
  if (track.kind !== kind) throw new TypeError(`${name} takes ${KINDS[track.kind]}, not ${KINDS[kind]}`);
  return track;
}

const isNpy = (file) => file[0] === 0x93 && String.fromCharCode(...file.subarray(1, 6)) === "NUMPY";

/** Return "video" for a JPEG or an NPY, "audio" for a WAV, null for other files. */
export function kindOf(file) {
  if ((file[0] === 0xff && file[1] === 0xd8) || isNpy(file)) return "video";
  const isWav =
    file.length >= 12 && String.fromCharCode(...file.subarray(0, 4), ...file.subarray(8, 12)) === "RIFFWAVE";
  return isWav ? "audio" : null;
}

function jpegSegment(fields) {
  const length = 2 + 8 + fields.length;
  return join([0xff, 0xef, length >> 8, length & 0xff], utf8.encode(MAGIC), fields);
}

function wavWith(fields, file) {
  const chunk = join(utf8.encode("rctr"), littleEndian(fields.length), fields, new Uint8Array(fields.length % 2));
  const size = new DataView(file.buffer, file.byteOffset).getUint32(4, true);
  return join(file.subarray(0, 4), littleEndian(size + chunk.length), file.subarray(8, 12), chunk, file.subarray(12));
}

const bigEndian = (value) => littleEndian(value).reverse();

const littleEndian = (value) => new Uint8Array(new Uint32Array([value]).buffer);

function join(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** Return the pixels of an ImageData as an NPY file, without alpha. */
export function makeNpy({ width, height, data }) {
  const shape = `{'descr': '|u1', 'fortran_order': False, 'shape': (${height}, ${width}, 3), }`;
  // Pixels begin at a multiple of 64 bytes.
  const length = Math.ceil((10 + shape.length + 1) / 64) * 64 - 10;
  const head = utf8.encode(`${shape.padEnd(length - 1)}\n`);
  const pixels = new Uint8Array(width * height * 3);
  for (let from = 0, to = 0; to < pixels.length; from++) if (from % 4 !== 3) pixels[to++] = data[from];
  return join([0x93], utf8.encode("NUMPY"), [1, 0, length & 0xff, length >> 8], head, pixels);
}

/** Return 16-bit samples of one channel as a WAV file. */
export function makeWav(samples, sampleRate) {
  const file = new Uint8Array(44 + samples.byteLength);
  const view = new DataView(file.buffer);
  const word = (at, text) =>
    file.set(
      Array.from(text, (letter) => letter.charCodeAt(0)),
      at,
    );
  word(0, "RIFF");
  view.setUint32(4, file.length - 8, true);
  word(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  // PCM, one channel.
  view.setUint16(20, 1, true);
  view.setUint16(22, 1, true);
  view.setUint32(24, sampleRate, true);
  view.setUint32(28, 2 * sampleRate, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  word(36, "data");
  view.setUint32(40, samples.byteLength, true);
  file.set(new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength), 44);
  return file;
}
