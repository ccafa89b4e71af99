/** Sends what a camera, a video or a canvas shows as JPEG, and what a microphone hears as WAV, until stopped. */

const QUALITY = 0.85;
const FPS = 30;
const PIECE_S = 0.02;

/**
 * `source`: a MediaStreamTrack, or a <video> or canvas. `fps` and `size` (the longer side, in pixels) are the most; a picture is made
 * only when it would go out at once. Resolves to {stop()}; ends by itself with the source and with the AbortSignal `closing`.
 */
export async function capture(session, publisher, track, source, { closing, ...options }) {
  const over = new AbortController();
  const { signal } = over;
  const stop = () => over.abort();
  const send = (bytes) => session.role === "controller" && publisher.publish(track, bytes);
  closing.addEventListener("abort", stop, { signal });
  if (source instanceof MediaStreamTrack) source.addEventListener("ended", stop, { signal });
  try {
    if (source.kind === "audio") await hear(session, track, source, send, signal);
    else await look(await visible(source, signal), { send, stop, signal, ready: () => publisher.free }, options);
  } catch (error) {
    stop();
    throw error;
  }
  return { stop };
}

/** What can be drawn: a video track is played in an element of its own. */
async function visible(source, signal) {
  if (source.kind !== "video") return source;
  const video = Object.assign(globalThis.document.createElement("video"), { muted: true, playsInline: true });
  video.srcObject = new MediaStream([source]);
  signal.addEventListener("abort", () => (video.srcObject = null));
  await video.play();
  return video;
}

async function look(source, { send, stop, signal, ready }, { fps = FPS, size = 4096, quality = QUALITY }) {
  const canvas = new OffscreenCanvas(1, 1);
  const context = canvas.getContext("2d", { alpha: false });
  let busy = false;
  const sendOne = async () => {
    const [width, height] = [source.videoWidth ?? source.width, source.videoHeight ?? source.height];
    if (busy || !width || !ready()) return;
    busy = true;
    const scale = Math.min(1, size / Math.max(width, height));
    Object.assign(canvas, { width: Math.round(width * scale), height: Math.round(height * scale) });
    context.drawImage(source, 0, 0, canvas.width, canvas.height);
    const file = await canvas.convertToBlob({ type: "image/jpeg", quality });
    if (!signal.aborted) send(await file.arrayBuffer());
    busy = false;
  };
  await sendOne(); // what can't be read, as pictures of other sites, is told at once
  const timer = setInterval(() => sendOne().catch(stop), 1000 / fps);
  signal.addEventListener("abort", () => clearInterval(timer));
}

/** The track says at which rate; the browser resamples. */
async function hear(session, track, source, send, signal) {
  const { sample_rate: sampleRate } = session.tracks.find(({ name }) => name === track) ?? {};
  const context = new AudioContext({ sampleRate });
  signal.addEventListener("abort", () => context.close());
  await context.audioWorklet.addModule(new URL("recorder.js", import.meta.url));
  const options = { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit", processorOptions: { pieceS: PIECE_S } };
  const recorder = new AudioWorkletNode(context, "reactor-recorder", options);
  recorder.port.onmessage = ({ data }) => send(wav(data, context.sampleRate));
  context.createMediaStreamSource(new MediaStream([source])).connect(recorder);
  await context.resume();
}

/** A mono WAV of 16-bit samples. */
export function wav(samples, sampleRate) {
  const file = new DataView(new ArrayBuffer(44 + samples.byteLength));
  const words = (at, text) => [...text].forEach((letter, i) => file.setUint8(at + i, letter.charCodeAt(0)));
  words(0, "RIFF");
  file.setUint32(4, 36 + samples.byteLength, true);
  words(8, "WAVEfmt ");
  const format = [[16, 16, 4], [20, 1, 2], [22, 1, 2], [24, sampleRate, 4], [28, 2 * sampleRate, 4], [32, 2, 2], [34, 16, 2]];
  for (const [at, value, bytes] of format) file[bytes === 4 ? "setUint32" : "setUint16"](at, value, true);
  words(36, "data");
  file.setUint32(40, samples.byteLength, true);
  new Int16Array(file.buffer, 44).set(samples);
  return file.buffer;
}
