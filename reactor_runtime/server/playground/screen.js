/** One canvas for one video track. A frame that waits for the decoder or the next repaint is replaced by a newer one. */

import { el } from "./dom.js";

export class Screen {
  #context;
  #handlers;
  #epoch = 0;
  #decoding = false;
  #undecoded = null;
  #unpainted = null;
  #lastSeq = null;

  /** `handlers`: painted(screen, header, skipped); broken(screen, header, error) for what can't be decoded. */
  constructor(name, handlers) {
    this.name = name;
    this.canvas = el("canvas", { "data-track": name, "data-empty": true, role: "img", "aria-label": name, width: 16, height: 9 });
    this.root = el("figure", { class: "track" }, this.canvas, el("figcaption", {}, name));
    this.#context = this.canvas.getContext("2d", { alpha: false });
    this.#handlers = handlers;
  }

  get isEmpty() {
    return this.canvas.hasAttribute("data-empty");
  }

  show(header, bytes) {
    this.#undecoded = { header, bytes };
    if (!this.#decoding) this.#decode();
  }

  /** A new session: nothing still under way belongs on screen, and what is there is out of date. */
  restart() {
    this.#epoch += 1;
    this.#undecoded = null;
    this.#unpainted?.bitmap.close();
    this.#unpainted = null;
    this.canvas.dataset.stale = "";
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
        if (epoch === this.#epoch) this.#schedule({ header, bitmap });
        else bitmap.close();
      } catch (error) {
        if (epoch === this.#epoch) this.#handlers.broken(this, header, error);
      }
    }
    this.#decoding = false;
  }

  #schedule(frame) {
    if (this.#unpainted) this.#unpainted.bitmap.close();
    else requestAnimationFrame(() => this.#paint());
    this.#unpainted = frame;
  }

  #paint() {
    if (!this.#unpainted) return; // a restart came between
    const { header, bitmap } = this.#unpainted;
    this.#unpainted = null;
    const { canvas } = this;
    if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) {
      canvas.width = bitmap.width;
      canvas.height = bitmap.height;
    }
    this.#context.drawImage(bitmap, 0, 0);
    bitmap.close();
    canvas.removeAttribute("data-empty");
    canvas.removeAttribute("data-stale");
    canvas.dataset.seq = header?.seq ?? "";
    canvas.dataset.applied = header?.applied ?? "";
    this.#handlers.painted(this, header, header ? this.#gap(header) : 0);
  }

  #gap({ seq, held }) {
    const last = this.#lastSeq;
    this.#lastSeq = held ? null : seq;
    return last === null || seq <= last ? 0 : seq - last - 1;
  }
}
