/** The widget for a value that is a file: picked or dropped, sent when the value is; says which one the model has. */

import { el, setText } from "../dom.js";
import { style } from "./style.js";

/** As makeWidget's; read() gives the File that was picked, or the model's value as it came. */
export function makeFile({ commit }, attributes) {
  let picked = null;
  let known;
  const take = (file) => {
    if (!file) return;
    picked = file;
    setText(words, `${file.name} · ${size(file.size)}`);
    box.dispatchEvent(new Event("input", { bubbles: true })); // a value again, where it was none
    commit();
  };
  const onclick = () => (box.value = ""); // or the same file, edited, would be no change
  const box = el("input", { ...attributes, type: "file", onclick, onchange: () => take(box.files[0]) });
  const words = el("span", { class: "file-words" });
  const hold = (event) => event.preventDefault();
  const drop = (event) => {
    event.preventDefault();
    box.value = "";
    take(event.dataTransfer.files[0]);
  };
  const main = el("div", { class: "file", ondragover: hold, ondrop: drop }, box, words);
  const write = (value) => {
    known = value ?? undefined;
    if (value) return;
    picked = null;
    box.value = "";
    setText(words, "Choose a file or drop it here.");
  };
  style("file.css");
  return { main, read: () => box.files[0] ?? picked ?? known, write };
}

function size(bytes) {
  const [divisor, unit] = bytes < 1e6 ? [1e3, "kB"] : [1e6, "MB"];
  return `${Number((bytes / divisor).toPrecision(2))} ${unit}`;
}
