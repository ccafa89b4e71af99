/**
 * Keeps the last ten seconds as they arrived, and saves them as a clip: they are played once more into a recorder, which
 * takes as long as the clip, because browsers record in real time.
 */

/** @import { Session } from "../client/reactor.js" */

import { Recording, recordingFormat } from "./record.js";

const KEPT_S = 10;
const MOST_BYTES = 64e6;
// Decoding starts before the first frame is due.
const LEAD_S = 0.2;

export class Clip {
  #session;
  // {ptsS, bytes} of the first video track
  #frames = [];
  // {ptsS, sampleRate, channels, samples} of the first audio track
  #sounds = [];
  #bytes = 0;

  /** @param {Session} session */
  constructor(session) {
    this.#session = session;
    const on = (name, listener) => session.addEventListener(name, ({ detail }) => listener(detail));
    on("session", () => this.#clear());
    on("encoded", ({ header, bytes }) => {
      if (header.track === this.#nameOf("video")) this.#keep(this.#frames, { ptsS: header.ptsS, bytes });
    });
    on("sound", (sound) => {
      if (sound.track === this.#nameOf("audio")) this.#keep(this.#sounds, { ...sound, bytes: sound.samples.buffer });
    });
  }

  /** Save what is kept now; `onLeft(seconds)` is called while it is recorded. Rejects if the browser cannot. */
  async save(onLeft) {
    const type = recordingFormat();
    const [frames, sounds] = [[...this.#frames], [...this.#sounds]];
    if (!frames.length) throw new Error("there are no frames yet");
    const player = new Player(frames, sounds);
    try {
      const recording = new Recording(player.stream, type, `${this.#session.model}-clip`);
      await player.play(onLeft);
      await recording.stop();
    } finally {
      player.close();
    }
  }

  #nameOf(kind) {
    return this.#session.tracks.find((track) => track.kind === kind && track.direction === "out")?.name;
  }

  #keep(pieces, piece) {
    pieces.push(piece);
    this.#bytes += piece.bytes.byteLength;
    for (const each of [this.#frames, this.#sounds]) {
      while (each.length && (each[0].ptsS < piece.ptsS - KEPT_S || this.#bytes > MOST_BYTES)) {
        this.#bytes -= each.shift().bytes.byteLength;
      }
    }
  }

  #clear() {
    this.#frames = [];
    this.#sounds = [];
    this.#bytes = 0;
  }
}

/** Plays frames and sound once into a stream, silently. */
class Player {
  stream;
  #frames;
  #sounds;
  #canvas = document.createElement("canvas");
  #context = this.#canvas.getContext("2d", { alpha: false });
  #audio = null;

  constructor(frames, sounds) {
    this.#frames = frames;
    this.#sounds = sounds.filter(({ ptsS }) => ptsS >= frames[0].ptsS);
    const tracks = this.#canvas.captureStream().getTracks();
    if (this.#sounds.length) {
      this.#audio = new AudioContext();
      this.#audio.output = this.#audio.createMediaStreamDestination();
      tracks.push(...this.#audio.output.stream.getTracks());
    }
    this.stream = new MediaStream(tracks);
  }

  async play(onLeft) {
    const firstS = this.#frames[0].ptsS;
    const startMs = performance.now() + 1000 * LEAD_S;
    const lastS = this.#frames.at(-1).ptsS - firstS;
    this.#schedule(firstS);
    for (const { ptsS, bytes } of this.#frames) {
      const bitmap = await createImageBitmap(new Blob([bytes], { type: "image/jpeg" }));
      const atS = ptsS - firstS;
      await wait(startMs + 1000 * atS - performance.now());
      onLeft(lastS - atS);
      const { width, height } = bitmap;
      if (this.#canvas.width !== width || this.#canvas.height !== height)
        Object.assign(this.#canvas, { width, height });
      this.#context.drawImage(bitmap, 0, 0);
      bitmap.close();
    }
    // The last frame is shown for a while too.
    await wait(1000 * LEAD_S);
  }

  /** Stop the tracks, which ends a recording of them too. */
  close() {
    for (const track of this.stream.getTracks()) track.stop();
    this.#audio?.close();
  }

  #schedule(firstS) {
    const audio = this.#audio;
    if (!audio) return;
    const startS = audio.currentTime + LEAD_S;
    for (const { ptsS, sampleRate, channels, samples } of this.#sounds) {
      const buffer = audio.createBuffer(channels, samples.length / channels, sampleRate);
      for (let channel = 0; channel < channels; channel += 1) {
        const values = buffer.getChannelData(channel);
        for (let i = 0; i < values.length; i += 1) values[i] = samples[i * channels + channel] / 32768;
      }
      const source = new AudioBufferSourceNode(audio, { buffer });
      source.connect(audio.output);
      source.start(startS + ptsS - firstS);
    }
  }
}

const wait = (ms) => new Promise((done) => setTimeout(done, Math.max(0, ms)));
