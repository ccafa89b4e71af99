/** Gives a file to the visitor. */

export function save(blob, name) {
  const href = URL.createObjectURL(blob);
  Object.assign(document.createElement("a"), { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
}

/** The moment as a part of a file's name. */
export const stamp = () => new Date().toISOString().slice(0, 19).replace(/[:T]/g, "-");
