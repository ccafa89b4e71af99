/** Where the time from an input to the picture that shows it went. No clock, no document. */

/** In the order of the way: [key, words, what it is]. */
export const STAGES = [
  ["up", "Network, there", "Half the round trip"],
  ["wait", "Waiting for the step", "What is left: until the step that runs is done and one begins with the input, and for the answer to the input before"],
  ["model", "Model", "The step that made the picture"],
  ["encode", "Encode", "To the server's encoder, waiting for it, encoding, and back"],
  ["hold", "Held until due", "So that pictures are evenly spaced, and how late that was"],
  ["down", "Network, back", "From there to this page, with the wait while too many pictures are on their way"],
  ["paint", "Paint", "Decoding, and waiting for the screen's repaint"],
];

/**
 * Split what was measured, in ms: `totalMs` from input to paint, of which the last `paintMs` went by here, and `backMs` before that
 * between the model's hand-over and the picture's coming. The rest is estimates, `stats` of the server's and half of `rttMs`; where
 * they say more than there was, they share it. Returns {key: ms}: none negative, together `totalMs`.
 */
export function splitDelay({ totalMs, backMs, paintMs, rttMs, stats }) {
  const sum = (...keys) => keys.reduce((so, key) => so + Math.max(0, stats[`${key}_ms`] ?? 0), 0);
  const total = Math.max(0, totalMs);
  const paint = within(paintMs, total);
  const back = within(backMs, total - paint);
  const [up, model, wait] = share([(rttMs ?? 0) / 2, sum("step")], total - paint - back);
  const [encode, hold, down] = share([sum("arrive", "queue", "encode", "back"), sum("hold", "late")], back);
  return { up, wait, model, encode, hold, down, paint };
}

const within = (value, most) => Math.min(Math.max(0, value), most);

/** Both estimates and what is left of `whole`; smaller ones where they are more than that. */
function share(estimates, whole) {
  const together = estimates.reduce((sum, each) => sum + each, 0);
  const scale = together > whole ? whole / together : 1;
  const scaled = estimates.map((each) => each * scale);
  return [...scaled, Math.max(0, whole - together * scale)];
}

/** What `splitDelay` takes, of an input and the frame that showed it, handed over at `handedAt`; null where the server's clock isn't known yet. */
export function measured({ inputAt, shown }, handedAt, { rttMs, stats }) {
  if (handedAt === null) return null;
  const { receivedAt, paintedAt } = shown;
  return { totalMs: paintedAt - inputAt, backMs: receivedAt - handedAt, paintMs: paintedAt - receivedAt, rttMs, stats };
}
