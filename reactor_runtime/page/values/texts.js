/** Values as text for people. */

const PLAIN = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const SMALL = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });

/** Return a value with its unit: 179 and "ms" as "179 ms"; null as a dash. */
export function asText(value, unit) {
  if (value === null) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  const number = (Math.abs(value) < 0.01 ? SMALL : PLAIN).format(value);
  // As in 45° and 80 %.
  return unit === "°" ? number + unit : unit ? `${number} ${unit}` : number;
}

/** Return seconds as 1:05 or 1:00:05; null as a dash. */
export function asClock(seconds) {
  if (seconds === null) return "–";
  const whole = Math.floor(Math.abs(seconds));
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  const twoDigits = (part) => String(part).padStart(2, "0");
  const text = `${hours ? twoDigits(minutes) : minutes}:${twoDigits(whole % 60)}`;
  return `${seconds < 0 && whole ? "−" : ""}${hours ? `${hours}:` : ""}${text}`;
}
