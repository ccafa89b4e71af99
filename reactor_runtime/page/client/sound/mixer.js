/**
 * Plays the sound of a session: one audio context, one worklet node per track, mixed. Each track is played by its
 * presentation times, in time with the frames that `painted` reports. Sound needs longer to the loudspeaker than a
 * frame to the screen: it may lag a little, and `paintAt` delays frames a little. Does not use the document.
 */

import { Median } from "../median.js";

const MAY_LAG_S = 0.02;
const MOST_HOLD_MS = 60;
const AIM_EVERY_MS = 100;
// Clocks of pages are rounded to a millisecond, and every loudspeaker has a higher latency.
const NONE_S = 0.003;
const AHEAD_S = 0.05;
// A step of the volume would be audible as a click.
const FADE_S = 0.01;

export class Mixer {
  /** Delay of a sound after its frame in ms, negative before it; null while unknown. */
  lagMs = null;
  #context;
  #loudspeaker;
  // name → {node, sampleRate, need, flushedS}: the last is the time of its newest sound after a flush.
  #tracks = new Map();
  // name → MediaStreamAudioDestinationNode
  #copies = new Map();
  // Paint time minus presentation time, in seconds.
  #paintTimes = new Median(25);
  // Audio clock at the loudspeaker minus performance.now(), in seconds.
  #clocks = new Median(9);
  #aimedAt = 0;

  /** `context` has loaded audio_worklet.js. */
  constructor(context, volume) {
    this.#context = context;
    this.#loudspeaker = new GainNode(context, { gain: volume });
    this.#loudspeaker.connect(context.destination);
  }

  set volume(volume) {
    this.#loudspeaker.gain.setTargetAtTime(volume, 0, FADE_S);
  }

  /** Forget the clocks: the context was not running for a while. */
  forgetClocks() {
    this.#clocks.clear();
  }

  /** Return a MediaStreamTrack with the sound of a track at full volume. The caller stops it. */
  copy(name) {
    if (!this.#copies.has(name)) {
      const copy = this.#context.createMediaStreamDestination();
      this.#copies.set(name, copy);
      this.#tracks.get(name)?.node.connect(copy);
    }
    return this.#copies.get(name).stream.getAudioTracks()[0].clone();
  }

  /** Start a session: play nothing of the last one, and remove tracks that are not in `names`. */
  restart(names = [...this.#tracks.keys()]) {
    this.#post("clear");
    this.#paintTimes.clear();
    this.lagMs = null;
    for (const [name, track] of this.#tracks) {
      track.need = track.flushedS = NaN;
      if (!names.includes(name)) this.#end(name, track.node);
    }
  }

  /** Play a WAV, as returned by readMedia. */
  play({ header, sampleRate, channels, samples }) {
    const track = this.#track(header.track, sampleRate);
    const { node } = track;
    if (header.afterFlush) {
      this.#post("cut", header.ptsS, header.track);
      track.flushedS = header.ptsS;
    }
    node.port.postMessage(["push", { ptsS: header.ptsS, channels, samples }]);
  }

  /**
   * Play nothing of the time before a flush: `ptsS` is the time of the first frame after the flush that came, `sinceS`
   * that of the frame before it. If frames between were skipped, sound of after the flush may have come before, and has
   * cut its track.
   */
  flush(ptsS, sinceS) {
    for (const [name, { flushedS }] of this.#tracks) {
      if (!(flushedS > sinceS && flushedS <= ptsS)) this.#post("cut", ptsS, name);
    }
  }

  /** Record that a frame was painted, `at` on performance.now()'s clock. */
  painted({ ptsS, held }, at) {
    // It was due long ago.
    if (held) return;
    this.#paintTimes.add(at / 1000 - ptsS);
    if (this.#running && at - this.#aimedAt > AIM_EVERY_MS) this.#aim(at);
  }

  /** Play sound as it arrives: no frames are painted for a while. */
  forgetFrames() {
    this.#paintTimes.clear();
    this.#post("aim", null);
    this.lagMs = null;
  }

  /** Return the earliest time to paint the frame of `ptsS`, on performance.now()'s clock. */
  paintAt(ptsS, now) {
    const needs = [...this.#tracks.values()].map(({ need }) => need).filter(Number.isFinite);
    const clock = this.#clocks.value;
    if (!this.#running || !needs.length || clock === null) return now;
    return Math.min(1000 * (ptsS + Math.max(...needs) - clock - MAY_LAG_S), now + MOST_HOLD_MS);
  }

  get #running() {
    return this.#context.state === "running";
  }

  #aim(at) {
    this.#aimedAt = at;
    this.#clocks.add(clockDifference(this.#context, at));
    this.#post("aim", this.#paintTimes.value + this.#clocks.value);
  }

  #track(name, sampleRate) {
    const known = this.#tracks.get(name);
    if (known?.sampleRate === sampleRate) return known;
    if (known) this.#end(name, known.node);
    const options = { numberOfInputs: 0, outputChannelCount: [2], processorOptions: { sampleRate } };
    const node = new AudioWorkletNode(this.#context, "reactor-track", options);
    const track = { node, sampleRate, need: NaN, flushedS: NaN };
    node.port.onmessage = ({ data }) => this.#reported(track, data);
    node.connect(this.#loudspeaker);
    if (this.#copies.has(name)) node.connect(this.#copies.get(name));
    this.#tracks.set(name, track);
    return track;
  }

  #reported(track, { need, offset }) {
    track.need = need;
    const lagS = offset - this.#clocks.value - this.#paintTimes.value;
    this.lagMs = this.#paintTimes.value === null || !Number.isFinite(lagS) ? null : 1000 * lagS;
  }

  #end(name, node) {
    node.port.postMessage(["end"]);
    node.disconnect();
    this.#tracks.delete(name);
  }

  #post(verb, value, track) {
    for (const [name, { node }] of this.#tracks) {
      if (track === undefined || track === name) node.port.postMessage([verb, value]);
    }
  }
}

/** Return the error for a page that cannot play sound. */
export function soundUnavailable() {
  if (globalThis.AudioContext) return new Error("browsers allow it from https and from localhost only");
  return new TypeError('there is no AudioContext here; the event "sound" gives the pieces');
}

/**
 * Return what the loudspeaker plays now, on the context's clock, minus `now`; in seconds. The browser's own pair of
 * times is 0 before the first sound, and old after a pause. In WebKit for Linux the pair is in the future; in Firefox
 * the sample is right and the time earlier by the latency, so that the latency seems to be 0.
 */
export function clockDifference(context, now) {
  const { contextTime, performanceTime } = context.getOutputTimestamp?.() ?? {};
  const { currentTime, baseLatency, outputLatency } = context;
  const agoS = (now - performanceTime) / 1000;
  if (Math.abs(currentTime - contextTime - agoS) < NONE_S) return contextTime - now / 1000;
  if (agoS > -AHEAD_S && agoS < 1) return contextTime - performanceTime / 1000;
  return currentTime - (outputLatency || baseLatency) - now / 1000;
}
