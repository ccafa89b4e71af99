/**
 * Publishes what a camera, a video or a canvas shows, or what a microphone records, until it is stopped.
 * A worker encodes frames; it is asked for one when the connection has room for it, so that no frame waits.
 */

import { RateLimiter } from "./frame_rate.js";
import { makeWav, stampOf } from "./media_writer.js";
import { FrameSender, SoundSender } from "./track_sender.js";

/** A source that is being published; see Capture in reactor.d.ts. */
class Capture extends EventTarget {
  background = false;
  #over = new AbortController();

  /** Aborts at the end. */
  get signal() {
    return this.#over.signal;
  }

  stop() {
    this.end(null);
  }

  /** End; `error` is the reason if nobody called stop(). */
  end(error) {
    if (this.#over.signal.aborted) return;
    this.#over.abort();
    this.emit("ended", { error });
  }

  emit(name, detail = {}) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}

/**
 * Publish a source. `link` is as for Publisher, `track` as in the welcome. Rejects for a source that cannot be read.
 */
export async function capture(link, track, source, options) {
  const published = new Capture();
  link.closing.addEventListener("abort", () => published.stop(), { signal: published.signal });
  if (link.closing.aborted) published.stop();
  if (source instanceof MediaStreamTrack)
    source.addEventListener("ended", () => published.stop(), { signal: published.signal });
  try {
    if (track.kind === "audio") {
      await captureAudio(link, track, source, options?.metadata, published);
    } else {
      await new VideoCapture(link, track.name, options, published).start(source);
    }
  } catch (error) {
    published.stop();
    throw error;
  }
  return published;
}

/** Return "video" or "audio". */
export function kindOfSource(source) {
  if (!globalThis.MediaStreamTrack)
    throw new TypeError("JPEG and WAV, as bytes or Blob, are all that can be published here");
  const isA = (name) => globalThis[name] && source instanceof globalThis[name];
  if (isA("MediaStreamTrack")) return source.kind;
  if (isA("AudioNode")) return "audio";
  if (["HTMLVideoElement", "HTMLCanvasElement", "OffscreenCanvas"].some(isA)) return "video";
  throw new TypeError(
    "nothing that can be published: a MediaStreamTrack, a video, a canvas, an AudioNode, or a JPEG or WAV file",
  );
}

// Delay before the next attempt while there is no session to send to.
const NO_SESSION_MS = 500;
// How often the source is read if the browser does not report new frames.
const POLL_FPS = 60;
const MOST = { fps: 30, width: 4096, height: 4096, quality: 0.85 };

class VideoCapture {
  #sender;
  #session;
  #track;
  // Those that go with each frame.
  #options;
  #settings;
  // The requested rate.
  #mostFps;
  #capture;
  #worker = null;
  // Whether the worker was asked for a frame and has not sent it yet.
  #requested = false;
  #timer = 0;
  // Whether a copied frame is being encoded.
  #copied = false;

