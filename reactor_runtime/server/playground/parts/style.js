/** Load a style sheet, named as seen from this file, once; resolves when what it styles may be shown. */
export async function style(name) {
  const { href } = new URL(name, import.meta.url);
  if (document.querySelector(`link[href="${href}"]`)) return;
  const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href });
  const loaded = new Promise((resolve) => (link.onload = link.onerror = resolve)); // plain is better than nothing
  document.head.append(link);
  await loaded;
}
