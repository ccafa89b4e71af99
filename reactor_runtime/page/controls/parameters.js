/** Describes a parameter from its JSON Schema, and chooses the widget for it. */

// A slider with more positions could not be set to most of them.
const MOST_POSITIONS = 10_000;
// Choices that fit beside each other.
const FEW_CHOICES = 4;
const SHORT_CHOICES = 24;

// kind → its widgets; without a better reason the first is chosen
const WIDGETS = {
  range: ["slider", "number", "seed", "angle"],
  number: ["number", "seed", "angle"],
  choice: ["select", "radio"],
  text: ["text", "multiline", "password", "color"],
  switch: ["switch"],
  pair: ["xy", "range"],
  file: ["file", "image"],
  datetime: ["datetime"],
  date: ["date"],
  time: ["time"],
  json: ["json"],
};
const BY_FORMAT = { "date-time": "datetime", date: "date", "time-local": "time" };

/**
 * Return {name, kind, widget, …}: `kind` is one of WIDGETS; `optional` if null is
 * allowed; `ui` is what the author wrote about the control; `bound` if keys, a gamepad or the pointer set it.
 */
export function describeParameter(name, schema, parameters) {
  const defs = parameters.$defs ?? {};
  const outer = resolve(schema, defs);
  const inner = withoutNull(outer, defs);
  const { default: initial, description = inner.description ?? "", "x-reactor-ui": ui = {} } = outer;
  const isPlace = outer["x-reactor-bind"]?.some(({ kind }) => kind === "pointer") ?? false;
  const spec = {
    name,
    description,
    default: initial,
    ui,
    examples: outer.examples ?? [],
    hasDefault: initial !== undefined,
    optional: inner !== outer,
    bound: "x-reactor-bind" in outer,
    downwards: isPlace,
    ...shape(isPlace ? onFrame(inner) : inner, ui.step),
  };
  return { ...spec, widget: WIDGETS[spec.kind].includes(ui.widget) ? ui.widget : chooseWidget(spec) };
}

function chooseWidget({ kind, name, default: initial, ...spec }) {
  const named = (...words) => new RegExp(`(^|_)(${words.join("|")})$`, "i").test(name);
  switch (kind) {
    case "number":
    case "range":
      if (spec.integer && named("seed")) return "seed";
      if (spec.max - spec.min === 360 && named("angle", "heading", "hue", "rotation")) return "angle";
      return kind === "range" && (spec.max - spec.min) / spec.step <= MOST_POSITIONS ? "slider" : "number";
    case "choice": {
      const letters = spec.choices.map(nameChoice).join("");
      return spec.choices.length <= FEW_CHOICES && letters.length <= SHORT_CHOICES ? "radio" : "select";
    }
    case "text":
      if (named("password", "secret", "token")) return "password";
      if (named("colou?r") && /^#[0-9a-f]{6}$/i.test(initial)) return "color";
      return initial?.includes("\n") ? "multiline" : "text";
    case "pair":
      return named("interval", "range") ? "range" : "xy";
    case "file":
      return named("image", "photo", "picture") ? "image" : "file";
  }
  return WIDGETS[kind][0];
}

export const nameChoice = (value) =>
  value === null ? "none" : typeof value === "string" ? value : JSON.stringify(value);

function shape(schema, step) {
  if ("const" in schema) return { kind: "choice", choices: [schema.const] };
  if (Array.isArray(schema.enum)) return { kind: "choice", choices: schema.enum };
  if (schema.type === "boolean") return { kind: "switch" };
  if (schema.type === "string") return { kind: BY_FORMAT[schema.format] ?? "text" };
  if (schema.type === "integer" || schema.type === "number") return numeric(schema, step);
  if (schema.format === "upload") return { kind: "file" };
  const parts = schema.prefixItems?.map((part) => shape(part, step)) ?? [];
  if (parts.length === 2 && parts.every(({ kind }) => kind === "range")) return { kind: "pair", parts };
  return { kind: "json", empty: schema.type === "array" ? [] : schema.type === "object" ? {} : null };
}

/** Return the schema of a place on the frame, whose parts are from 0 to 1. */
function onFrame(schema) {
  const prefixItems = schema.prefixItems?.map((part) => ({ minimum: 0, maximum: 1, ...part }));
  return prefixItems ? { ...schema, prefixItems } : schema;
}

/** `step` is the one that the author wrote for the control. */
function numeric(schema, step) {
  const integer = schema.type === "integer";
  const low = schema.minimum ?? schema.exclusiveMinimum;
  const high = schema.maximum ?? schema.exclusiveMaximum;
  const grid = schema.multipleOf ?? (integer ? 1 : null);
  if (low === undefined || high === undefined) return { kind: "number", integer, step: step ?? grid ?? "any" };
  const fine = step ?? grid ?? niceStep(high - low);
  let min = grid ? round(Math.ceil(round(low / grid)) * grid) : low;
  let max = grid ? round(Math.floor(round(high / grid)) * grid) : high;
  if (schema.exclusiveMinimum >= min) min = round(min + fine);
  if (schema.exclusiveMaximum <= max) max = round(max - fine);
  return { kind: "range", integer, min, max, step: fine };
}

/** Return 1, 2 or 5 times a power of ten that gives a slider at least 100 positions and ends on its maximum. */
function niceStep(span) {
  const power = 10 ** Math.floor(Math.log10(span / 100));
  const steps = [5, 2, 1, 0.5, 0.2, 0.1]
    .map((factor) => round(factor * power))
    .filter((step) => step <= round(span / 100));
  return steps.find((step) => Number.isInteger(round(span / step))) ?? (span > 0 ? span / 100 : "any");
}

/** Remove the noise of binary fractions: 0.1 + 0.2 is 0.3 on a slider. */
export const round = (value) => Number(value.toPrecision(12));

function resolve(schema, defs) {
  const target = defs[schema.$ref?.split("/").at(-1)];
  return target ? resolve({ ...target, ...schema, $ref: target.$ref }, defs) : schema;
}

function withoutNull(schema, defs) {
  const options = schema.anyOf?.map((option) => resolve(option, defs));
  if (!options?.some(({ type }) => type === "null")) return schema;
  const rest = options.filter(({ type }) => type !== "null");
  return rest.length === 1 ? rest[0] : { anyOf: rest };
}
