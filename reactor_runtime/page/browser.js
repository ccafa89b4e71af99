/** Services of the browser: clipboard, downloads, style sheets. */

import { el } from "./dom.js";

/**
 * Copy text in a click; return false if the browser does not allow it. Outside of https and localhost there is no
 * clipboard API.
 */
export async function copyText(text) {
  if (!navigator.clipboard) return copyBySelection(text);
  return navigator.clipboard.writeText(text).then(
    () => true,
    () => copyBySelection(text),
  );
}

function copyBySelection(text) {
  const area = el("textarea", { readonly: true });
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  area.value = text;
  (document.fullscreenElement ?? document.body).append(area);
  area.focus();
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return copied;
}

export function download(blob, name) {
  const href = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
}

/** Return the time as a part of a file name. */
export const timestamp = () => new Date().toISOString().slice(0, 19).replace(/[:T]/g, "-");

/** Load the style sheet at a URL once. Resolves when it is applied. */
export async function loadStyle({ href }) {
  if (document.querySelector(`link[href="${href}"]`)) return;
  const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href });
  // A page without this style is better than none.
  const loaded = new Promise((resolve) => (link.onload = link.onerror = resolve));
  document.head.append(link);
  await loaded;
}

export const TEXT_FIELDS =
  "textarea, select, [contenteditable], input:not([type=range], [type=checkbox], [type=radio], [type=button])";
