/** Processors on the audio thread: one plays a track, the other records a microphone. */

import { Player } from "./player.js";
import { ResamplingBuffer } from "./resampler.js";

const REPORT_S = 0.25;

class TrackProcessor extends AudioWorkletProcessor {
  #player;
  #ended = false;
  #reportAt = 0;

  constructor({ processorOptions }) {
    super();
    this.#player = new Player(processorOptions.sampleRate, sampleRate);
    this.port.onmessage = ({ data: [method, value] }) => {
      if (method === "end") this.#ended = true;
      else this.#player[method](value, currentTime);
    };
  }

  process(_, [output]) {
    this.#player.render(output, currentTime);
    if (currentTime >= this.#reportAt) {
      this.#reportAt = currentTime + REPORT_S;
      this.port.postMessage({ need: this.#player.need, offset: this.#player.offset });
    }
    return !this.#ended;
  }
}

registerProcessor("reactor-track", TrackProcessor);

const PIECE_S = 0.02;
const FULL = 32767;

class MicrophoneProcessor extends AudioWorkletProcessor {
  #step;
  #buffer;
  #at;
  #piece;
  #filled = 0;
  #frame = [0, 0];
  #ended = false;

  constructor({ processorOptions: { rate } }) {
    super();
    this.#step = sampleRate / rate;
    this.#buffer = new ResamplingBuffer(sampleRate, rate, 1);
    this.#buffer.pad();
    this.#at = this.#buffer.reach;
    this.#piece = new Int16Array(Math.round(rate * PIECE_S));
    this.port.onmessage = () => (this.#ended = true);
  }

  process([[input]]) {
    if (input) this.#buffer.write(Int16Array.from(input, toInteger), 1);
    for (; this.#at + this.#buffer.reach < this.#buffer.written; this.#at += this.#step) {
      this.#buffer.read(this.#at, this.#frame);
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

registerProcessor("reactor-microphone", MicrophoneProcessor);
