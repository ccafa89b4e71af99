/** What the journal knows as lanes of spans, and these as a trace that other programs open. No clock, no document. */

const POINT_MS = 0.001;

/**
 * The last ten seconds of a Journal as lanes: [{name, rows, spans: [{start, end, row, kind, words}]}], times those of the journal. Spans
 * of one row don't overlap.
 */
export function lanesOf({ from, now, frames, inputs }) {
  const part = (kind, begin, done, words) => (frame) => span(kind, frame[begin], frame[done], `${nameOf(frame)} ${words}`);
  return [
    lane("Inputs", inputs.map((input) => spansOfInput(input, now)), from),
    lane("On the way", frames.map(part("way", "handedAt", "receivedAt", "from the model to here")), from),
    lane("Decoded", frames.map(part("decode", "receivedAt", "decodedAt", "decoded")), from),
    lane("Held for the screen", frames.map(part("held", "decodedAt", "paintedAt", "until painted")), from),
    lane("Painted", frames.map((frame) => point("painted", frame.paintedAt, `${nameOf(frame)} painted`)), from),
    lane("Skipped", skipped(frames), from),
  ];
}

function spansOfInput({ type, inputAt, repliedAt = Infinity, n, shown }, now) {
  const paintedAt = shown?.paintedAt ?? Infinity;
  if (n === undefined && repliedAt <= now) return span("sent", inputAt, repliedAt, `${type}: refused, or lost`);
  const name = n === undefined ? type : `${type}, event ${n}`;
  const applied = Math.min(repliedAt, paintedAt);
  if (applied > now) return span("sent", inputAt, now, `${name}: no answer yet`);
  const sent = span("sent", inputAt, applied, `${name}: sent, then applied`);
  return [...sent, ...span("applied", applied, Math.min(paintedAt, now), `${name}: ${shown ? "applied, then painted" : "not painted yet"}`)];
}

/** Frames that came and were overtaken, and those between two that never came. */
function skipped(frames) {
  const last = new Map(); // track → seq of the one before
  const newest = new Map(frames.filter(({ paintedAt }) => paintedAt).map(({ track, seq }) => [track, seq]));
  return frames.map((frame) => {
    const { track, seq, held, receivedAt, decodedAt, paintedAt } = frame;
    const before = last.get(track) ?? seq;
    const missing = held ? 0 : seq - before - 1;
    last.set(track, seq);
    const overtaken = !paintedAt && seq < (newest.get(track) ?? 0);
    return [
      ...(missing > 0 ? point("skipped", receivedAt, `${track}: ${missing} not sent, before ${seq}`) : []),
      ...(overtaken ? point("skipped", decodedAt ?? receivedAt, `${nameOf(frame)} left out here, for a newer one`) : []),
    ];
  });
}

const nameOf = ({ track, seq }) => `${track} ${seq}`;

/** None where an end isn't known; what seems to run backwards, as clocks are only about right, is a point. */
function span(kind, start, end, words) {
  if (start == null || end == null) return [];
  return [{ start: Math.min(start, end), end: Math.max(end, Math.min(start, end) + POINT_MS), kind, words: `${words}, ${(end - start).toFixed(1)} ms` }];
}

const point = (kind, at, words) => (at == null ? [] : [{ start: at, end: at + POINT_MS, kind, words }]);

/** Lay groups of spans, each in one row, into as few rows as they need. */
function lane(name, groups, from) {
  const ends = []; // of each row
  const seen = groups.filter((group) => group.length && group.at(-1).end >= from).sort(([a], [b]) => a.start - b.start);
  const spans = seen.flatMap((group) => {
    const free = ends.findIndex((end) => end <= group[0].start);
    const row = free < 0 ? ends.length : free;
    ends[row] = group.at(-1).end;
    return group.map((each) => ({ ...each, row }));
  });
  return { name, rows: Math.max(1, ends.length), spans };
}

/** The trace event format of Chrome, which Perfetto opens: a thread for each row, times in µs from the beginning. */
export function toChromeTrace(lanes, model) {
  const rows = lanes.flatMap(({ name, rows: count, spans }) => (
    Array.from({ length: count }, (_, row) => ({ name: count > 1 ? `${name} ${row + 1}` : name, spans: spans.filter((each) => each.row === row) }))
  ));
  const began = Math.min(...lanes.flatMap(({ spans }) => spans.map(({ start }) => start)));
  const named = (name, tid, value) => ({ ph: "M", pid: 1, tid, name, args: { name: value } });
  const us = (ms) => Math.round(1000 * ms);
  const traceEvents = rows.flatMap(({ name, spans }, tid) => [
    named("thread_name", tid, name),
    { ...named("thread_sort_index", tid), args: { sort_index: tid } },
    ...spans.map(({ start, end, kind, words }) => (
      { ph: "X", pid: 1, tid, name: kind, ts: us(start - began), dur: Math.max(1, us(end) - us(start)), args: { what: words } }
    )),
  ]);
  return { displayTimeUnit: "ms", traceEvents: [named("process_name", 0, model), ...traceEvents] };
}
