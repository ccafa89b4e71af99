/** Turns the JSON Schema of one parameter into what a control needs to know; pure. */

/** `kind` is range | number | choice | text | switch | file | json; where null is allowed too, `optional` is true. */
export function describeParameter(name, schema, parameters) {
  const defs = parameters.$defs ?? {};
  const outer = resolve(schema, defs);
  const inner = withoutNull(outer, defs);
  const { default: initial, description = inner.description ?? "" } = outer;
  return { name, description, default: initial, hasDefault: initial !== undefined, optional: inner !== outer, ...shape(inner) };
}

function shape(schema) {
  if ("const" in schema) return { kind: "choice", choices: [schema.const] };
  if (Array.isArray(schema.enum)) return { kind: "choice", choices: schema.enum };
  if (schema.type === "boolean") return { kind: "switch" };
  if (schema.type === "string") return { kind: "text" };
  if (schema.type === "integer" || schema.type === "number") return numeric(schema);
  if (schema.format === "upload") return { kind: "file" };
  return { kind: "json", empty: schema.type === "array" ? [] : schema.type === "object" ? {} : null };
}

function numeric(schema) {
  const integer = schema.type === "integer";
  const low = schema.minimum ?? schema.exclusiveMinimum;
  const high = schema.maximum ?? schema.exclusiveMaximum;
  const given = schema.multipleOf ?? (integer ? 1 : null);
  if (low === undefined || high === undefined) return { kind: "number", integer, step: given ?? "any" };
  const step = given ?? niceStep(high - low);
  let min = given ? round(Math.ceil(round(low / step)) * step) : low;
  let max = given ? round(Math.floor(round(high / step)) * step) : high;
  if (schema.exclusiveMinimum >= min) min = round(min + step);
  if (schema.exclusiveMaximum <= max) max = round(max - step);
  return { kind: "range", integer, min, max, step };
}

/** 1, 2 or 5 times a power of ten that gives a slider at least 100 positions, the last of them its end. */
function niceStep(span) {
  const power = 10 ** Math.floor(Math.log10(span / 100));
  const steps = [5, 2, 1, 0.5, 0.2, 0.1].map((factor) => round(factor * power)).filter((step) => step <= round(span / 100));
  return steps.find((step) => Number.isInteger(round(span / step))) ?? (span > 0 ? span / 100 : "any");
}

/** Drop the noise of binary fractions: 0.1 + 0.2 is 0.3 on a slider. */
const round = (value) => Number(value.toPrecision(12));

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
