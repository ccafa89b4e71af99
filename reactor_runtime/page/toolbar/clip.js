/**
 * The dialog that shares the last ten seconds: it plays them once more into a recorder, which takes as long as the clip
 * because browsers record in real time, and shows them meanwhile.
 */

/** @import { Session } from "../client/reactor.js" */

import { copyText, download, loadStyle } from "../browser.js";
import { decode } from "../client/frames.js";
import { makeVideoTrack } from "../client/stream.js";
import { PieceDecoder } from "../client/video/piece_decoder.js";
import { byId, el, setText } from "../dom.js";
import { KeepPanel } from "./keep.js";
import { Recording, recordingFormat } from "./record.js";
import { isLoopback } from "./share.js";

// Decoding starts before the first frame is due.
const LEAD_S = 0.2;

/**
 * Open the dialog with the pieces of LastSeconds; `link` is the address to copy, `caption` the text to share.
 * `onKept` is that of KeepPanel.
 * @param {{ session: Session, pieces: { frames: any[], sounds: any[] }, link: string, caption: string, onKept: (headline: string, answer: any) => void }} parts
 */
export async function openClip({ session, pieces, link, caption, onKept }) {
  await loadStyle(new URL("clip.css", import.meta.url));
  const { frames, sounds } = pieces;
  const over = new AbortController();
  const player = new Player(frames, sounds);
  const video = el("video", { autoplay: true, playsinline: true, "aria-label": "The clip" });
  Object.assign(video, { muted: true, srcObject: player.stream });
  const title = byId("model").textContent;
  const status = el("p", { role: "status", class: "clip-status" });
  const bar = el("progress", { "aria-label": "Making the clip", max: 1, value: 0 });
  const share = el(
    "button",
    { type: "button", class: "button primary", disabled: true, hidden: !navigator.canShare },
    "Share",
  );
  const save = el("button", { type: "button", class: "button", disabled: true }, "Download");
  const copy = el("button", { type: "button", class: "button" }, "Copy link");
  const close = el("button", { type: "button", class: "clip-close", title: "Close", "aria-label": "Close" }, "✕");
  const alone = isLoopback(location.hostname);
  const dialog = /** @type {HTMLDialogElement} */ (
    el(
      "dialog",
      { class: "clip", "aria-label": "Share clip" },
      close,
      el("div", { class: "clip-frame" }, video),
      bar,
      el("p", { class: "clip-caption" }, caption),
      el("div", { class: "clip-buttons" }, share, save, copy),
      status,
      alone
        ? el("p", { class: "hint" }, "Only this computer can open the link; the clip can be sent to anyone.")
        : null,
      session.lastReload ? new KeepPanel(session, over.signal, onKept).root : null,
    )
  );
  const say = (text) => setText(status, text);
  close.onclick = () => dialog.close();
  copy.onclick = async () => say((await copyText(link)) ? "Link copied" : link);
  // Keys of the model's bindings belong to the dialog.
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    over.abort();
    player.close();
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();

  try {
    if (!frames.length) throw new Error("there are no frames yet");
    const recording = new Recording(player.stream, recordingFormat(), `${session.model}-clip`);
    await player.play((part) => {
      /** @type {HTMLProgressElement} */ (bar).value = part;
    });
    const file = await recording.stop();
    if (!dialog.open) return;
    Object.assign(video, { srcObject: null, src: URL.createObjectURL(file), loop: true, controls: true });
    dialog.addEventListener("close", () => URL.revokeObjectURL(video.src));
    bar.remove();
    const content = { files: [file], title, text: caption };
    save.onclick = () => download(file, file.name);
    share.onclick = () => navigator.share(content).catch(({ name, message }) => name === "AbortError" || say(message));
    share.hidden = !navigator.canShare?.(content);
    share.toggleAttribute("disabled", false);
    save.toggleAttribute("disabled", false);
    (share.hidden ? save : share).focus();
  } catch ({ message }) {
    bar.remove();
    say(`The clip can't be made: ${message}`);
  } finally {
    player.close();
  }
}

/** Plays frames and sound once, the sound only into the stream. */
class Player {
  stream;
  #frames;
  #sounds;
  #video = makeVideoTrack();
  #audio = null;
  #closed = false;
  // Of the pieces of a video stream.
  #decoder = null;

  constructor(frames, sounds) {
    this.#frames = frames;
    this.#sounds = sounds;
    const tracks = [this.#video.track];
    if (sounds.length) {
      this.#audio = new AudioContext();
      this.#audio.output = this.#audio.createMediaStreamDestination();
      tracks.push(...this.#audio.output.stream.getTracks());
    }
    this.stream = new MediaStream(tracks);
  }

  /** Play until the end or close(); `onPart` gets how much was played, from 0 to 1. */
  async play(onPart) {
    const lengthS = this.#frames.at(-1).atS;
    let startMs = null;
    for (const { atS, bytes, isKey } of this.#frames) {
      const bitmap = await this.#decode(bytes, isKey);
      // Only others need it.
      if (atS < 0) {
        bitmap.close();
        continue;
      }
      if (startMs === null) {
        startMs = performance.now() + 1000 * LEAD_S;
        this.#schedule();
      }
      await wait(startMs + 1000 * atS - performance.now());
      if (this.#closed) return bitmap.close();
      onPart(lengthS && atS / lengthS);
      await this.#video.show(bitmap);
      bitmap.close();
    }
    // The last frame is shown for a while too.
    await wait(1000 * LEAD_S);
  }

  /** Stop the tracks, which ends a recording of them too. */
  close() {
    if (this.#closed) return;
    this.#closed = true;
    for (const track of this.stream.getTracks()) track.stop();
    this.#audio?.close();
    this.#decoder?.close();
  }

  async #decode(bytes, isKey) {
    if (isKey === undefined) return decode(bytes);
    this.#decoder ??= new PieceDecoder();
    const frame = await this.#decoder.decode(bytes);
    const bitmap = await createImageBitmap(frame);
    frame.close();
    return bitmap;
  }

  #schedule() {
    const audio = this.#audio;
    if (!audio) return;
    const startS = audio.currentTime + LEAD_S;
    for (const { atS, sampleRate, channels, samples } of this.#sounds) {
      const buffer = audio.createBuffer(channels, samples.length / channels, sampleRate);
      for (let channel = 0; channel < channels; channel += 1) {
        const values = buffer.getChannelData(channel);
        for (let i = 0; i < values.length; i += 1) values[i] = samples[i * channels + channel] / 32768;
      }
      const source = new AudioBufferSourceNode(audio, { buffer });
      source.connect(audio.output);
      source.start(startS + atS);
    }
  }
}

const wait = (ms) => new Promise((done) => setTimeout(done, Math.max(0, ms)));
