/** One track on the audio thread: its Player, told what to do over the port, telling every quarter of a second what it needs. */

import { Player } from "./player.js";

const REPORT_S = 0.25;

class Track extends AudioWorkletProcessor {
  #player;
  #ended = false;
  #reportAt = 0;

  constructor({ processorOptions }) {
    super();
    this.#player = new Player(processorOptions.sampleRate, sampleRate);
    this.port.onmessage = ({ data: [verb, value] }) => {
      if (verb === "end") this.#ended = true;
      else this.#player[verb](value, currentTime);
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

registerProcessor("reactor-track", Track);
