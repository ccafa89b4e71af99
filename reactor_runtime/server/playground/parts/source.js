/**
 * Where pictures come from. A source is {view, mostFps, label, deviceId, lost, paused, close}: `view` is the element that shows it,
 * at most so many pictures a second. `lost(words)` and `paused(words)` are for whoever uses it to set: it ended by itself, it gives
 * nothing now ("" when it does again).
 */

import { el } from "../dom.js";
import { exactly, follow } from "./devices.js";
import { drawPattern } from "./pattern.js";
import { expectDevices, gone, Unavailable } from "./words.js";

const STILL_FPS = 2; // of a picture that never changes: models take it as any other
const GONE = {
  camera: { gone: gone("camera"), silent: "The camera gives no picture: it may be covered or switched off." },
  screen: { gone: "Sharing was stopped. Press Start to share again.", silent: "What is shared is hidden, so there is no picture of it." },
};
const nothing = () => {};

/** `choice` is device:ID, screen, file or pattern, `settings` {width, height, fps}. Throws what explain() has words for. */
export function openSource(choice, settings, file) {
  const [kind, id] = split(choice);
  return { device: openCamera, screen: openScreen, file: openFile, pattern: openPattern }[kind](settings, { id, file });
}

/** "device:a:b" is ["device", "a:b"]. */
export function split(choice) {
  const [kind] = choice.split(":", 1);
  return [kind, choice.slice(kind.length + 1)];
}

async function openCamera({ width, height, fps }, { id }) {
  expectDevices("camera");
  const wanted = { width: { ideal: width }, height: { ideal: height }, frameRate: { ideal: fps } };
  return ofStream(await navigator.mediaDevices.getUserMedia({ video: { ...wanted, ...exactly(id) } }), GONE.camera);
}

async function openScreen({ fps }) {
  expectDevices("screen");
  return ofStream(await navigator.mediaDevices.getDisplayMedia({ video: { frameRate: { ideal: fps } } }), GONE.screen);
}

async function ofStream(stream, words) {
  const [track] = stream.getVideoTracks();
  const view = videoElement({ srcObject: stream });
  const { deviceId, facingMode = "" } = track.getSettings();
  const source = { ...makeSource(view, track.label), deviceId };
  view.dataset.facing = facingMode;
  const stop = follow(track, source, words);
  source.close = () => {
    stop();
    view.srcObject = null;
  };
  view.play().catch(nothing); // a preview that doesn't play is no reason not to send
  return source;
}

async function openFile(settings, { file }) {
  if (!file) throw new Unavailable("Choose a file, a film or a picture.");
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
    throw new Unavailable(`${file.name} can't be played: it is no film that this browser knows. Most know WebM and MP4 with H.264.`);
  });
  return { ...makeSource(view, file.name), close };
}

async function openStill(file) {
  const bitmap = await createImageBitmap(file).catch(() => {
    throw new Unavailable(`${file.name} is no picture that this browser can read.`);
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

const makeSource = (view, label) => ({ view, label, mostFps: Infinity, lost: nothing, paused: nothing, close: nothing });
const videoElement = (properties) => Object.assign(el("video", { playsinline: true }), { muted: true, ...properties });
