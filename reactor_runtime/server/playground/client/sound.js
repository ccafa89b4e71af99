/**
 * The sound of a session: one audio context, one worklet node a track, mixed. Each track is played by its presentation times, in
 * time with the pictures that `painted` tells of. Knows nothing of the document.
 * Sound takes longer to the loudspeaker than a picture to the screen: it may lag a little, and `paintAt` lets pictures wait a little.
 */

import { Median } from "./median.js";

const MAY_LAG_S = 0.02;
const MOST_HOLD_MS = 60;
const AIM_EVERY_MS = 100;

export class Sound {
  /** How long after its picture a sound is heard, in ms, negative for before; null while unknown. */
  lagMs = null;
  #opening = null; // promise of the context, once there was a gesture
  #context = null;
  #tracks = new Map(); // name → {node, sampleRate, need}
  #pictures = new Median(25); // time of painting minus presentation time, s
  #clocks = new Median(9); // audio clock at the loudspeaker minus performance.now(), s
  #aimedAt = 0;
  #changed;

  /** `changed()` is called when the sound goes on or off, whoever did it. */
  constructor(changed) {
    this.#changed = changed;
  }

  get on() {
    return this.#context?.state === "running";
  }

  /** Go on; browsers want this in a click or a key press. Throws Error in words where there can be no sound. */
  async start() {
    this.#opening ??= openContext(() => this.#changed());
    this.#context = await this.#opening.catch((error) => {
      this.#opening = null;
      throw error;
    });
    this.#clocks.clear();
    await this.#context.resume();
  }

  async stop() {
    this.restart();
    await this.#context?.suspend();
  }

  /** A new session: nothing of the one before is heard, and tracks not among `names` are gone. */
  restart(names = [...this.#tracks.keys()]) {
    this.#tell("clear");
    this.#pictures.clear();
    this.lagMs = null;
    for (const [name, track] of this.#tracks) {
      track.need = NaN;
      if (!names.includes(name)) this.#end(name, track.node);
    }
  }

  /** Play what readMedia gave for a WAV; while off it is dropped. */
  play({ header, sampleRate, channels, samples }) {
    if (!this.on) return;
    if (header.afterFlush) this.cut(header.pts, header.track);
    const { node } = this.#track(header.track, sampleRate);
    node.port.postMessage(["push", { pts: header.pts, channels, samples }]);
  }

  /** Play nothing that is presented before `pts`, on one track or all. */
  cut(pts, track) {
    this.#tell("cut", pts, track);
  }

  /** A frame was painted, `at` on performance.now()'s clock. */
  painted({ pts, held }, at) {
    if (held) return; // it was due long ago
    this.#pictures.add(at / 1000 - pts);
    if (this.on && at - this.#aimedAt > AIM_EVERY_MS) this.#aim(at);
  }

  /** No pictures for a while (hidden tab): sound goes as it comes. */
  forgetPictures() {
    this.#pictures.clear();
    this.#tell("aim", null);
    this.lagMs = null;
  }

  /** When to paint the frame of `pts` at the earliest, on performance.now()'s clock. */
  paintAt(pts, now) {
    const needs = [...this.#tracks.values()].map(({ need }) => need).filter(Number.isFinite);
    const clock = this.#clocks.value;
    if (!this.on || !needs.length || clock === null) return now;
    return Math.min(1000 * (pts + Math.max(...needs) - clock - MAY_LAG_S), now + MOST_HOLD_MS);
  }

  #aim(at) {
    this.#aimedAt = at;
    this.#clocks.add(clockDifference(this.#context, at));
    this.#tell("aim", this.#pictures.value + this.#clocks.value);
  }

  #track(name, sampleRate) {
    const known = this.#tracks.get(name);
    if (known?.sampleRate === sampleRate) return known;
    if (known) this.#end(name, known.node);
    const options = { numberOfInputs: 0, outputChannelCount: [2], processorOptions: { sampleRate } };
    const node = new AudioWorkletNode(this.#context, "reactor-track", options);
    const track = { node, sampleRate, need: NaN };
    node.port.onmessage = ({ data }) => this.#reported(track, data);
    node.connect(this.#context.destination);
    this.#tracks.set(name, track);
    return track;
  }

  #reported(track, { need, offset }) {
    track.need = need;
    const lagS = offset - this.#clocks.value - this.#pictures.value;
    this.lagMs = this.#pictures.value === null || !Number.isFinite(lagS) ? null : 1000 * lagS;
  }

  #end(name, node) {
    node.port.postMessage(["end"]);
    node.disconnect();
    this.#tracks.delete(name);
  }

  #tell(verb, value, track) {
    for (const [name, { node }] of this.#tracks) {
      if (track === undefined || track === name) node.port.postMessage([verb, value]);
    }
  }
}

async function openContext(changed) {
  if (!globalThis.isSecureContext) throw new Error("browsers allow it from https and from localhost only");
  const context = new AudioContext();
  const loaded = context.audioWorklet.addModule(new URL("worklet.js", import.meta.url));
  await Promise.all([loaded, context.resume()]); // resumed before anything is waited for: the gesture is soon forgotten
  context.onstatechange = changed;
  return context;
}

/** What the loudspeaker plays now, on the context's clock, minus `now`; in seconds. */
function clockDifference(context, now) {
  const { contextTime, performanceTime } = context.getOutputTimestamp();
  const isFresh = Math.abs(now - performanceTime) < 1000; // it is 0 before anything has come out, and old after a pause
  if (isFresh) return contextTime - performanceTime / 1000;
  return context.currentTime - (context.outputLatency || context.baseLatency) - now / 1000;
}
