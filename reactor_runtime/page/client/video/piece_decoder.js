/** Decodes the pieces of a video stream one after the other, from a key on. */

import { readVideo } from "./mp4.js";

export class PieceDecoder {
  #decoder;
  #resolve;
  #reject;

  constructor() {
    this.#decoder = new VideoDecoder({
      output: (frame) => this.#resolve(frame),
      error: (error) => this.#reject(error),
    });
  }

  /** Resolve to the VideoFrame of a piece; call it again after that. */
  decode(bytes) {
    const { header, config, sample } = readVideo(bytes);
    return new Promise((resolve, reject) => {
      [this.#resolve, this.#reject] = [resolve, reject];
      if (config) {
        const { codec, description } = config;
        const options = { optimizeForLatency: true, hardwareAcceleration: /** @type {const} */ ("prefer-software") };
        this.#decoder.configure({ codec, description, ...options });
      }
      const type = config ? "key" : "delta";
      this.#decoder.decode(new EncodedVideoChunk({ type, timestamp: header.seq, data: sample }));
    });
  }

  close() {
    if (this.#decoder.state !== "closed") this.#decoder.close();
  }
}
