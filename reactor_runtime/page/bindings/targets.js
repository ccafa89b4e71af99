/**
 * What sources are bound to: values that return to rest when they are released, and events. Decides what to send, and
 * sends it.
 */

import { throttledSender } from "../controls/throttle.js";

const KEYWORD = "x-reactor-bind";
// Delay before a value is sent again that the server refused as too frequent.
const AGAIN_MS = 300;
// Until then the wheel continues from the value it sent; the model's value may be older.
const SETTLE_MS = 500;

/**
 * Return the targets of the schema of reactor.welcome; `send(event, data, inputAt)` returns a promise of the reply,
 * `onHeld(target, source, part)` is called with [x, y] from rest while a source is held, and with null when it is released.
 */
export function readTargets(events, send, onHeld) {
  return Object.entries(events).flatMap(([event, { field, parameters = {} }]) => {
    const properties = Object.entries(parameters.properties ?? {});
    const values = properties
      .filter(([, schema]) => schema[KEYWORD])
      .map(([name, schema]) => new Value({ event, name, field, schema, sources: schema[KEYWORD] }, send, onHeld));
    const sources = parameters[KEYWORD];
    const names = properties.map(([name]) => name);
    return sources ? [...values, new Sent({ event, names, sources }, send, onHeld)] : values;
  });
}

/** Send without waiting for the reply: errors of the model are in the log, and a lost connection ends the session. */
const withoutReply =
  (send, onRateLimited = () => {}) =>
  (...message) =>
    send(...message).catch((error) => {
      console.debug(error);
      if (error.code === "rate_limited") onRateLimited();
    });

class Value {
  #event;
  #parameter;
  #schema;
  #sender;
  // source → its part of the value: [x, y] from rest, or {place}
  #parts = new Map();
  // As JSON.
  #last;
  #known;
  #pushedAt = -Infinity;
  #onHeld;

  constructor({ event, name, field, schema, sources }, send, onHeld) {
    this.#onHeld = onHeld;
    const deliver = withoutReply(send, () => setTimeout(() => this.#sender.push(JSON.parse(this.#last)), AGAIN_MS));
    this.name = field ?? (event.startsWith("set_") ? name : event);
    this.label = schema["x-reactor-ui"]?.label;
    this.sources = sources;
    this.field = field;
    this.#event = event;
    this.#parameter = name;
    this.#schema = schema;
    this.#known = schema.default;
    this.#last = JSON.stringify(schema.default);
    this.#sender = throttledSender((value, inputAt) => deliver(this.#event, { [this.#parameter]: value }, inputAt));
  }

  get isSwitch() {
    return typeof this.#schema.default === "boolean";
  }

  /** Set the part of a source; null when it is released. */
  set(source, part) {
    if (part) this.#parts.set(source, part);
    else if (!this.#parts.delete(source)) return;
    this.#onHeld(this, source, part);
    this.#push(this.#value());
  }

  /** Whether the model may not know of the release. */
  get unreleased() {
    return this.sources[0].kind !== "wheel" && (this.#parts.size > 0 || this.#sender.busy);
  }

  rest() {
    this.#sender.push(this.#schema.default);
  }

  release() {
    if (!this.#parts.size) return;
    for (const source of this.#parts.keys()) this.#onHeld(this, source, null);
    this.#parts.clear();
    this.#push(this.#value());
  }

  /** Add to the value permanently, within its limits. */
  step(difference) {
    const recent = this.#sender.busy || performance.now() - this.#pushedAt < SETTLE_MS;
    const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = this.#schema;
    const value = onGrid((recent ? JSON.parse(this.#last) : this.#known) + difference, this.#schema);
    if (value <= exclusiveMinimum || value >= exclusiveMaximum) return;
    this.#push(Math.min(maximum ?? Infinity, Math.max(minimum ?? -Infinity, value)));
    this.#pushedAt = performance.now();
  }

  /** Take the model's value, from reactor.state. */
  follow(value) {
    this.#known = value;
  }

  #push(value) {
    const json = JSON.stringify(value);
    if (json !== this.#last) this.#sender.push(value);
    this.#last = json;
  }

  #value() {
    const rest = this.#schema.default;
    const parts = [...this.#parts.values()];
    const { place } = parts.find((part) => part.place) ?? {};
    if (place) return place;
    const [x, y] = addUp(parts);
    if (this.isSwitch) return Math.abs(x) > 0.5 ? !rest : rest;
    if (typeof rest === "number") return towards(x, rest, this.#schema);
    if (!x && !y) return rest;
    return [x, y].map((share, i) => towards(share, rest[i], this.#schema.prefixItems[i]));
  }
}

class Sent {
  field = null;
  unreleased = false;
  #event;
  #press;
  #hasPlace;
  #moves;
  #places;
  #onHeld;

  constructor({ event, names, sources }, send, onHeld) {
    const deliver = withoutReply(send);
    this.#onHeld = onHeld;
    this.name = event;
    this.sources = sources;
    this.#event = event;
    this.#press = deliver;
    this.#hasPlace = names.includes("x") && names.includes("y");
    this.#moves = throttledSender(
      ([dx, dy], inputAt) => deliver(event, { dx: rounded(dx), dy: rounded(dy) }, inputAt),
      added,
    );
    this.#places = throttledSender(([x, y], inputAt) => deliver(event, { x, y }, inputAt));
  }

  press(place) {
    const [x, y] = place ?? [];
    this.#press(this.#event, place && this.#hasPlace ? { x, y } : {}, performance.now());
  }

  /** Press, and show it until the source is released. */
  hold(source, held) {
    if (held) this.press();
    this.#onHeld(this, source, held ? [1, 0] : null);
  }

  /** Move; while an event is under way, movements are added up. */
  move(dx, dy) {
    if (dx || dy) this.#moves.push([dx, dy]);
  }

  at(place) {
    if (place) this.#places.push(place);
  }

  rest() {}

  release() {}

  follow() {}
}

/** Return the value between rest and an end; without limits the end is 1 away. */
function towards(share, rest, schema) {
  const { minimum = rest - 1, maximum = rest + 1 } = schema;
  return share === 0 ? rest : onGrid(rest + share * (share > 0 ? maximum - rest : rest - minimum), schema);
}

function onGrid(value, { type, multipleOf = type === "integer" ? 1 : 0 }) {
  return rounded(multipleOf ? Math.round(value / multipleOf) * multipleOf : value);
}

const added = (waiting, newer) => waiting.map((value, i) => value + newer[i]);

const rounded = (value) => Number(value.toFixed(5));

/** Add up the parts of several sources, to the end at most. */
function addUp(parts) {
  const sum = (i) => parts.reduce((total, part) => total + (part[i] ?? 0), 0);
  const [x, y] = [sum(0), sum(1)];
  const length = Math.max(1, Math.hypot(x, y));
  return [x / length, y / length];
}
