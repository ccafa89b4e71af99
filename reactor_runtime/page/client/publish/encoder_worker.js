/**
 * Encodes frames in a worker: makes a JPEG of the newest one when it is asked for one, and skips the others. Receives
 * {settings}, {frames: a stream of VideoFrame}, {bitmap, capturedAt} and {go}. Sends {ready} first, then {jpeg, width,
 * height, capturedAt}, {skipped}, {over} at the end of the stream, and {failed}. `capturedAt` is a time of Date.now().
 */

import { RateLimiter } from "./frame_rate.js";

const canvas = new OffscreenCanvas(16, 16);
const context = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
// {fps, width, height, quality}
let settings = null;
let requested = false;

self.onmessage = ({ data }) => {
  if (data.settings) settings = data.settings;
  if (data.frames) read(data.frames).catch((error) => postMessage({ failed: error.message }));
  if (data.bitmap) encode(data.bitmap, data.capturedAt);
  if (data.go) requested = true;
};

/** Read the stream, which holds only the newest frame, also during an encoding. */
async function read(frames) {
  const reader = frames.getReader();
  const limiter = new RateLimiter();
  for (;;) {
    const { value: frame, done } = await reader.read();
    if (done) return postMessage({ over: true });
    if (!limiter.isDue(performance.now(), settings.fps)) frame.close();
    else if (requested) await encode(frame, Date.now());
    else {
      frame.close();
      postMessage({ skipped: 1 });
    }
  }
}

async function encode(frame, capturedAt) {
  requested = false;
  try {
    draw(frame);
    const { width, height } = canvas;
    const file = await canvas.convertToBlob({ type: "image/jpeg", quality: settings.quality });
    const jpeg = await file.arrayBuffer();
    postMessage({ jpeg, width, height, capturedAt }, { transfer: [jpeg] });
  } catch (error) {
    postMessage({ failed: error.message });
  } finally {
    frame.close();
  }
}

/** Draw a frame, scaled down into the requested size with its aspect ratio. */
function draw(frame) {
  const [width, height] = [frame.displayWidth ?? frame.width, frame.displayHeight ?? frame.height];
  const scale = Math.min(1, settings.width / width, settings.height / height);
  const [toWidth, toHeight] = [width, height].map((length) => Math.max(1, Math.round(length * scale)));
  if (canvas.width !== toWidth || canvas.height !== toHeight)
    Object.assign(canvas, { width: toWidth, height: toHeight });
  context.drawImage(frame, 0, 0, toWidth, toHeight);
}

postMessage({ ready: true });
