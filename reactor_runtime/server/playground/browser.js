/** Services of the browser: clipboard, downloads, storage, style sheets. */

import { el } from "./dom.js";

/** In a click. The API is there on https and localhost only; elsewhere the old command still works. */
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

/** The moment as a part of a file's name. */
export const timestamp = () => new Date().toISOString().slice(0, 19).replace(/[:T]/g, "-");

export function recall(name) {
  try {
    return JSON.parse(localStorage.getItem(`reactor.${name}`)) ?? {};
  } catch {
    return {};
  }
}

/** False where nothing may be kept. */
export function remember(name, choice) {
  try {
    localStorage.setItem(`reactor.${name}`, JSON.stringify(choice));
    return true;
  } catch {
    return false;
  }
}

/** Load a style sheet, named as seen from this file, once; resolves when what it styles may be shown. */
export async function loadStyle({ href }) {
  if (document.querySelector(`link[href="${href}"]`)) return;
  const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href });
  const loaded = new Promise((resolve) => (link.onload = link.onerror = resolve)); // plain is better than nothing
  document.head.append(link);
  await loaded;
}

export const TEXT_FIELDS =
  "textarea, select, [contenteditable], input:not([type=range], [type=checkbox], [type=radio], [type=button])";
