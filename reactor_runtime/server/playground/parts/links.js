/** Addresses to give away: with the values there are, to watch, to put into another page. */

import { el, newId, setText } from "../dom.js";
import { copyText } from "./clipboard.js";
import { addressWith } from "./values.js";

/** Returns {root, opener}: the sheet, and `opener(title)` as a button that opens it. */
export function makeLinks(session, controls, makeOpener) {
  const fields = [
    ["Link with these values", () => addressWith(location.href, controls.values)],
    ["Link to watch", () => addressWith(location.href, {}, { role: "viewer" })],
    ["For another page", () => frameOf(addressWith(location.href, {}, { embed: "", role: "viewer" }))],
  ];
  const rows = fields.map(([label, text]) => row(label, text));
  const note = "No link holds your token. Pages of other origins may show the frame with --allow-origin.";
  const root = el("div", { popover: "auto", id: newId(), class: "links", role: "dialog", "aria-label": "Share" },
    ...rows.map((each) => each.root), el("p", { class: "hint" }, note));
  root.addEventListener("beforetoggle", ({ newState }) => newState === "open" && rows.forEach((each) => each.fill()));
  const opener = makeOpener("Share");
  opener.setAttribute("popovertarget", root.id);
  return { root, opener };
}

function row(label, text) {
  const id = newId();
  const input = el("input", { id, readonly: true, onfocus: () => input.select() });
  const said = el("span", { role: "status" });
  const copy = el("button", { type: "button", class: "button", "aria-label": `Copy: ${label}`, onclick: async () => {
    const copied = await copyText(input.value);
    input.select();
    setText(said, copied ? "Copied" : "Press Ctrl+C");
  } }, "Copy");
  const fill = () => {
    input.value = text();
    setText(said, "");
  };
  return { root: el("div", {}, el("label", { for: id }, label), said, el("div", { class: "text-row" }, input, copy)), fill };
}

const frameOf = (address) => `<iframe src="${address.replaceAll("&", "&amp;")}" width="640" height="360" allow="autoplay; fullscreen"></iframe>`;
