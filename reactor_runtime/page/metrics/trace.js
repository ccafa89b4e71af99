/** The trace of the last ten seconds: lanes of spans in a dialog, which can be zoomed, and saved for other programs. */

import { download, loadStyle, timestamp } from "../browser.js";
import { el, setText } from "../dom.js";
import { sharpContext } from "./charts.js";

const KINDS = {
  sent: "Input sent",
  applied: "Applied",
  way: "On the way",
  decode: "Decoding",
  held: "Held for the screen",
  painted: "Painted",
  skipped: "Skipped",
};
const HELP = "Point at something. The wheel, + and − zoom; dragging, ← and → move; 0 shows all.";

/** Show what `Timings.recent` returned. */
export async function openTrace(recent, model) {
  await loadStyle(new URL("trace.css", import.meta.url));
  const lanes = lanesOf(recent);
  const swatches = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, el("i", { class: `trace-${kind}` })]));
  const canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": summary(lanes) });
  const hint = el("p", { class: "trace-said" }, HELP);
  const button = (text, title, onclick) => el("button", { type: "button", class: "button", title, onclick }, text);
  const buttons = [
    button("−", "Zoom out", () => timeline.zoom(2)),
    button("+", "Zoom in", () => timeline.zoom(0.5)),
    button("Save", "As a file for ui.perfetto.dev or chrome://tracing", () =>
      saveTrace(toChromeTrace(lanes, model), model),
    ),
    button("Close", null, () => dialog.close()),
  ];
  const dialog = el(
    "dialog",
    { class: "trace", "aria-label": "Trace of the last 10 s" },
    el("header", {}, el("h2", {}, "The last 10 s"), el("span", { class: "count" }, summary(lanes)), ...buttons),
    canvas,
    hint,
    el("ul", {}, ...Object.entries(KINDS).map(([kind, text]) => el("li", {}, swatches[kind], text))),
  );
  const timeline = new Timeline(canvas, lanes, {
    from: recent.from,
    to: recent.now,
    swatches,
    onPoint: (text) => setText(hint, text || HELP),
  });
  const resized = new ResizeObserver(() => timeline.draw());
  document.body.append(dialog);
  // In the dialog, keys of the model's bindings belong to the trace.
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  dialog.addEventListener("click", ({ target }) => target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    resized.disconnect();
    dialog.remove();
  });
  dialog.showModal();
  resized.observe(canvas);
  // The buttons above it stay visible.
  canvas.focus({ preventScroll: true });
}

function summary(lanes) {
  const [inputs, , , , painted, skipped] = lanes.map(({ spans }) => spans);
  const rows = inputs.filter(({ kind }) => kind === "sent").length;
  return `${rows} inputs · ${painted.length} painted · ${skipped.length} skips`;
}

function saveTrace(trace, model) {
  download(new Blob([JSON.stringify(trace)], { type: "application/json" }), `${model}-trace-${timestamp()}.json`);
}

// In px: the axis, a lane's name, the gap between lanes, and all rows of a lane.
const [TOP, NAME, GAP, ROOM] = [22, 16, 8, 40];
const MOST_ROW = 16;
// The shortest time that fills the canvas.
const LEAST_MS = 20;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];
// In px around the pointer.
const NEAR = 4;

class Timeline {
  #canvas;
  #lanes;
  #whole;
  #view;
  #colours;
  #onPoint;
  #pointerX = 0;

