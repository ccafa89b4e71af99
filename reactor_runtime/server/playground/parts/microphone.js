/** What an input of sound offers to choose from, where its sound comes from and how it is sent: see Input. */

import { el } from "../dom.js";
import { exactly, follow } from "./devices.js";
import { split } from "./source.js";
import { expectDevices, gone, secureWays, Unavailable } from "./words.js";

const TONE_HZ = 440;
const WORDS = { gone: gone("microphone"), silent: "The system has muted the microphone: unmute it there, or at the microphone itself." };
const nothing = () => {};

export const microphone = {
  thing: "microphone",
  deviceKind: "audioinput",
  sources: [["device:", "Microphone"], ["file", "File…"], ["tone", "Test tone"]],
  accept: "audio/*,video/*",
  menus: [],
  toggle: { name: "clean", label: "Remove echo and noise", title: "Done by the browser, which evens out the loudness too", initial: true },
  open,
  offer: ({ node }) => [node],
  describe: ({ bytes, level, seconds, skipped, last }) =>
    `${last.sampleRate / 1000} kHz mono · ${Math.round(bytes / 1000 / seconds)} kB/s · ${decibels(level)} · ${skipped} skipped`,
};

/** The context is made and resumed before anything is waited for: the gesture is soon forgotten. */
async function open({ source: choice, clean }, file) {
  const [kind, id] = split(choice);
  if (kind === "device") expectDevices("microphone");
  if (!window.AudioWorkletNode) throw new Unavailable(`Browsers let pages work with sound on https and on localhost only. ${secureWays()}`);
  const context = new AudioContext();
  const source = { view: null, lost: nothing, paused: nothing, context, end: nothing };
  source.close = () => {
    source.end();
    context.close();
  };
  const ready = context.resume();
  ready.catch(nothing); // told of below, unless something else has failed before
  try {
    Object.assign(source, await { device: openMicrophone, file: openFile, tone: openTone }[kind](source, { id, file, clean }));
    await ready;
    return source;
  } catch (error) {
    source.close();
    throw error;
  }
}

async function openMicrophone(source, { id, clean }) {
  const processing = { echoCancellation: clean, noiseSuppression: clean, autoGainControl: clean };
  const stream = await navigator.mediaDevices.getUserMedia({ audio: { ...processing, ...exactly(id) } });
  const [track] = stream.getAudioTracks();
  const node = source.context.createMediaStreamSource(stream);
  return { node, label: track.label, deviceId: track.getSettings().deviceId, end: follow(track, source, WORDS) };
}

async function openFile({ context }, { file }) {
  if (!file) throw new Unavailable("Choose a file with sound.");
  const url = URL.createObjectURL(file);
  const player = Object.assign(el("audio"), { src: url, loop: true });
  const end = () => {
    player.pause();
    URL.revokeObjectURL(url);
  };
  const node = context.createMediaElementSource(player);
  await player.play().catch(() => {
    end();
    throw new Unavailable(`${file.name} can't be played: it is no sound that this browser knows. Most know MP3, WAV and Ogg.`);
  });
  return { node, label: file.name, end };
}

async function openTone({ context }) {
  const tone = new OscillatorNode(context, { frequency: TONE_HZ });
  const node = new GainNode(context, { gain: 0.25 });
  tone.connect(node);
  tone.start();
  return { node, label: `a tone of ${TONE_HZ} Hz`, end: () => tone.stop() };
}

const decibels = (level) => (level < 0.0001 ? "silent" : `${Math.round(20 * Math.log10(level))} dB`.replace("-", "−"));
