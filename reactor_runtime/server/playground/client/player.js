/**
 * Plays one track by its presentation times: which samples sound at which time of the audio clock. Uses no audio API and reads no clock:
 * the worklet drives it, and so do tests. Times are in seconds; an offset is audio clock minus presentation time.
 */

import { ResamplingBuffer } from "./resampler.js";

const KEPT_S = 5;
const SAME_RUN_S = 0.01; // a piece that begins this close to the end of the one before continues it
const MOST_DRIFT_S = 0.03; // what is further off than this is put right at once
const PULL_PER_S = 0.1; // share of an error that is taken back each second, by playing faster or slower
const MOST_BEND = 0.003; // 5 cents: nobody hears it
const RECENT_S = 4;
const LATE_SHARE = 0.02; // of recent pieces may come too late: waiting for the very last one delays all others
const BURST_S = 0.01; // pieces this close have waited for the same cause, and count as one
const SPARE_S = 0.002;
const MOST_WAIT_S = 2;
const SMOOTH_S = 0.001;

export class Player {
  /** The smallest offset at which pieces come in time; NaN before the first. */
  need = NaN;
  #rate;
  #outputRate;
  #buffer;
  #runs = []; // {ptsS, start, end}: gapless samples, numbered start to end, the first of them presented at ptsS
  #run = null; // the one that sounds; null while silent
  #at = 0; // number of the sample that sounds next, with fraction
  #until = 0; // where this run ends, or the next one takes over
  #step = 1;
  #played = { run: null, at: 0 };
  #recent = []; // {at, offset} of the pieces as they came
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

  /** The offset at which it plays: with the pictures, or as soon after them as the pieces come. */
  get offset() {
    return Math.max(this.need, Math.min(this.#aim, this.need + MOST_WAIT_S));
  }

  /** Take a piece {ptsS, channels, samples: interleaved Int16Array} that comes at `now`. */
  push({ ptsS, channels, samples }, now) {
    this.#came(now - ptsS, now);
    const last = this.#runs.at(-1);
    const apart = last ? ptsS - (last.ptsS + (last.end - last.start) / this.#rate) : Infinity;
    if (Math.abs(apart) < SAME_RUN_S) last.ptsS += apart;
    else this.#begin(ptsS, last);
    this.#buffer.write(samples, channels);
    this.#runs.at(-1).end = this.#buffer.written;
  }

  /** Play at this offset, that of the pictures; null when there are none to go by. */
  aim(offset) {
    this.#aim = offset ?? -Infinity;
  }

  /** Play nothing that is presented before `ptsS`. */
  cut(ptsS) {
    this.#cut = ptsS;
    this.#leave();
  }

  /** Forget every sample and all that was learned of the pieces' times. */
  clear() {
    this.#leave();
    this.#runs = [];
    this.#recent = [];
    this.need = NaN;
    this.#aim = this.#cut = -Infinity;
  }

  /** Fill both channels with what sounds from `now` on. */
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
    if (last) last.end = this.#buffer.written; // its last samples can be read now
    this.#buffer.pad();
    this.#runs.push({ ptsS, start: this.#buffer.written, end: this.#buffer.written });
  }

  /** Bend the speed towards where it should be; what is too far off starts anew there. */
  #steer(wanted) {
    if (!this.#run) return;
    const ahead = this.#run.ptsS + (this.#at - this.#run.start) / this.#rate - wanted;
    if (Math.abs(ahead) > MOST_DRIFT_S) return this.#leave();
    const bend = Math.min(MOST_BEND, Math.max(-MOST_BEND, PULL_PER_S * ahead));
    this.#step = (this.#rate / this.#outputRate) * (1 - bend);
    this.#until = this.#endOf(this.#run, this.#runs[1]);
  }

  /** Go on with what is to sound at `wanted`; be silent where nothing is, and never play a sample twice. */
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
    this.#broken ||= at - run.start > 1; // the very beginning sets in as the author made it
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

  /** Where the sound breaks off or sets in, the step to the new value fades: a step is heard as a click. */
  #smooth(channel) {
    const value = this.#frame[channel];
    if (this.#broken) this.#residue[channel] = this.#last[channel] - value;
    const residue = this.#residue[channel];
    this.#last[channel] = value + residue;
    this.#residue[channel] = Math.abs(residue) < 1e-6 ? 0 : residue * (1 - 1 / (SMOOTH_S * this.#outputRate));
    return this.#last[channel];
  }
}
