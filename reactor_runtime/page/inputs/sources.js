/**
 * Sources of input tracks: camera, screen, file and test pattern; microphone, file and test tone. A source is {lost,
 * paused, close} and {view, mostFps} or {node}: `view` is the element to publish, at most `mostFps` times a second,
 * `node` an AudioNode. The caller sets lost(text), called when the source ends by itself, and paused(text), called
 * while it gives nothing, and with "" when it continues.
 */

import { el } from "../dom.js";
import { exactly, expectDevices, followTrack, gone, secureAddressHint, Unavailable } from "./devices.js";

const SIZES = ["320×240", "640×360", "640×480", "1280×720", "1920×1080"];
// A model that takes this share of the frames keeps up.
const KEEPS_UP = 0.9;
const RATES = [5, 10, 15, 24, 30, 60];

const settingsOf = ({ size, rate }) => {
  const [width, height] = size.split("×").map(Number);
  return { width, height, fps: Number(rate) };
};

export const videoInput = {
  device: "camera",
  deviceKind: "videoinput",
  sources: [
    ["device:", "Camera"],
    ["screen", "Screen or window"],
    ["file", "File…"],
    ["pattern", "Test pattern"],
  ],
  accept: "video/*,image/*",
  suggestions: [
    { source: "device:", label: "Use your camera" },
    { source: "file", label: "Choose an image" },
  ],
  menus: [
    { name: "size", label: "Maximum size", options: SIZES.map((size) => [size, size]), initial: "640×480" },
    {
      name: "rate",
      label: "Maximum frame rate",
      options: RATES.map((rate) => [String(rate), `${rate} fps`]),
      initial: "30",
    },
  ],
  toggle: {
    name: "mirror",
    label: "Mirrored preview",
    title: "Frames are never sent mirrored, and the preview of a camera that faces away from you is not mirrored",
    initial: true,
    isLocal: true,
  },
  open: (choices, file) => openSource(choices.source, settingsOf(choices), file),

  /** Return the arguments of session.publish(). */
  offer({ view, mostFps }, choices) {
    const settings = settingsOf(choices);
    return [view, { ...settings, fps: Math.min(settings.fps, mostFps) }];
  },

  /** Return the metrics of about the last second as text. */
  describe: ({ count, bytes, seconds, skipped, last, input }) =>
    `${(count / seconds).toFixed(1)} fps · ${Math.round(bytes / 1000 / seconds)} kB/s · ${last.width}×${last.height} · ${skipped} skipped` +
    (input?.wanted && input.taken < KEEPS_UP * input.came
      ? ` · the model takes ${input.taken.toFixed(1)} a second`
      : ""),
};

// For an image that never changes.
const STILL_FPS = 2;
const VIDEO_LOST = {
  camera: { gone: gone("camera"), silent: "The camera sends no frames: it may be covered or switched off." },
  screen: {
    gone: "Sharing was stopped. Press Start to share again.",
    silent: "The shared window is hidden, so there are no frames of it.",
  },
};
const nothing = () => {};

/** Open device:ID, screen, file or pattern with {width, height, fps}. Rejects with errors for explain(). */
function openSource(choice, settings, file) {
  const [kind, id] = split(choice);
  return { device: openCamera, screen: openScreen, file: openVideoFile, pattern: openPattern }[kind](settings, {
    id,
    file,
  });
}

/** Split "device:a:b" into ["device", "a:b"]. */
function split(choice) {
  const [kind] = choice.split(":", 1);
  return [kind, choice.slice(kind.length + 1)];
}

async function openCamera({ width, height, fps }, { id }) {
  expectDevices("camera");
  const wanted = { width: { ideal: width }, height: { ideal: height }, frameRate: { ideal: fps } };
  return ofStream(
    await navigator.mediaDevices.getUserMedia({ video: { ...wanted, ...exactly(id) } }),
    VIDEO_LOST.camera,
  );
}

async function openScreen({ fps }) {
  expectDevices("screen");
  return ofStream(
    await navigator.mediaDevices.getDisplayMedia({ video: { frameRate: { ideal: fps } } }),
    VIDEO_LOST.screen,
  );
}

async function ofStream(stream, messages) {
  const [track] = stream.getVideoTracks();
  const view = videoElement({ srcObject: stream });
  const { deviceId, facingMode = "" } = track.getSettings();
  const source = { ...makeSource(view, track.label), deviceId };
  view.dataset.facing = facingMode;
  const stop = followTrack(track, source, messages);
  source.close = () => {
    stop();
    view.srcObject = null;
  };
  // A preview that does not play is no reason to stop.
  view.play().catch(nothing);
  return source;
}

