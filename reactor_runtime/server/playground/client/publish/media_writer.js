/** Writes WAVs, and the header that names the track of a JPEG or a WAV; media.js reads them. */

// From the version to the length of the track name.
const FIXED_BYTES = 27;
const utf8 = new TextEncoder();

/** Return the JPEG or WAV `file` (Uint8Array) with the header for `track`. */
export function withHeader(track, file) {
  const name = utf8.encode(track);
  const fields = new Uint8Array(FIXED_BYTES + name.length);
  fields[0] = 1;
  fields[FIXED_BYTES - 1] = name.length;
  fields.set(name, FIXED_BYTES);
  if (kindOf(file) === "audio") return wavWith(fields, file);
  return join(file.subarray(0, 2), jpegSegment(fields), file.subarray(2));
}

/** Return "video" for a JPEG, "audio" for a WAV, null for other files. */
export function kindOf(file) {
  if (file[0] === 0xff && file[1] === 0xd8) return "video";
  const isWav =
    file.length >= 12 && String.fromCharCode(...file.subarray(0, 4), ...file.subarray(8, 12)) === "RIFFWAVE";
  return isWav ? "audio" : null;
}

function jpegSegment(fields) {
  const length = 2 + 8 + fields.length;
  return join([0xff, 0xef, length >> 8, length & 0xff], utf8.encode("REACTOR\0"), fields);
}

function wavWith(fields, file) {
  const chunk = join(utf8.encode("rctr"), littleEndian(fields.length), fields, new Uint8Array(fields.length % 2));
  const size = new DataView(file.buffer, file.byteOffset).getUint32(4, true);
  return join(file.subarray(0, 4), littleEndian(size + chunk.length), file.subarray(8, 12), chunk, file.subarray(12));
}

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
