/** Shows one video track on a canvas: the newest frame whose time has come; what is older than that is never painted. */

const EARLY_MS = 8; // half a repaint: the next one may be later than this one is early
const MOST_WAITING = 6;

export class Screen {
  #canvas;
  #context;
  #handlers;
  #epoch = 0;
  #decoding = false;
  #undecoded = null;
  #waiting = []; // {header, bitmap, at}: decoded, to be painted from `at` on
  #asked = false; // for a repaint
  #lastSeq = null;

  /**
   * `handlers`: painted(header, skipped); broken(header, error) for what can't be decoded; paintAt(header, now) when to paint
   * a frame at the earliest, on performance.now()'s clock. `header` is null for a frame without one.
   */
  constructor(canvas, handlers) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d", { alpha: false });
    this.#handlers = handlers;
  }

  show(header, bytes) {
    this.#undecoded = { header, bytes };
    if (!this.#decoding) this.#decode();
  }

  /** A new session: nothing still under way belongs on screen. */
  restart() {
    this.#epoch += 1;
    this.#undecoded = null;
    this.#drop(this.#waiting.length);
    this.skipGap();
  }

  /** Frames left out on our own wish (hidden tab) are no skipped frames. */
  skipGap() {
    this.#lastSeq = null;
  }

  async #decode() {
    this.#decoding = true;
    while (this.#undecoded) {
      const { header, bytes } = this.#undecoded;
      const epoch = this.#epoch;
      this.#undecoded = null;
      try {
        const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/jpeg" }));
        if (epoch === this.#epoch) this.#schedule(header, bitmap);
        else bitmap.close();
      } catch (error) {
        if (epoch === this.#epoch) this.#handlers.broken(header, error);
      }
    }
    this.#decoding = false;
  }

  #schedule(header, bitmap) {
    const now = performance.now();
    if (header) header.decodedAt = now;
    this.#waiting.push({ header, bitmap, at: header ? this.#handlers.paintAt(header, now) : now });
    this.#drop(this.#waiting.length - MOST_WAITING);
    this.#ask();
  }

  #ask() {
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => this.#repaint());
  }

  #drop(count) {
    for (const { bitmap } of this.#waiting.splice(0, Math.max(0, count))) bitmap.close();
  }

  #repaint() {
    const now = performance.now();
    this.#asked = false;
    this.#drop(this.#waiting.findLastIndex(({ at }) => at - EARLY_MS <= now));
    if (this.#waiting[0]?.at - EARLY_MS <= now) this.#paint(this.#waiting.shift());
    if (this.#waiting.length) this.#ask();
  }

  #paint({ header, bitmap }) {
    const canvas = this.#canvas;
    if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) {
      canvas.width = bitmap.width;
      canvas.height = bitmap.height;
    }
    this.#context.drawImage(bitmap, 0, 0);
    bitmap.close();
    this.#handlers.painted(header, header ? this.#gap(header) : 0);
  }

  #gap({ seq, held }) {
    const last = this.#lastSeq;
    this.#lastSeq = held ? null : seq;
    return last === null || seq <= last ? 0 : seq - last - 1;
  }
}
