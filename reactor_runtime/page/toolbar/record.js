/** Makes files of what is shown: a frame as PNG, a recording in a format that the browser supports. */

/**
 * @import { Session } from "../client/reactor.js"
 * @import { PieceRecording } from "./piece_recording.js"
 */

import { download, timestamp } from "../browser.js";

const FORMATS = ["video/mp4;codecs=avc1.64003E,mp4a.40.2", "video/webm;codecs=vp9,opus", "video/webm", "video/mp4"];
const BITS_PER_S = 12e6;

export async function saveFrame(model, canvas) {
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  if (!blob) throw new Error("the browser gives no file");
  download(blob, `${model}-${canvas.dataset.track}-${timestamp()}.png`);
}

/** Return the format of recordings. Throws Error if the browser cannot record. */
export function recordingFormat() {
  const type = FORMATS.find((format) => globalThis.MediaRecorder?.isTypeSupported(format));
  if (!type) throw new Error("this browser cannot record");
  return type;
}

export class Recording {
  /**
   * Promise of {file, failure, continues}: the File, null if the browser made none, and the error that ended the
   * recording, or null. With `continues` another recording has to follow.
   */
  ended;
  #recorder;

  /**
   * Start with the first video track and, if sound is on, the first audio track; rejects if the browser cannot record.
   * Where the track comes as video and there is no sound, its messages are recorded as they are.
   * @param {Session} session
   * @param {boolean} isVideo
   * @returns {Promise<Recording | PieceRecording>}
   */
  static async start(session, isVideo) {
    const names = firstOfEach(
      session.tracks.filter(({ kind, direction }) => direction === "out" && (kind === "video" || session.speaker.on)),
    );
    if (!names.length) throw new Error("there is nothing to record");
    if (isVideo && names.length === 1) {
      const { PieceRecording } = await import("./piece_recording.js");
      const recording = await PieceRecording.start(session, names[0]);
      if (recording) return recording;
    }
    const type = recordingFormat();
    return new Recording(await session.stream(...names), type, session.model);
  }

  constructor(stream, mimeType, model) {
    this.#recorder = new MediaRecorder(stream, { mimeType, videoBitsPerSecond: BITS_PER_S });
    const pieces = [];
    this.#recorder.ondataavailable = ({ data }) => data.size && pieces.push(data);
    let failure = null;
    this.#recorder.onerror = ({ error }) => (failure = error);
    this.ended = new Promise((resolve) => {
      this.#recorder.onstop = () => {
        for (const track of stream.getTracks()) track.stop();
        const type = mimeType.split(";")[0];
        const name = `${model}-${timestamp()}.${type.split("/")[1]}`;
        resolve({ file: pieces.length ? new File(pieces, name, { type }) : null, failure, continues: false });
      };
    });
    this.#recorder.start(1000);
  }

  /** Stop and return the file; rejects if there is none. */
  async stop() {
    if (this.#recorder.state !== "inactive") this.#recorder.stop();
    const { file } = await this.ended;
    if (!file) throw new Error("the browser made an empty recording");
    return file;
  }
}

/** Return the first track of each kind: a recording has one of each. */
function firstOfEach(tracks) {
  const kinds = new Map(tracks.toReversed().map((track) => [track.kind, track.name]));
  return [...kinds.values()];
}
