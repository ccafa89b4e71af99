/** A moving picture for want of a camera: colours, a clock and a sweeping line, by which delay and lost frames can be seen. */

const COLOURS = ["#c0c0c0", "#c0c000", "#00c0c0", "#00c000", "#c000c0", "#c00000", "#0000c0"];

/** Draw it as it is `seconds` after its start. */
export function drawPattern(canvas, seconds) {
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
  const words = `${Math.floor(seconds / 60)}:${(seconds % 60).toFixed(2).padStart(5, "0")}`;
  context.fillStyle = "#000";
  context.fillRect(width / 2 - 2.2 * size, height / 2 - 0.75 * size, 4.4 * size, 1.5 * size);
  context.fillStyle = "#fff";
  context.font = `600 ${size}px ui-monospace, monospace`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(words, width / 2, height / 2);
}
