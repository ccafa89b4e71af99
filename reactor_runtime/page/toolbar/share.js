/** Links: with the values of the controls, to watch, and for a frame in another page. */

import { copyText } from "../browser.js";
import { el, newId, setText } from "../dom.js";

/** Return {root, opener}: the popover, and `makeOpener(title)` as the button that opens it. */
export function makeLinks(controls, makeOpener, host = location.hostname) {
  const toWatch = () => addressWith(location.href, {}, { role: "viewer" });
  /** @type {[string, () => string][]} */
  const fields = [
    ["Link with these values", () => addressWith(location.href, controls.values)],
    ["Link to watch", toWatch],
    ["For another page", () => frameOf(addressWith(location.href, {}, { embed: "", role: "viewer" }))],
  ];
  const alone = isLoopback(host);
  // An address that is too long has no code.
  const onerror = () => (code.hidden = true);
  const code = el("img", { class: "qr", alt: "The link to watch as a QR code", hidden: alone, onerror });
  const rows = fields.map(([label, text]) => row(label, text));
  const note = "The links do not contain a password. Pages of other origins need --allow-origin to show the page.";
  const root = el(
    "div",
    { popover: "auto", id: newId(), class: "links", role: "dialog", "aria-label": "Links" },
    alone ? el("p", { class: "alone" }, ...ALONE) : null,
    code,
    ...rows.map((each) => each.root),
    el("p", { class: "hint" }, note),
  );
  root.addEventListener("beforetoggle", ({ newState }) => {
    if (newState !== "open") return;
    for (const each of rows) each.fill();
    if (!alone) code.src = `qr.svg?${new URLSearchParams({ text: toWatch() })}`;
  });
  const opener = makeOpener("Links");
  opener.setAttribute("popovertarget", root.id);
  return { root, opener };
}

const ALONE = [
  "Only this computer can open these links. For others, start the server with ",
  el("code", {}, "--share"),
  ", which makes a public link, or with ",
  el("code", {}, "--host 0.0.0.0"),
  " for your network.",
];

export const isLoopback = (host) => /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/.test(host);

function row(label, text) {
  const id = newId();
  const input = el("input", { id, readonly: true, onfocus: () => input.select() });
  const status = el("span", { role: "status" });
  const copy = el(
    "button",
    {
      type: "button",
      class: "button",
      "aria-label": `Copy: ${label}`,
      onclick: async () => {
        const copied = await copyText(input.value);
        input.select();
        setText(status, copied ? "Copied" : "Press Ctrl+C");
      },
    },
    "Copy",
  );
  const fill = () => {
    input.value = text();
    setText(status, "");
  };
  return {
    root: el("div", {}, el("label", { for: id }, label), status, el("div", { class: "text-row" }, input, copy)),
    fill,
  };
}

// A page of the internet shows a private server only with the last two.
const ALLOW = "autoplay; fullscreen; local-network-access; loopback-network";
const frameOf = (address) =>
  `<iframe src="${address.replaceAll("&", "&amp;")}" width="640" height="360" allow="${ALLOW}"></iframe>`;

const NAME = "set";

/** Return the values in an address, an empty object without any. Throws Error for values that cannot be read. */
export function valuesIn(address) {
  const text = new URL(address).searchParams.get(NAME);
  if (!text) return {};
  try {
    const values = JSON.parse(text);
    if (values && typeof values === "object" && !Array.isArray(values)) return values;
  } catch {}
  throw new Error(`The link's values can't be read; they look like ?${NAME}={"prompt":"a fox"}`);
}

/** Return the page's address with these values and without the token, which is secret. */
export function addressWith(address, values, others = {}) {
  const { origin, pathname } = new URL(address);
  const link = new URL(pathname, origin);
  for (const [name, value] of Object.entries(others)) link.searchParams.set(name, value);
  if (Object.keys(values).length) link.searchParams.set(NAME, JSON.stringify(values));
  // ?embed instead of ?embed=
  return link.href.replaceAll("=&", "&").replace(/=$/, "");
}
