/** One parameter on the page: label, widget, description and the error that concerns it. */

import { el, humanise, newId, setText } from "./dom.js";
import { makeHint } from "./hint.js";
import { makeWidget } from "./widgets.js";

/** `options`: live, edited, commit for the widget; reset, a button beside the label; error, attributes of the error's place. */
export function makeRow(spec, label, description, { error, reset, ...options }) {
  const [id, hintId, errorId] = [newId(), newId(), newId()];
  const widget = makeWidget(spec, { id, label: humanise(label), describedBy: `${hintId} ${errorId}`, ...options });
  const place = el("p", { class: "error", id: errorId, "aria-live": "polite", ...error });
  const root = el("div", { class: "control", "data-kind": spec.kind },
    el("div", { class: "control-head" }, el("label", { for: id, title: label }, humanise(label)), reset, widget.aside),
    ...makeHint(description, hintId), widget.main, place);
  const fail = (words) => {
    setText(place, words);
    for (const input of root.querySelectorAll("input, select, textarea")) input.ariaInvalid = words !== "";
  };
  return { name: spec.name, root, widget, fail, get failed() { return place.textContent !== ""; } };
}

/** What an EventError says of one parameter, "" for nothing; the rest of a deeper path (`pose.x`, `steps[2]`) is named. */
export function about({ fields = [] }, event, parameter) {
  const start = `${event}.${parameter}`;
  const words = ({ path = "", message = "" }) => {
    const rest = path.slice(start.length);
    return path.startsWith(start) && /^([.[]|$)/.test(rest) ? (rest && `${parameter}${rest}: `) + message : "";
  };
  return fields.map(words).filter(Boolean).join("; ");
}
