/** On the audio thread: hears what is connected to it and gives it on in pieces of 16-bit samples at another rate, mono, until told to end. */

import { Tape } from "./tape.js";

const PIECE_S = 0.02;
const FULL = 32767;

class Ear extends AudioWorkletProcessor {
  #step;
  #tape;
  #at;
  #piece;
  #filled = 0;
  #frame = [0, 0];
  #ended = false;

  constructor({ processorOptions: { rate } }) {
    super();
    this.#step = sampleRate / rate;
    this.#tape = new Tape(sampleRate, rate, 1);
    this.#tape.pad();
    this.#at = this.#tape.reach;
    this.#piece = new Int16Array(Math.round(rate * PIECE_S));
    this.port.onmessage = () => (this.#ended = true);
  }

  process([[heard]]) {
    if (heard) this.#tape.write(Int16Array.from(heard, toInteger), 1);
    for (; this.#at + this.#tape.reach < this.#tape.written; this.#at += this.#step) {
      this.#tape.read(this.#at, this.#frame);
      this.#add(toInteger(this.#frame[0]));
    }
    return !this.#ended;
  }

  #add(sample) {
    this.#piece[this.#filled++] = sample;
    if (this.#filled < this.#piece.length) return;
    this.port.postMessage(this.#piece);
    this.#filled = 0;
  }
}

const toInteger = (value) => Math.round(FULL * Math.max(-1, Math.min(1, value)));

registerProcessor("reactor-ear", Ear);