  /** `link` is as for TrackSender; events of the `capture` report sent and skipped frames. */
  constructor(link, track, options, capture) {
    this.#sender = new FrameSender(link, track);
    this.#session = link.session;
    this.#track = track;
    const { metadata, ...settings } = options ?? {};
    this.#options = { metadata };
    this.#settings = { ...MOST, ...settings };
    this.#mostFps = this.#settings.fps;
    this.#capture = capture;
    capture.signal.addEventListener("abort", () => this.#end());
  }

  async start(source) {
    const { signal } = this.#capture;
    const track = streamable(source);
    const view = track ? null : await drawable(source, signal);
    if (view) expectReadable(view);
    const worker = await openEncoder();
    this.#worker = worker;
    if (signal.aborted) return this.#end();
    worker.postMessage({ settings: this.#settings });
    worker.onmessage = ({ data }) => this.#onWorkerMessage(data);
    worker.onerror = ({ message }) => this.#capture.end(new Error(message));
    if (track) this.#stream(track);
    else this.#follow(view);
    this.#session.addEventListener("stats", ({ detail }) => this.#limitRate(detail), { signal });
    this.#requestFrame();
  }

  /** Encode no more than the model takes. */
  #limitRate({ inputs = {} }) {
    const fps = Math.min(this.#mostFps, inputs[this.#track]?.wanted ?? Infinity);
    if (fps === this.#settings.fps) return;
    this.#settings = { ...this.#settings, fps };
    this.#worker.postMessage({ settings: this.#settings });
  }

  #stream(track) {
    const frames = new MediaStreamTrackProcessor({ track }).readable;
    this.#worker.postMessage({ frames }, [frames]);
    this.#capture.background = true;
  }

  async #requestFrame() {
    await this.#sender.waitForRoom();
    this.#requested = true;
    this.#worker.postMessage({ go: true });
  }

  /** Copy each new frame of the source, in browsers that give no stream of frames. */
  #follow(view) {
    const limiter = new RateLimiter();
    const step = async () => {
      if (view.ownerDocument?.hidden || !limiter.isDue(performance.now(), this.#settings.fps)) return;
      if (!this.#requested || this.#copied) return this.#skip();
      this.#copied = true;
      await this.#copy(view).catch((error) => {
        this.#copied = false;
        // InvalidStateError: there is no frame yet.
        if (error.name !== "InvalidStateError") this.#capture.end(error);
      });
    };
    onEachFrame(view, this.#mostFps, step, this.#capture.signal);
  }

  async #copy(view) {
    const capturedAt = Date.now();
    const bitmap = await createImageBitmap(view);
    this.#worker.postMessage({ bitmap, capturedAt }, [bitmap]);
  }

  #onWorkerMessage({ jpeg, width, height, capturedAt, skipped, over, failed }) {
    if (this.#capture.signal.aborted) return;
    if (skipped) return this.#skip();
    if (over) return this.#capture.stop();
    this.#requested = this.#copied = false;
    if (failed) return this.#capture.end(new Error(failed));
    const stamp = stampIn(this.#capture, this.#track, this.#options, Date.now() - capturedAt);
    if (!stamp) return;
    if (!this.#sender.send(new Uint8Array(jpeg), stamp)) return this.#waitForSession();
    this.#capture.emit("sent", { bytes: jpeg.byteLength, width, height });
    this.#requestFrame();
  }

  #waitForSession() {
    this.#timer = setTimeout(() => this.#requestFrame(), NO_SESSION_MS);
    this.#capture.emit("nobody");
  }

  #skip() {
    this.#capture.emit("skipped");
    this.#sender.checkRoom();
  }

  #end() {
    clearTimeout(this.#timer);
    this.#sender.end();
    this.#worker?.terminate();
  }
}

/**
 * Return the track whose frames a worker can read as a stream, or null: some browsers lack this, and all outside of
 * https and localhost.
 */
function streamable(source) {
  const track = source instanceof MediaStreamTrack ? source : source.srcObject?.getVideoTracks()[0];
  return (globalThis.MediaStreamTrackProcessor && track) || null;
}

/** Return an element to draw from; a track gets a video element. */
async function drawable(source, signal) {
  if (!(source instanceof MediaStreamTrack)) return source;
  const video = Object.assign(globalThis.document.createElement("video"), { muted: true, playsInline: true });
  video.srcObject = new MediaStream([source]);
  signal.addEventListener("abort", () => (video.srcObject = null));
  await video.play();
  return video;
}

/** Throw SecurityError for frames of another site, which cannot be read. */
function expectReadable(view) {
  if (!(view.videoWidth ?? view.width)) return;
  const context = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  context.drawImage(view, 0, 0, 1, 1);
  context.getImageData(0, 0, 1, 1);
}

/** Call `step` for each new frame. */
function onEachFrame(view, fps, step, signal) {
  if (!view.requestVideoFrameCallback) {
    const timer = setInterval(step, 1000 / (view.videoWidth === undefined ? fps : POLL_FPS));
    signal.addEventListener("abort", () => clearInterval(timer));
    return;
  }
  const next = () => {
    handle = view.requestVideoFrameCallback(() => {
      next();
      step();
    });
  };
  let handle = 0;
  next();
  signal.addEventListener("abort", () => view.cancelVideoFrameCallback(handle));
}

/** Start the worker. Rejects if it cannot be loaded, for example because a bundler did not copy it. */
async function openEncoder() {
  const address = new URL("./encoder_worker.js", import.meta.url);
  try {
    // In the form that bundlers recognise.
    return await started(() => new Worker(new URL("./encoder_worker.js", import.meta.url), { type: "module" }));
  } catch (error) {
    if (address.origin === globalThis.location.origin) throw error;
    const loader = new Blob([`import ${JSON.stringify(address.href)};`], { type: "text/javascript" });
    // A worker has to be of the page's origin; its imports do not.
    const url = URL.createObjectURL(loader);
    return started(() => new Worker(url, { type: "module" })).finally(() => URL.revokeObjectURL(url));
  }
}

async function started(make) {
  const worker = make();
  await new Promise((resolve, reject) => {
    worker.onmessage = resolve;
    worker.onerror = ({ message }) => reject(new Error(message || "the encoder can't be loaded"));
  });
  return worker;
}

/** Send what a microphone or an AudioNode plays; events of the `capture` report sent and skipped pieces. */
async function captureAudio(link, { name, sampleRate }, source, metadata, capture) {
  const node = source instanceof AudioNode ? source : nodeOf(source, capture.signal);
  const context = /** @type {AudioContext} */ (node.context);
  await Promise.all([
    context.audioWorklet.addModule(new URL("../sound/audio_worklet.js", import.meta.url)),
    context.resume(),
  ]);
  if (capture.signal.aborted) return;
  const sender = new SoundSender(link, name);
  /** @type {AudioWorkletNodeOptions} */
  const options = {
    channelCount: 1,
    channelCountMode: "explicit",
    outputChannelCount: [1],
    processorOptions: { rate: sampleRate },
  };
  const microphone = new AudioWorkletNode(context, "reactor-microphone", options);
  microphone.port.onmessage = ({ data: samples }) => {
    if (!sender.hasRoom) return capture.emit("skipped");
    const file = makeWav(samples, sampleRate);
    const seconds = samples.length / sampleRate;
    const stamp = stampIn(capture, name, { metadata }, 1000 * seconds);
    if (!stamp) return;
    if (!sender.send(file, seconds, stamp)) return capture.emit("nobody");
    capture.emit("sent", { bytes: file.length, sampleRate, level: peak(samples) });
  };
  // The output is silent. Browsers run only nodes that are connected to the destination.
  node.connect(microphone).connect(context.destination);
  capture.background = true;
  capture.signal.addEventListener("abort", () => {
    sender.end();
    microphone.port.onmessage = null;
    node.disconnect(microphone);
    microphone.disconnect();
    microphone.port.postMessage("end");
  });
}

/** Return what goes with a frame or a piece of sound; end the capture, and return null, if that cannot be sent. */
function stampIn(capture, track, options, ageMs) {
  try {
    return stampOf(track, options, ageMs);
  } catch (error) {
    capture.end(error);
    return null;
  }
}

function nodeOf(track, signal) {
  const context = new AudioContext();
  signal.addEventListener("abort", () => context.close());
  return context.createMediaStreamSource(new MediaStream([track]));
}

const peak = (samples) => samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0) / 32768;
