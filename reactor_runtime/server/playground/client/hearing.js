/** Sends what a microphone or an AudioNode gives: heard on the audio thread at the rate of the track, sent as WAV. */

import { SoundLane } from "./soundlane.js";
import { makeWav } from "./wav.js";

/** `link` is as Way wants it; `capture` is told of what becomes of the sound. */
export async function hear(link, { name, sampleRate }, source, capture) {
  const node = source instanceof AudioNode ? source : nodeOf(source, capture.signal);
  const { context } = node;
  await Promise.all([context.audioWorklet.addModule(new URL("./ear.js", import.meta.url)), context.resume()]);
  if (capture.signal.aborted) return;
  const lane = new SoundLane(link, name);
  const options = { channelCount: 1, channelCountMode: "explicit", outputChannelCount: [1], processorOptions: { rate: sampleRate } };
  const ear = new AudioWorkletNode(context, "reactor-ear", options);
  ear.port.onmessage = ({ data: samples }) => {
    if (!lane.hasRoom) return capture.tell("skipped");
    const file = makeWav(samples, sampleRate);
    if (!lane.send(file, samples.length / sampleRate)) return capture.tell("nobody");
    capture.tell("sent", { bytes: file.length, sampleRate, level: peak(samples) });
  };
  node.connect(ear).connect(context.destination); // silent as it is: browsers work only at what leads to the loudspeaker
  capture.background = true;
  capture.signal.addEventListener("abort", () => {
    lane.end();
    ear.port.onmessage = null;
    node.disconnect(ear);
    ear.disconnect();
    ear.port.postMessage("end");
  });
}

function nodeOf(track, signal) {
  const context = new AudioContext();
  signal.addEventListener("abort", () => context.close());
  return context.createMediaStreamSource(new MediaStream([track]));
}

const peak = (samples) => samples.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0) / 32768;
