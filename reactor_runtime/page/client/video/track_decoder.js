/** A VideoDecoder and the headers of what it has in work, for one track from a key on. */

// Of the first pieces: so long after this one a decoder has to have had no more than one in work at some time.
const JUDGED_PIECE = 3;
const JUDGED_AFTER_MS = 200;
const MOST_IN_WORK = 1;

export class TrackDecoder {
  #acceleration;
  #handlers;
  #decoder;
  #config = null;
  // seq → {header, config}
  #inWork = new Map();
  #count = 0;
  #leastInWork = Infinity;
  #timer = 0;

  /**
   * `acceleration` is that of WebCodecs. `handlers`: show(header, frame); onError(error), after which nothing is shown;
   * onLag() if the decoder holds frames back.
   */
  constructor(acceleration, handlers) {
    this.#acceleration = acceleration;
    this.#handlers = handlers;
    this.#decoder = new VideoDecoder({
      output: (frame) => this.#decoded(frame),
      error: (error) => this.#failed(error),
    });
  }

  /** Decode a frame; the first has a configuration. */
  put(header, config, sample) {
    try {
      if (config && !isSame(config, this.#config)) this.#configure(config);
      const type = config ? "key" : "delta";
      // The decoder returns the timestamp with the frame.
      this.#decoder.decode(new EncodedVideoChunk({ type, timestamp: header.seq, data: sample }));
    } catch (error) {
      return this.#failed(error);
    }
    this.#inWork.set(header.seq, { header, config: this.#config });
    this.#count += 1;
    if (this.#count === JUDGED_PIECE) this.#timer = setTimeout(() => this.#judge(), JUDGED_AFTER_MS);
  }

  close() {
    clearTimeout(this.#timer);
    if (this.#decoder.state !== "closed") this.#decoder.close();
  }

  #configure(config) {
    const { codec, description, width, height } = config;
    this.#config = config;
    this.#decoder.configure({
      codec,
      description,
      codedWidth: width,
      codedHeight: height,
      hardwareAcceleration: this.#acceleration,
      optimizeForLatency: true,
    });
  }

  #decoded(frame) {
    const { header, config } = this.#inWork.get(frame.timestamp);
    this.#inWork.delete(frame.timestamp);
    if (this.#count >= JUDGED_PIECE) this.#leastInWork = Math.min(this.#leastInWork, this.#inWork.size);
    this.#handlers.show(header, cropped(frame, config));
  }

  #judge() {
    if (Math.min(this.#leastInWork, this.#inWork.size) > MOST_IN_WORK) this.#handlers.onLag();
  }

  #failed(error) {
    this.close();
    this.#handlers.onError(error);
  }
}

const isSame = (config, other) =>
  other !== null &&
  config.width === other.width &&
  config.height === other.height &&
  `${config.description}` === `${other.description}`;

/** Return a frame in the size of its track: coded sizes are even. */
function cropped(frame, { width, height }) {
  if (frame.displayWidth === width && frame.displayHeight === height) return frame;
  const result = new VideoFrame(frame, { visibleRect: { x: 0, y: 0, width, height } });
  frame.close();
  return result;
}
