/** Puts text on the clipboard: false where the browser lets it in no way. */

import { el } from "../dom.js";

/** In a click. The API is there on https and localhost only; elsewhere the old command still works. */
export async function copyText(text) {
  if (!navigator.clipboard) return copyBySelection(text);
  return navigator.clipboard.writeText(text).then(() => true, () => copyBySelection(text));
}

function copyBySelection(text) {
  const area = el("textarea", { readonly: true });
  const { activeElement } = document;
  area.value = text;
  (document.fullscreenElement ?? document.body).append(area);
  area.focus();
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  activeElement?.focus();
  return copied;
}
