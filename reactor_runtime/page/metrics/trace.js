/** The trace of the last ten seconds, a file for Perfetto. */

import { download, timestamp } from "../browser.js";

/** Save what `Timings.recent` returned. */
export function saveTrace(recent, model) {
  const content = JSON.stringify(toChromeTrace(recent, model));
  download(new Blob([content], { type: "application/json" }), `${model}-trace-${timestamp()}.json`);
}

/**
 * Return a trace in Chrome's trace event format, in µs of Unix time: the stages of inputs and frames, and which frames
 * were skipped. Spans overlap, so they are async events with an id.
 */
export function toChromeTrace({ from, now, frames, inputs }, model) {
  const us = (ms) => Math.round(1000 * (performance.timeOrigin + ms));
  const event = (ph, name, at, rest) => ({ ph, name, ts: us(Math.max(at, from)), pid: 1, tid: 1, ...rest });
  // `stages` are [name, start, end]. Those without both ends are left out.
  const spans = (cat, id, name, stages, args) => {
    const known = stages.filter(([, start, end]) => start != null && end != null && end >= from);
    if (!known.length) return [];
    return [
      event("b", name, known[0][1], { cat, id, args }),
      ...known.flatMap(([stage, start, end]) => [
        event("b", stage, start, { cat, id }),
        event("e", stage, end, { cat, id }),
      ]),
      event("e", name, known.at(-1)[2], { cat, id }),
    ];
  };
  return {
    displayTimeUnit: "ms",
    traceEvents: [
      { ph: "M", name: "process_name", pid: 1, args: { name: model } },
      ...inputs.flatMap((input, id) => spans("input", id, input.type, stagesOfInput(input, now), { n: input.n })),
      ...frames.flatMap((frame) => {
        const { track, seq, applied } = frame;
        return spans("frame", `${track} ${seq}`, track, stagesOfFrame(frame), { seq, applied });
      }),
      ...skipped(frames).map(({ text, at }) => event("i", text, at, { s: "p" })),
    ],
  };
}

function stagesOfInput({ inputAt, repliedAt = Infinity, n, shown }, now) {
  if (n === undefined && repliedAt <= now) return [["refused, or lost", inputAt, repliedAt]];
  const paintedAt = Math.min(shown?.paintedAt ?? Infinity, now);
  const appliedAt = Math.min(repliedAt, paintedAt);
  return [["sent", inputAt, appliedAt], ...(appliedAt < now ? [["applied", appliedAt, paintedAt]] : [])];
}

const stagesOfFrame = ({ handedAt, receivedAt, decodedAt, paintedAt }) => [
  ["on the way", handedAt, receivedAt],
  ["decode", receivedAt, decodedAt],
  ["held for the screen", decodedAt, paintedAt],
];

/** Return frames that a newer one replaced here, and gaps in the sequence numbers. */
function skipped(frames) {
  // track → seq of the one before
  const last = new Map();
  const newest = new Map(frames.filter(({ paintedAt }) => paintedAt).map(({ track, seq }) => [track, seq]));
  return frames.flatMap(({ track, seq, held, receivedAt, decodedAt, paintedAt }) => {
    const missing = held ? 0 : seq - (last.get(track) ?? seq) - 1;
    last.set(track, seq);
    const overtaken = !paintedAt && seq < (newest.get(track) ?? 0);
    return [
      ...(missing > 0 ? [{ text: `${track}: ${missing} not sent, before ${seq}`, at: receivedAt }] : []),
      ...(overtaken ? [{ text: `${track} ${seq} left out for a newer one`, at: decodedAt ?? receivedAt }] : []),
    ];
  });
}
