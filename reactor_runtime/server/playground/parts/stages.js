/** Where the time of the last input went: a bar of its stages, each in words and milliseconds. */

import { el, setText } from "../dom.js";
import { measured, splitDelay, STAGES } from "./delay.js";
import { style } from "./style.js";

const NOTHING = "Change something: the way of your last input to its picture is shown here.";
const WATCHING = "You watch: there is no input of yours to follow.";
const ESTIMATES = "Paint is measured here, the sum too; between them the server's figures and its clock tell what was what.";

export async function make({ session, figures, journal }) {
  await style("stages.css");
  const parts = STAGES.map(([key, words, title]) => {
    const amount = el("b");
    return { key, amount, share: el("i", { class: `stage-${key}` }), row: el("li", { title }, el("i", { class: `stage-${key}` }), words, amount) };
  });
  const head = el("h2", { title: ESTIMATES });
  const said = el("p", { class: "hint" }, NOTHING);
  const bar = el("div", { class: "stages-bar", "aria-hidden": "true" }, ...parts.map(({ share }) => share));
  const list = el("ol", {}, ...parts.map(({ row }) => row));
  let split = null; // the input that is shown: its figures stay those of its time
  const root = el("section", { class: "stages", "aria-label": "Stages of the delay" }, head, said, bar, list);

  /** Show the last input that was seen. */
  function update() {
    const input = figures.lastShown;
    const times = input && measured(input, journal.handedAt(input.shown), session);
    for (const part of [bar, list]) part.hidden = !times;
    said.hidden = Boolean(times);
    setText(said, session.role === "viewer" ? WATCHING : NOTHING);
    setText(head, times ? `Last input to picture: ${times.totalMs.toFixed()} ms` : "Last input to picture");
    if (times && input !== split) show(splitDelay(times));
    if (times) split = input;
  }

  function show(ms) {
    for (const { key, amount, share } of parts) {
      share.style.flexGrow = ms[key];
      setText(amount, `${ms[key].toFixed(1)} ms`);
    }
  }

  return { root, update };
}
