/** What an input of pictures offers to choose from, and how it is sent: see Input. */

import { openSource } from "./source.js";

const SIZES = ["320×240", "640×360", "640×480", "1280×720", "1920×1080"];
const MANY = 0.9; // of the pictures that came: a model that takes so many keeps up
const RATES = [5, 10, 15, 24, 30, 60];

const settingsOf = ({ size, rate }) => {
  const [width, height] = size.split("×").map(Number);
  return { width, height, fps: Number(rate) };
};

export const picture = {
  thing: "camera",
  deviceKind: "videoinput",
  sources: [["device:", "Camera"], ["screen", "Screen or window"], ["file", "File…"], ["pattern", "Test pattern"]],
  accept: "video/*,image/*",
  menus: [
    { name: "size", label: "Most pixels", options: SIZES.map((size) => [size, size]), initial: "640×480" },
    { name: "rate", label: "Pictures a second at most", options: RATES.map((rate) => [String(rate), `${rate} fps`]), initial: "30" },
  ],
  toggle: { name: "mirror", label: "Mirrored preview", title: "What is sent is never mirrored, nor is the preview of a camera that faces away from you", initial: true, isLocal: true },
  open: (choices, file) => openSource(choices.source, settingsOf(choices), file),

  /** What session.publish() is given. */
  offer({ view, mostFps }, choices) {
    const settings = settingsOf(choices);
    return [view, { ...settings, fps: Math.min(settings.fps, mostFps) }];
  },

  /** The figures of about the last second in words. */
  describe: ({ count, bytes, seconds, skipped, last, input }) =>
    `${(count / seconds).toFixed(1)} fps · ${Math.round(bytes / 1000 / seconds)} kB/s · ${last.width}×${last.height} · ${skipped} skipped` +
    (input?.wanted && input.taken < MANY * input.came ? ` · the model takes ${input.taken.toFixed(1)} a second` : ""),
};
