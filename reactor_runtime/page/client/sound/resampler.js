/**
 * Stores the last samples of a track and interpolates between them (windowed sinc): from any rate to any other, with
 * the small changes of speed that keep sound and video together.
 */

// Samples on each side of a position; more if the output's rate is lower.
const REACH = 16;
const FULL = 32768;
// Positions between two samples with tabulated weights.
const PHASES = 256;

export class ResamplingBuffer {
  written = 0;
  #samples;
  #mask;
  #weights;

  constructor(sampleRate, outputRate, seconds) {
    const narrowing = Math.max(1, sampleRate / outputRate);
    const length = 2 ** Math.ceil(Math.log2(sampleRate * seconds));
    this.reach = Math.ceil(REACH * narrowing);
    this.#samples = new Int16Array(2 * length);
    this.#mask = length - 1;
    this.#weights = tabulate(this.reach, narrowing);
  }

  /** Append 16-bit samples, interleaved; mono goes to both channels. The oldest samples are overwritten. */
  write(samples, channels) {
    for (let from = 0; from < samples.length; from += channels) {
      this.#append(samples[from], samples[from + channels - 1]);
    }
  }

  /** Append silence, so that reading near an end does not mix in other samples. */
  pad() {
    for (let count = 0; count < this.reach; count++) this.#append(0, 0);
  }

  /** Write both channels' values at `place` into `frame`; `reach` samples on each side of it must have been written. */
  read(place, frame) {
    const whole = Math.floor(place);
    const phase = (place - whole) * PHASES;
    const taps = 2 * this.reach;
    const row = Math.floor(phase) * taps;
    const between = phase - Math.floor(phase);
    let left = 0;
    let right = 0;
    for (let tap = 0; tap < taps; tap++) {
      const low = this.#weights[row + tap];
      const weight = low + between * (this.#weights[row + taps + tap] - low);
      const at = 2 * ((whole - this.reach + 1 + tap) & this.#mask);
      left += weight * this.#samples[at];
      right += weight * this.#samples[at + 1];
    }
    frame[0] = left / FULL;
    frame[1] = right / FULL;
  }

  #append(left, right) {
    const at = 2 * (this.written++ & this.#mask);
    this.#samples[at] = left;
    this.#samples[at + 1] = right;
  }
}

/** Return one row of weights for each phase, and one for the next sample; each row has the sum 1. */
function tabulate(reach, narrowing) {
  const taps = 2 * reach;
  const weights = new Float32Array((PHASES + 1) * taps);
  for (let phase = 0; phase <= PHASES; phase++) {
    const row = weights.subarray(phase * taps, (phase + 1) * taps);
    row.forEach((_, tap) => (row[tap] = weight(tap - reach + 1 - phase / PHASES, reach, narrowing)));
    const sum = row.reduce((total, value) => total + value, 0);
    row.forEach((value, tap) => (row[tap] = value / sum));
  }
  return weights;
}

/** Return a sinc for the lower of both rates, under a Blackman window. */
function weight(distance, reach, narrowing) {
  const x = (Math.PI * distance) / narrowing;
  const turn = (Math.PI * distance) / reach;
  const window = 0.42 + 0.5 * Math.cos(turn) + 0.08 * Math.cos(2 * turn);
  return x === 0 ? window : (window * Math.sin(x)) / x;
}
