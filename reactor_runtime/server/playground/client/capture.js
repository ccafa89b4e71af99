/** Sends what a camera, a video or a canvas shows, or what a microphone hears, until it is stopped. */

/** What is being published; see Capture in reactor.d.ts. */
class Capture extends EventTarget {
  background = false;
  #over = new AbortController();

  /** Aborts when it is over. */
  get signal() {
    return this.#over.signal;
  }

  stop() {
    this.end(null);
  }

  /** `error` says why, where nobody has stopped it. */
  end(error) {
    if (this.#over.signal.aborted) return;
    this.#over.abort();
    this.tell("ended", { error });
  }

  tell(name, detail = {}) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}

/** `link` is as Publisher's, `track` as the welcome describes it. Rejects for a source that can't be read. */
export async function capture(link, track, source, options) {
  const made = new Capture();
  link.closing.addEventListener("abort", () => made.stop(), { signal: made.signal });
  if (link.closing.aborted) made.stop();
  if (source instanceof MediaStreamTrack) source.addEventListener("ended", () => made.stop(), { signal: made.signal });
  try {
    if (track.kind === "audio") {
      const { hear } = await import("./hearing.js");
      await hear(link, track, source, made);
    } else {
      const { Pictures } = await import("./pictures.js");
      await new Pictures(link, track.name, options, made).start(source);
    }
  } catch (error) {
    made.stop();
    throw error;
  }
  return made;
}

/** "video" or "audio". */
export function kindOfSource(source) {
  if (!globalThis.MediaStreamTrack) throw new TypeError("JPEG and WAV, as bytes or Blob, are all that can be published here");
  const isA = (name) => globalThis[name] && source instanceof globalThis[name];
  if (isA("MediaStreamTrack")) return source.kind;
  if (isA("AudioNode")) return "audio";
  if (["HTMLVideoElement", "HTMLCanvasElement", "OffscreenCanvas"].some(isA)) return "video";
  throw new TypeError("nothing that can be published: a MediaStreamTrack, a video, a canvas, an AudioNode, or a JPEG or WAV file");
}
