/** Cuts what it hears into pieces of 16-bit samples, on the audio thread. */
class Recorder extends AudioWorkletProcessor {
  #piece;
  #filled = 0;

  constructor({ processorOptions }) {
    super();
    this.#piece = new Int16Array(Math.round(processorOptions.pieceS * sampleRate));
  }

  process([[heard = []]]) {
    for (const value of heard) {
      this.#piece[this.#filled++] = 32767 * Math.max(-1, Math.min(1, value));
      if (this.#filled < this.#piece.length) continue;
      this.port.postMessage(this.#piece);
      this.#filled = 0;
    }
    return true;
  }
}

registerProcessor("reactor-recorder", Recorder);
