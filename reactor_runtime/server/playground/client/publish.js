/**
 * Pictures and sound on their way to the model: each file gets the header that names its track. There is never a queue: while
 * the connection is busy a picture waits, and a newer one of its track takes its place; sound that would wait long is left out.
 */

const FIXED_BYTES = 27; // version … length of the track name
const FREE_BYTES = 4096; // so little unsent delays nobody: events, acknowledgements
const MOST_SOUND_BYTES = 65536;
const LOOK_MS = 5; // browsers don't tell when a socket has sent
const utf8 = new TextEncoder();

/** Return the JPEG or WAV `file` (Uint8Array) with the header for `track`; throws TypeError for other files. */
export function withHeader(track, file) {
  const name = utf8.encode(track);
  const fields = new Uint8Array(FIXED_BYTES + name.length);
  fields[0] = 1; // version
  fields[FIXED_BYTES - 1] = name.length;
  fields.set(name, FIXED_BYTES);
  if (isJpeg(file)) return join(file.subarray(0, 2), jpegSegment(fields), file.subarray(2));
  if (isWav(file)) return wavWith(fields, file);
  throw new TypeError(`${track}: ${file.length} bytes that are neither JPEG nor WAV`);
}

const isJpeg = (file) => file[0] === 0xff && file[1] === 0xd8;
const isWav = (file) => file.length >= 12 && String.fromCharCode(...file.subarray(0, 4), ...file.subarray(8, 12)) === "RIFFWAVE";

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

export class Publisher {
  #connection;
  #waiting = new Map(); // track → picture
  #timer = 0;

  /** `connection` has sendBytes(bytes), unsentBytes and may have limits, as Connection. */
  constructor(connection) {
    this.#connection = connection;
  }

  /** Throws TypeError for what can't become a picture or a sound of the session's model. */
  expect({ role, tracks }, track, source) {
    const known = tracks.filter(({ direction }) => direction === "in").map(({ name }) => name);
    if (role && !known.includes(track)) throw new TypeError(`the model takes no track ${track}; it takes ${known.join(", ") || "none"}`);
    const isFile = source instanceof Blob || source instanceof ArrayBuffer || ArrayBuffer.isView(source);
    if (!isFile && !globalThis.MediaStreamTrack) throw new TypeError("JPEG and WAV, as bytes or Blob, are all that can be published here");
  }

  /** Whether a picture would go out at once: who makes them only for this needn't make one while not. */
  get free() {
    return this.#connection.unsentBytes <= FREE_BYTES;
  }

  /** Send a JPEG or WAV (ArrayBuffer or Uint8Array) as the newest of `track`; false for what is left out. Throws for other bytes. */
  publish(track, bytes) {
    const file = new Uint8Array(bytes.buffer ?? bytes, bytes.byteOffset ?? 0, bytes.byteLength);
    const message = withHeader(track, file);
    const { max_media_bytes: most = Infinity } = this.#connection.limits ?? {};
    if (message.length > most) throw new RangeError(`${track}: ${file.length} bytes are too many; at most ${most} with the header`);
    if (isWav(file)) return this.#connection.unsentBytes < MOST_SOUND_BYTES && this.#connection.sendBytes(message);
    if (this.free && !this.#waiting.size) return this.#connection.sendBytes(message);
    this.#waiting.delete(track); // so that it comes last: tracks take turns
    this.#waiting.set(track, message);
    this.#timer ||= setTimeout(() => this.#goOn(), LOOK_MS);
    return true;
  }

  /** Forget what waits: the session it was for is over. */
  clear() {
    this.#waiting.clear();
  }

  #goOn() {
    this.#timer = 0;
    for (const [track, message] of this.#waiting) {
      if (!this.free) break;
      this.#waiting.delete(track);
      this.#connection.sendBytes(message);
    }
    if (this.#waiting.size) this.#timer = setTimeout(() => this.#goOn(), LOOK_MS);
  }
}
