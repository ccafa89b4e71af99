/** A parameter with its label, description, widget, examples and error. */

import { el, humanise, newId, setText } from "../dom.js";
import { nameChoice } from "./parameters.js";
import { makeWidget } from "./widgets.js";

/** Return the label of a parameter. */
export const labelOf = ({ ui }, name) => ui.label || humanise(name);

/**
 * `options`: live, edited, commit for the widget; reset, a button beside the label; error, attributes of the error
 * element.
 */
export function makeRow(spec, name, description, { error, reset = null, ...options }) {
  const [id, hintId, errorId] = [newId(), newId(), newId()];
  const label = labelOf(spec, name);
  const widget = makeWidget(spec, { id, label, describedBy: `${hintId} ${errorId}`, ...options });
  const place = el("p", { class: "error", id: errorId, "aria-live": "polite", ...error });
  const root = el(
    "div",
    { class: "control", "data-kind": spec.kind, "data-widget": spec.widget },
    el("div", { class: "control-head" }, el("label", { for: id, title: name }, label), reset, widget.aside),
    ...makeHint(description?.toLowerCase() === label.toLowerCase() ? "" : description, hintId),
    widget.main,
    ...makeExamples(spec, label, (value) => {
      widget.write(value);
      options.commit?.();
    }),
    place,
  );
  const fail = (text) => {
    setText(place, text);
    for (const input of root.querySelectorAll("input, select, textarea")) input.ariaInvalid = text !== "";
  };
  /** Show the value of the row that this one replaces, unless it was its default or is none of this row. */
  const adopt = (old) => {
    if (old?.spec.widget !== spec.widget || spec.kind === "file") return;
    const before = readText(old.widget);
    if (before === JSON.stringify(old.spec.default)) return;
    if (before !== undefined) widget.write(JSON.parse(before));
    if (readText(widget) !== before) widget.write(spec.default);
  };
  return {
    name: spec.name,
    spec,
    root,
    widget,
    fail,
    adopt,
    get failed() {
      return place.textContent !== "";
    },
  };
}

function makeExamples({ examples }, label, choose) {
  if (!examples.length) return [];
  const buttons = examples.map((value) => {
    const name = nameChoice(value);
    return el("button", { type: "button", class: "example", title: name, onclick: () => choose(value) }, name);
  });
  return [el("div", { class: "examples", role: "group", "aria-label": `${label}, examples` }, ...buttons)];
}

/** Return the errors of one parameter as text, with the rest of a deeper path (`pose.x`, `steps[2]`). */
export function errorsOf({ fields = [] }, event, parameter) {
  const start = `${event}.${parameter}`;
  const text = ({ path = "", message = "" }) => {
    const rest = path.slice(start.length);
    return path.startsWith(start) && /^([.[]|$)/.test(rest) ? (rest && `${parameter}${rest}: `) + message : "";
  };
  return fields.map(text).filter(Boolean).join("; ");
}

// Characters that fit in three lines on the narrowest page.
const CERTAINLY_SHORT = 100;

/** Return the elements of a description; a long one shows three lines and a switch for the rest. */
export function makeHint(text = "", id = newId()) {
  const hint = el("p", { class: "hint", id }, text);
  if (text.length <= CERTAINLY_SHORT) return [hint];
  // Not a button: those are disabled for viewers.
  const more = el("span", { class: "more", role: "button", tabindex: 0, "aria-controls": id, hidden: true });
  const show = (open) => {
    hint.toggleAttribute("data-clamped", !open);
    more.ariaExpanded = String(open);
    setText(more, open ? "less" : "more");
  };
  const toggle = () => show(more.ariaExpanded !== "true");
  const fit = () => (more.hidden = more.ariaExpanded !== "true" && hint.scrollHeight <= hint.clientHeight);
  more.addEventListener("click", toggle);
  more.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    toggle();
  });
  new ResizeObserver(fit).observe(hint);
  show(false);
  return [hint, more];
}

/** Return a widget's value as JSON; undefined for none, and for one that cannot be read. */
function readText(widget) {
  try {
    return JSON.stringify(widget.read());
  } catch {
    return undefined;
  }
}
