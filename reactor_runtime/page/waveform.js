/** Draws the last 30 ms of an audio track as a waveform; a steady tone stands still. */

const SHOWN_S = 0.03;
// The wave fills the height, but noise below this level does not.
const LEAST_PEAK = 0.02;
// Factor of the scale per repaint, down to the loudest sample shown.
const FALL = 0.97;

export class Waveform {
  #canvas;
  #context;
  // The end of the last piece, then the newest one.
  #wave = new Float32Array(0);
  #newest = { at: 0, start: 0, sampleRate: 0 };
  #peak = LEAST_PEAK;
  #awake = false;

  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d");
  }

  restart() {
    this.#wave = new Float32Array(0);
  }

  push({ sampleRate, channels, samples }) {
    const before = this.#wave.slice(-2 * SHOWN_S * sampleRate);
    this.#newest = { at: performance.now(), start: before.length, sampleRate };
    this.#wave = new Float32Array(before.length + samples.length / channels);
    this.#wave.set(before);
    for (let i = before.length, from = 0; i < this.#wave.length; i++, from += channels) {
      this.#wave[i] = (samples[from] + samples[from + channels - 1]) / 65536;
    }
    if (!this.#awake) this.#ask();
  }

  #ask() {
    this.#awake = true;
    requestAnimationFrame(() => this.#draw(performance.now()));
  }

  /** Move through the newest piece in real time; stop at its end. */
  #draw(now) {
    const { at, start, sampleRate } = this.#newest;
    const shown = Math.round(SHOWN_S * sampleRate);
    const end = Math.round(start + ((now - at) / 1000) * sampleRate);
    const over = end > this.#wave.length + shown;
    const part = over ? new Float32Array(shown) : this.#settled(Math.min(end, this.#wave.length) - shown, shown);
    const peak = part.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    this.#peak = Math.max(LEAST_PEAK, peak, FALL * this.#peak);
    this.#line(part);
    this.#awake = false;
    if (!over) this.#ask();
  }

  /** Return the part that starts where the wave last rose through zero. */
  #settled(from, length) {
    let begin = Math.max(0, from);
    while (begin > Math.max(0, from - length) && !(this.#wave[begin - 1] < 0 && this.#wave[begin] >= 0)) begin -= 1;
    return this.#wave.subarray(begin, begin + length);
  }

  #line(part) {
    const [canvas, context] = [this.#canvas, this.#context];
    const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((length) => length * devicePixelRatio);
    if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
    context.clearRect(0, 0, width, height);
    context.beginPath();
    part.forEach((value, i) =>
      context.lineTo((i * width) / (part.length - 1), height * (0.5 - (0.32 * value) / this.#peak)),
    );
    context.strokeStyle = getComputedStyle(canvas).color;
    context.lineWidth = 2 * devicePixelRatio;
    context.stroke();
  }
}
