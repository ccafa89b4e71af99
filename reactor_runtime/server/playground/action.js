/** An event that is no field: a button, or a form with a button where the event has arguments. */

import { el, humanise } from "./dom.js";
import { ConnectionLost } from "./client/reactor.js";
import { makeHint } from "./hint.js";
import { about, makeRow } from "./row.js";

/** `folded` says whether a form starts closed; `send` is as LiveControl wants it. */
export function makeAction(event, description, specs, send, folded) {
  const rows = specs.map((spec) => makeRow(spec, spec.name, spec.description, { error: { "data-error-param": spec.name } }));
  const button = el("button", { class: "button", title: event }, humanise(event));
  const error = el("p", { class: "error", "data-error-for": event, "aria-live": "polite" });
  const hint = makeHint(description);
  const submitted = async (submit) => {
    submit.preventDefault();
    const values = readAll(rows);
    if (!values) return;
    button.dataset.busy = "";
    const fault = await send(event, values, performance.now()).then(() => null, (reason) => reason);
    delete button.dataset.busy;
    if (fault instanceof ConnectionLost) return;
    error.textContent = fault?.message ?? "";
    for (const { name, fail } of rows) fail(fault ? about(fault, event, name) : "");
  };
  const parts = rows.length ? [...hint, ...rows.map(({ root }) => root), button] : [button, ...hint];
  const form = el("form", { novalidate: true, onsubmit: submitted }, ...parts, error);
  const outside = { class: "action", "data-event": event };
  if (!rows.length) return el("div", outside, form);
  return el("details", { ...outside, open: !folded }, el("summary", { title: event }, humanise(event)), form);
}

/** Read every argument, leaving out those without a value; null when one can't be read, which says so itself. */
function readAll(rows) {
  const values = {};
  let readable = true;
  for (const { name, widget, fail } of rows) {
    fail("");
    try {
      const value = widget.read();
      if (value !== undefined) values[name] = value;
    } catch (fault) {
      fail(fault.message);
      readable = false;
    }
  }
  return readable ? values : null;
}
