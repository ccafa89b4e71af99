/** A description, whole for who hears it; of a long one three lines are shown, until more is asked for. */

import { el, newId, setText } from "./dom.js";

const CERTAINLY_SHORT = 100; // characters: three lines on the narrowest page

/** Gives the elements to put where the description belongs. */
export function makeHint(words = "", id = newId()) {
  const hint = el("p", { class: "hint", id }, words);
  if (words.length <= CERTAINLY_SHORT) return [hint];
  const more = el("span", { class: "more", role: "button", tabindex: 0, "aria-controls": id, hidden: true }); // no button: those of viewers are off
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