  /**
   * `swatches` are elements with each kind's colour; onPoint(text) describes what is under the pointer, "" for nothing.
   */
  constructor(canvas, lanes, { from, to, swatches, onPoint }) {
    this.#canvas = canvas;
    this.#whole = this.#view = [from, to];
    this.#colours = swatches;
    this.#onPoint = onPoint;
    this.#lanes = stacked(lanes);
    canvas.style.height = `${this.#lanes.at(-1).bottom + GAP}px`;
    canvas.addEventListener("wheel", (event) => this.#onWheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.#pointerX = event.offsetX;
      this.#onPointer(event);
    });
    canvas.addEventListener("pointermove", (event) => this.#onPointer(event));
    canvas.addEventListener("pointerleave", () => onPoint(""));
    canvas.addEventListener("keydown", (event) => this.#onKey(event));
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const context = sharpContext(this.#canvas, width, height);
    const colour = getComputedStyle(this.#canvas);
    const hue = Object.fromEntries(
      Object.entries(this.#colours).map(([kind, swatch]) => [kind, getComputedStyle(swatch).backgroundColor]),
    );
    context.font = "12px system-ui, sans-serif";
    this.#axis(context, height, colour);
    for (const { name, top, row, spans } of this.#lanes) {
      context.fillStyle = colour.color;
      context.fillText(name, 8, top - 4);
      for (const span of spans) {
        const [left, right] = [this.#place(span.start), this.#place(span.end)];
        if (right < 0 || left > width) continue;
        context.fillStyle = hue[span.kind];
        context.fillRect(left, top + span.row * row, Math.max(1, right - left - 0.5), Math.max(1, row - 1));
      }
    }
  }

  #axis(context, height, colour) {
    const [from, to] = this.#view;
    const end = this.#whole[1];
    const step = STEPS.find((each) => (to - from) / each <= this.#canvas.clientWidth / 80) ?? STEPS.at(-1);
    for (let back = Math.ceil((end - to) / step) * step; back <= end - from; back += step) {
      const x = Math.round(this.#place(end - back));
      context.fillStyle = colour.borderBottomColor;
      context.fillRect(x, 0, 1, height);
      context.fillStyle = colour.caretColor;
      context.fillText(
        back ? `−${step < 1000 ? `${back.toFixed()} ms` : `${(back / 1000).toFixed()} s`}` : "0",
        x + 4,
        13,
      );
    }
  }

  #place(time) {
    const [from, to] = this.#view;
    return ((time - from) / (to - from)) * this.#canvas.clientWidth;
  }

  #timeAt(x) {
    const [from, to] = this.#view;
    return from + (x / this.#canvas.clientWidth) * (to - from);
  }

  /** Show `factor` times as much time; `time` keeps its position. */
  zoom(factor, time = (this.#view[0] + this.#view[1]) / 2) {
    const [from, to] = this.#view;
    const span = to - from;
    const wanted = Math.min(this.#whole[1] - this.#whole[0], Math.max(LEAST_MS, span * factor));
    this.#show(time - ((time - from) / span) * wanted, wanted);
  }

  #move(byMs) {
    const [from, to] = this.#view;
    this.#show(from + byMs, to - from);
  }

  #show(from, span) {
    const begin = Math.min(Math.max(from, this.#whole[0]), this.#whole[1] - span);
    this.#view = [begin, begin + span];
    this.draw();
  }

  #onWheel(event) {
    event.preventDefault();
    const { deltaX, deltaY, offsetX } = event;
    if (Math.abs(deltaX) > Math.abs(deltaY)) this.#move(this.#timeAt(deltaX) - this.#view[0]);
    else this.zoom(1.002 ** deltaY, this.#timeAt(offsetX));
  }

  #onKey(event) {
    const [from, to] = this.#view;
    const acts = {
      "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      0: () => this.zoom(Infinity),
      ArrowLeft: () => this.#move((from - to) / 8),
      ArrowRight: () => this.#move((to - from) / 8),
    };
    if (!Object.hasOwn(acts, event.key) || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
  }

  #onPointer({ offsetX, offsetY, buttons }) {
    const movedBy = offsetX - this.#pointerX;
    this.#pointerX = offsetX;
    if (buttons & 1 && movedBy) return this.#move(this.#view[0] - this.#timeAt(movedBy));
    this.#onPoint(this.#at(offsetX, offsetY)?.text ?? "");
  }

  /** Return the span at a position, or the nearest one. */
  #at(x, y) {
    const lane = this.#lanes.find(({ top, bottom }) => y >= top - NAME && y < bottom);
    const rows =
      lane?.spans.filter(
        (span) => lane.row < 6 || Math.floor((y - lane.top) / lane.row) === span.row || y < lane.top,
      ) ?? [];
    const off = ({ start, end }) => Math.max(this.#place(start) - x, x - this.#place(end), 0);
    const [nearest] = rows
      .map((span) => [off(span), span])
      .filter(([px]) => px <= NEAR)
      .sort(([a], [b]) => a - b);
    return nearest?.[1];
  }
}

/** Return lanes with {top, bottom, row}, in px. */
function stacked(lanes) {
  let top = TOP;
  return lanes.map((lane) => {
    const row = Math.max(3, Math.min(MOST_ROW, ROOM / lane.rows));
    const begin = top + NAME;
    top = begin + row * lane.rows + GAP;
    return { ...lane, row, top: begin, bottom: top - GAP };
  });
}

const POINT_MS = 0.001;

/**
 * Return the last ten seconds of `Timings` as lanes: [{name, rows, spans: [{start, end, row, kind, text}]}]. Spans of
 * one row do not overlap.
 */
export function lanesOf({ from, now, frames, inputs }) {
  const part = (kind, begin, done, text) => (frame) =>
    span(kind, frame[begin], frame[done], `${nameOf(frame)} ${text}`);
  return [
    lane(
      "Inputs",
      inputs.map((input) => spansOfInput(input, now)),
      from,
    ),
    lane("On the way", frames.map(part("way", "handedAt", "receivedAt", "from the model to here")), from),
    lane("Decoded", frames.map(part("decode", "receivedAt", "decodedAt", "decoded")), from),
    lane("Held for the screen", frames.map(part("held", "decodedAt", "paintedAt", "until painted")), from),
    lane(
      "Painted",
      frames.map((frame) => point("painted", frame.paintedAt, `${nameOf(frame)} painted`)),
      from,
    ),
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
  return [
    ...sent,
    ...span(
      "applied",
      applied,
      Math.min(paintedAt, now),
      `${name}: ${shown ? "applied, then painted" : "not painted yet"}`,
    ),
  ];
}

/** Return points for frames that a newer one replaced here, and for gaps in the sequence numbers. */
function skipped(frames) {
  // track → seq of the one before
  const last = new Map();
  const newest = new Map(frames.filter(({ paintedAt }) => paintedAt).map(({ track, seq }) => [track, seq]));
  return frames.map((frame) => {
    const { track, seq, held, receivedAt, decodedAt, paintedAt } = frame;
    const before = last.get(track) ?? seq;
    const missing = held ? 0 : seq - before - 1;
    last.set(track, seq);
    const overtaken = !paintedAt && seq < (newest.get(track) ?? 0);
    return [
      ...(missing > 0 ? point("skipped", receivedAt, `${track}: ${missing} not sent, before ${seq}`) : []),
      ...(overtaken
        ? point("skipped", decodedAt ?? receivedAt, `${nameOf(frame)} left out here, for a newer one`)
        : []),
    ];
  });
}

const nameOf = ({ track, seq }) => `${track} ${seq}`;

/** Return no span without both ends. A negative one becomes a point, because clocks are approximate. */
function span(kind, start, end, text) {
  if (start == null || end == null) return [];
  return [
    {
      start: Math.min(start, end),
      end: Math.max(end, Math.min(start, end) + POINT_MS),
      kind,
      text: `${text}, ${(end - start).toFixed(1)} ms`,
    },
  ];
}

const point = (kind, at, text) => (at == null ? [] : [{ start: at, end: at + POINT_MS, kind, text }]);

/** Place groups of spans in as few rows as possible, each group in one row. */
function lane(name, groups, from) {
  // Of each row.
  const ends = [];
  const seen = groups.filter((group) => group.length && group.at(-1).end >= from).sort(([a], [b]) => a.start - b.start);
  const spans = seen.flatMap((group) => {
    const free = ends.findIndex((end) => end <= group[0].start);
    const row = free < 0 ? ends.length : free;
    ends[row] = group.at(-1).end;
    return group.map((each) => ({ ...each, row }));
  });
  return { name, rows: Math.max(1, ends.length), spans };
}

/**
 * Return a trace in Chrome's trace event format, for Perfetto: a thread for each row, times in µs from the beginning.
 */
export function toChromeTrace(lanes, model) {
  const rows = lanes.flatMap(({ name, rows: count, spans }) =>
    Array.from({ length: count }, (_, row) => ({
      name: count > 1 ? `${name} ${row + 1}` : name,
      spans: spans.filter((each) => each.row === row),
    })),
  );
  const began = Math.min(...lanes.flatMap(({ spans }) => spans.map(({ start }) => start)));
  const named = (name, tid, value) => ({ ph: "M", pid: 1, tid, name, args: { name: value } });
  const us = (ms) => Math.round(1000 * ms);
  const traceEvents = rows.flatMap(({ name, spans }, tid) => [
    named("thread_name", tid, name),
    { ...named("thread_sort_index", tid), args: { sort_index: tid } },
    ...spans.map(({ start, end, kind, text }) => ({
      ph: "X",
      pid: 1,
      tid,
      name: kind,
      ts: us(start - began),
      dur: Math.max(1, us(end) - us(start)),
      args: { what: text },
    })),
  ]);
  return { displayTimeUnit: "ms", traceEvents: [named("process_name", 0, model), ...traceEvents] };
}