async function openVideoFile(_settings, { file }) {
  if (!file) throw new Unavailable("Choose a video or an image.");
  if (file.type.startsWith("image/")) return openStill(file);
  const url = URL.createObjectURL(file);
  const view = videoElement({ src: url, loop: true });
  const close = () => {
    view.removeAttribute("src");
    view.load();
    URL.revokeObjectURL(url);
  };
  await view.play().catch(() => {
    close();
    throw new Unavailable(
      `${file.name} can't be played: this browser does not support its format. Most support WebM and MP4 with H.264.`,
    );
  });
  return { ...makeSource(view, file.name), close };
}

async function openStill(file) {
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new Unavailable(`${file.name} is not an image that this browser can read.`);
  });
  const view = el("canvas", { width: bitmap.width, height: bitmap.height });
  view.getContext("2d").drawImage(bitmap, 0, 0);
  bitmap.close();
  return { ...makeSource(view, file.name), mostFps: STILL_FPS };
}

function openPattern({ width, height, fps }) {
  const view = el("canvas", { width, height });
  const start = performance.now();
  const draw = () => drawPattern(view, (performance.now() - start) / 1000);
  draw();
  const timer = setInterval(draw, 1000 / fps);
  return { ...makeSource(view, "the test pattern"), close: () => clearInterval(timer) };
}

const makeSource = (view, label) => ({
  view,
  label,
  mostFps: Infinity,
  lost: nothing,
  paused: nothing,
  close: nothing,
});
const videoElement = (properties) => Object.assign(el("video", { playsinline: true }), { muted: true, ...properties });

const COLOURS = ["#c0c0c0", "#c0c000", "#00c0c0", "#00c000", "#c000c0", "#c00000", "#0000c0"];

/** Draw the test pattern at a time after its start. */
function drawPattern(canvas, seconds) {
  const { width, height } = canvas;
  const context = canvas.getContext("2d", { alpha: false });
  COLOURS.forEach((colour, i) => {
    context.fillStyle = colour;
    context.fillRect(Math.floor((i * width) / 7), 0, Math.ceil(width / 7), height);
  });
  const shade = context.createLinearGradient(0, 0, width, 0);
  shade.addColorStop(0, "#000");
  shade.addColorStop(1, "#fff");
  context.fillStyle = shade;
  context.fillRect(0, height * 0.75, width, height * 0.25);
  context.fillStyle = "#fff";
  context.fillRect(((seconds / 2) % 1) * width, 0, Math.max(2, width / 80), height);
  writeClock(context, seconds, width, height);
}

function writeClock(context, seconds, width, height) {
  const size = Math.round(height / 7);
  const text = `${Math.floor(seconds / 60)}:${(seconds % 60).toFixed(2).padStart(5, "0")}`;
  context.fillStyle = "#000";
  context.fillRect(width / 2 - 2.2 * size, height / 2 - 0.75 * size, 4.4 * size, 1.5 * size);
  context.fillStyle = "#fff";
  context.font = `600 ${size}px ui-monospace, monospace`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, width / 2, height / 2);
}

const TONE_HZ = 440;
const MICROPHONE_LOST = {
  gone: gone("microphone"),
  silent: "The system has muted the microphone: unmute it there, or at the microphone itself.",
};

export const audioInput = {
  device: "microphone",
  deviceKind: "audioinput",
  sources: [
    ["device:", "Microphone"],
    ["file", "File…"],
    ["tone", "Test tone"],
  ],
  accept: "audio/*,video/*",
  suggestions: [{ source: "device:", label: "Use your microphone" }],
  menus: [],
  toggle: {
    name: "clean",
    label: "Remove echo and noise",
    title: "Done by the browser, which evens out the loudness too",
    initial: true,
  },
  open: openSound,
  offer: ({ node }) => [node],
  describe: ({ bytes, level, seconds, skipped, last }) =>
    `${last.sampleRate / 1000} kHz mono · ${Math.round(bytes / 1000 / seconds)} kB/s · ${decibels(level)} · ${skipped} skipped`,
};

/** Open a source of sound. The context is resumed first, because browsers require a recent gesture. */
async function openSound({ source: choice, clean }, file) {
  const [kind, id] = split(choice);
  if (kind === "device") expectDevices("microphone");
  if (!window.AudioWorkletNode)
    throw new Unavailable(`Browsers let pages work with sound on https and on localhost only. ${secureAddressHint()}`);
  const context = new AudioContext();
  const source = { view: null, lost: nothing, paused: nothing, context, end: nothing };
  source.close = () => {
    source.end();
    context.close();
  };
  const ready = context.resume();
  // Handled below, unless something else fails first.
  ready.catch(nothing);
  try {
    Object.assign(
      source,
      await { device: openMicrophone, file: openSoundFile, tone: openTone }[kind](source, { id, file, clean }),
    );
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
  return {
    node,
    label: track.label,
    deviceId: track.getSettings().deviceId,
    end: followTrack(track, source, MICROPHONE_LOST),
  };
}

async function openSoundFile({ context }, { file }) {
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
    throw new Unavailable(
      `${file.name} can't be played: this browser does not support its format. Most support MP3, WAV and Ogg.`,
    );
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
