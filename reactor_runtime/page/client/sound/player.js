/**
 * Plays one track by its presentation times: which sample sounds at which time of the audio clock. Uses no audio API
 * and reads no clock: the worklet and tests drive it. Times are in seconds; an offset is audio clock minus presentation
 * time.
 */

import { ResamplingBuffer } from "./resampler.js";

const KEPT_S = 5;
// A piece that begins this close to the end of the last one continues it.
const SAME_RUN_S = 0.01;
// A larger error is corrected at once.
const MOST_DRIFT_S = 0.03;
// Share of an error that is corrected per second, by playing faster or slower.
const PULL_PER_S = 0.1;
// 5 cents, which is inaudible.
const MOST_BEND = 0.003;
const RECENT_S = 4;
// Share of recent pieces that may arrive too late: waiting for the last one would delay all others.
const LATE_SHARE = 0.02;
// Pieces this close were delayed by the same cause, and count as one.
const BURST_S = 0.01;
const SPARE_S = 0.002;
const MOST_WAIT_S = 2;
const SMOOTH_S = 0.001;

export class Player {
  /** The smallest offset at which pieces arrive in time; NaN before the first. */
  need = NaN;
  #rate;
  #outputRate;
  #buffer;
  // {ptsS, start, end}: gapless samples, numbered start to end, the first with presentation time ptsS
  #runs = [];
  // The run that sounds; null in silence.
  #run = null;
  // Number of the next sample, with fraction.
  #at = 0;
  // Where this run ends, or the next one begins.
  #until = 0;
  #step = 1;
  #played = { run: null, at: 0 };
  // {at, offset} of pieces as they arrived
  #recent = [];
  #aim = -Infinity;
  #cut = -Infinity;
  #frame = [0, 0];
  #last = [0, 0];
  #residue = [0, 0];
  #broken = false;

  constructor(sampleRate, outputRate) {
    this.#rate = sampleRate;
    this.#outputRate = outputRate;
    this.#buffer = new ResamplingBuffer(sampleRate, outputRate, KEPT_S);
  }

  /** The offset of the sound: that of the frames, or larger if pieces arrive later. */
  get offset() {
    return Math.max(this.need, Math.min(this.#aim, this.need + MOST_WAIT_S));
  }

  /** Add a piece {ptsS, channels, samples: interleaved Int16Array} that arrives at `now`. */
  push({ ptsS, channels, samples }, now) {
    this.#came(now - ptsS, now);
    const last = this.#runs.at(-1);
    const apart = last ? ptsS - (last.ptsS + (last.end - last.start) / this.#rate) : Infinity;
    if (Math.abs(apart) < SAME_RUN_S) last.ptsS += apart;
    else this.#begin(ptsS, last);
    this.#buffer.write(samples, channels);
    this.#runs.at(-1).end = this.#buffer.written;
  }

  /** Play at the offset of the frames; null if there are none. */
  aim(offset) {
    this.#aim = offset ?? -Infinity;
  }

  /** Play nothing with a presentation time before `ptsS`. */
  cut(ptsS) {
    this.#cut = ptsS;
    this.#leave();
  }

  /** Forget all samples and the arrival times of pieces. */
  clear() {
    this.#leave();
    this.#runs = [];
    this.#recent = [];
    this.need = NaN;
    this.#aim = this.#cut = -Infinity;
  }

  /** Fill both channels with the sound from `now` on. */
  render([left, right], now) {
    let wanted = now - this.offset;
    this.#steer(wanted);
    for (let i = 0; i < left.length; i++, wanted += 1 / this.#outputRate) {
      if (this.#at >= this.#until) this.#enter(wanted);
      this.#sound();
      left[i] = this.#smooth(0);
      right[i] = this.#smooth(1);
      this.#broken = false;
    }
  }

  #came(offset, now) {
    const last = this.#recent.at(-1);
    if (last && now - last.at < BURST_S) last.offset = Math.max(last.offset, offset);
    else this.#recent.push({ at: now, offset });
    while (now - this.#recent[0].at > RECENT_S) this.#recent.shift();
    const latest = this.#recent.map((piece) => piece.offset).sort((a, b) => b - a);
    this.need = latest[Math.floor(LATE_SHARE * latest.length)] + this.#buffer.reach / this.#rate + SPARE_S;
  }

  #begin(ptsS, last) {
    this.#buffer.pad();
    // Now its last samples can be read.
    if (last) last.end = this.#buffer.written;
    this.#buffer.pad();
    this.#runs.push({ ptsS, start: this.#buffer.written, end: this.#buffer.written });
  }

  /** Adjust the speed to reach the right position; restart there if the error is too large. */
  #steer(wanted) {
    if (!this.#run) return;
    const ahead = this.#run.ptsS + (this.#at - this.#run.start) / this.#rate - wanted;
    if (Math.abs(ahead) > MOST_DRIFT_S) return this.#leave();
    const bend = Math.min(MOST_BEND, Math.max(-MOST_BEND, PULL_PER_S * ahead));
    this.#step = (this.#rate / this.#outputRate) * (1 - bend);
    this.#until = this.#endOf(this.#run, this.#runs[1]);
  }

  /** Continue with the sample for `wanted`, or with silence; never play a sample twice. */
  #enter(wanted) {
    this.#leave();
    while (this.#runs.length > 1 && this.#runs[1].ptsS <= wanted) this.#runs.shift();
    const run = this.#runs[0];
    if (!run || !(wanted >= Math.max(run.ptsS, this.#cut))) return;
    const at = run.start + (wanted - run.ptsS) * this.#rate;
    const until = this.#endOf(run, this.#runs[1]);
    if (at >= until || (run === this.#played.run && at < this.#played.at)) return;
    this.#run = run;
    this.#at = at;
    this.#until = until;
    this.#step = this.#rate / this.#outputRate;
    // The beginning of a run is not faded.
    this.#broken ||= at - run.start > 1;
  }

  #leave() {
    if (!this.#run) return;
    this.#played = { run: this.#run, at: this.#at };
    this.#run = null;
    this.#at = this.#until = 0;
    this.#broken = true;
  }

  #endOf(run, next) {
    const end = run.end - this.#buffer.reach;
    return next ? Math.min(end, run.start + (next.ptsS - run.ptsS) * this.#rate) : end;
  }

  #sound() {
    if (!this.#run) return this.#frame.fill(0);
    this.#buffer.read(this.#at, this.#frame);
    this.#at += this.#step;
  }

  /** Fade from the old value to the new one where sound starts or stops: a step is audible as a click. */
  #smooth(channel) {
    const value = this.#frame[channel];
    if (this.#broken) this.#residue[channel] = this.#last[channel] - value;
    const residue = this.#residue[channel];
    this.#last[channel] = value + residue;
    this.#residue[channel] = Math.abs(residue) < 1e-6 ? 0 : residue * (1 - 1 / (SMOOTH_S * this.#outputRate));
    return this.#last[channel];
  }
}
