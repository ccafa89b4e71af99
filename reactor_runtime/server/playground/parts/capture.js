/**
 * The way of a source's pictures to the model: from the source to the worker that encodes them, and from there to the socket. The
 * worker is asked for a picture when the connection has room for one, so none is made to wait.
 */

import { Beat } from "./beat.js";
import { Lane } from "./lane.js";

const NOBODY_MS = 500; // how soon to try again where there is no session to send to

export class Capture {
  #lane;
  #told;
  #settings;
  #worker = new Worker(new URL("encoder.js", import.meta.url), { type: "module" });
  #asked = false; // for the next picture, until it has come
  #copied = false; // and it is being encoded, where the pictures are copies
  #timer = 0;
  #stopTicks = () => {};

  /**
   * `link` is as Lane wants it, `settings` are {fps, width, height}. `told` is called with {bytes, width, height} for a picture sent,
   * {skipped: 1} for one left out, {nobody: true} for one that nobody takes, and {failed: words}.
   */
  constructor(link, track, settings, told) {
    this.#lane = new Lane(link, track, { room: () => this.#ask() });
    this.#told = told;
    this.#settings = settings;
    this.#worker.postMessage({ settings });
    this.#worker.onmessage = ({ data }) => this.#encoded(data);
    this.#worker.onerror = (event) => told({ failed: event.message || "the encoder can't be loaded" });
  }

  /** Take pictures of `source`; gives whether that goes on while the page is hidden. */
  start(source) {
    const frames = source.stream && framesOf(source.stream);
    if (frames) this.#worker.postMessage({ frames }, [frames]);
    else this.#stopTicks = this.#follow(source);
    this.#ask();
    return Boolean(frames);
  }

  end() {
    this.#lane.end();
    this.#stopTicks();
    clearTimeout(this.#timer);
    this.#worker.terminate();
  }

  #ask() {
    if (this.#asked || !this.#lane.hasRoom) return;
    this.#asked = true;
    this.#worker.postMessage({ go: true });
  }

  /** Where the browser gives no stream of frames: a copy of what is shown, whenever that is another picture. */
  #follow(source) {
    const beat = new Beat();
    return source.each(async () => {
      if (document.hidden || !beat.isDue(performance.now(), this.#settings.fps)) return;
      if (!this.#asked || this.#copied) return this.#skip();
      this.#copied = true;
      const bitmap = await createImageBitmap(source.view).catch(() => null);
      if (bitmap) this.#worker.postMessage({ bitmap }, [bitmap]);
      else this.#copied = false; // nothing to see yet
    });
  }

  #encoded({ jpeg, width, height, skipped, failed }) {
    if (skipped) return this.#skip();
    this.#asked = this.#copied = false;
    if (failed) this.#told({ failed });
    else if (this.#lane.publish(jpeg)) this.#told({ bytes: jpeg.byteLength, width, height });
    else return this.#waitForSomebody();
    this.#ask();
  }

  /** Browsers don't tell when a socket has room again, so each picture that finds none looks for the next. */
  #skip() {
    this.#told({ skipped: 1 });
    this.#ask();
  }

  #waitForSomebody() {
    this.#told({ nobody: true });
    this.#timer = setTimeout(() => this.#ask(), NOBODY_MS);
  }
}

/** A stream of VideoFrame that can be given to a worker, or null: not every browser has it, and none from plain http. */
function framesOf(stream) {
  const [track] = stream.getVideoTracks();
  return "MediaStreamTrackProcessor" in window ? new MediaStreamTrackProcessor({ track }).readable : null;
}
