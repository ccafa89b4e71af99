/**
 * Plays the sound of a session: one audio context, one worklet node per track, mixed. Each track is played by its presentation times,
 * in time with the frames that `painted` reports. Sound takes longer to the loudspeaker than a frame to the screen: it may lag a little, and
 * `paintAt` delays frames a little. Does not use the document.
 */

import { Median } from "./median.js";

const MAY_LAG_S = 0.02;
const MOST_HOLD_MS = 60;
const AIM_EVERY_MS = 100;
const NONE_S = 0.003; // clocks of pages are rounded to a millisecond, and no loudspeaker is that quick
const AHEAD_S = 0.05;
const FADE_S = 0.01; // a step of the volume would be heard as a click

export class Mixer {
  /** How long after its picture a sound is heard, in ms, negative for before; null while unknown. */
  lagMs = null;
  #context;
  #loudspeaker;
  #tracks = new Map(); // name → {node, sampleRate, need}
  #copies = new Map(); // name → MediaStreamAudioDestinationNode
  #paintTimes = new Median(25); // time of painting minus presentation time, s
  #clocks = new Median(9); // audio clock at the loudspeaker minus performance.now(), s
  #aimedAt = 0;

  /** `context` has loaded worklet.js. */
  constructor(context, volume) {
    this.#context = context;
    this.#loudspeaker = new GainNode(context, { gain: volume });
    this.#loudspeaker.connect(context.destination);
  }

  set volume(volume) {
    this.#loudspeaker.gain.setTargetAtTime(volume, 0, FADE_S);
  }

  /** The context was not running for a while. */
  forgetClocks() {
    this.#clocks.clear();
  }

  /** A MediaStreamTrack with what is played of a track, however loud; each is its own, to be stopped by whoever asked. */
  copy(name) {
    if (!this.#copies.has(name)) {
      const copy = this.#context.createMediaStreamDestination();
      this.#copies.set(name, copy);
      this.#tracks.get(name)?.node.connect(copy);
    }
    return this.#copies.get(name).stream.getAudioTracks()[0].clone();
  }

  /** A new session: nothing of the one before is heard, and tracks not among `names` are gone. */
  restart(names = [...this.#tracks.keys()]) {
    this.#post("clear");
    this.#paintTimes.clear();
    this.lagMs = null;
    for (const [name, track] of this.#tracks) {
      track.need = NaN;
      if (!names.includes(name)) this.#end(name, track.node);
    }
  }

  /** Play what readMedia gave for a WAV. */
  play({ header, sampleRate, channels, samples }) {
    if (header.afterFlush) this.cut(header.ptsS, header.track);
    const { node } = this.#track(header.track, sampleRate);
    node.port.postMessage(["push", { ptsS: header.ptsS, channels, samples }]);
  }

  /** Play nothing that is presented before `ptsS`, on one track or all. */
  cut(ptsS, track) {
    this.#post("cut", ptsS, track);
  }

  /** A frame was painted, `at` on performance.now()'s clock. */
  painted({ ptsS, held }, at) {
    if (held) return; // it was due long ago
    this.#paintTimes.add(at / 1000 - ptsS);
    if (this.#running && at - this.#aimedAt > AIM_EVERY_MS) this.#aim(at);
  }

  /** No pictures for a while (hidden tab): sound goes as it comes. */
  forgetFrames() {
    this.#paintTimes.clear();
    this.#post("aim", null);
    this.lagMs = null;
  }

  /** When to paint the frame of `ptsS` at the earliest, on performance.now()'s clock. */
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
    const track = { node, sampleRate, need: NaN };
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

/** Why nothing can be played here. */
export function soundUnavailable() {
  if (globalThis.AudioContext) return new Error("browsers allow it from https and from localhost only");
  return new TypeError('there is no AudioContext here; the event "sound" gives the pieces');
}

/**
 * What the loudspeaker plays now, on the context's clock, minus `now`; in seconds. The browser's own pair of times is 0 before
 * anything has come out, and old after a pause. WebKit for Linux puts the pair into the future; Firefox gives the right sample with
 * a time that is earlier by the latency, so that there seems to be none.
 */
export function clockDifference(context, now) {
  const { contextTime, performanceTime } = context.getOutputTimestamp?.() ?? {};
  const { currentTime, baseLatency, outputLatency } = context;
  const agoS = (now - performanceTime) / 1000;
  if (Math.abs(currentTime - contextTime - agoS) < NONE_S) return contextTime - now / 1000;
  if (agoS > -AHEAD_S && agoS < 1) return contextTime - performanceTime / 1000;
  return currentTime - (outputLatency || baseLatency) - now / 1000;
}
