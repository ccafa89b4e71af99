/**
 * Handles the token in a page: removes it from the address after use, and reloads the page when it is no longer valid.
 * Loaded after the page's own script, which reads the address first; uses only the phase that it shows.
 */

const { dataset } = document.documentElement;
const query = new URLSearchParams(location.search);

// By now the browser has the token as a cookie. A frame of another site has none, and its address is not visible.
if (query.has("token") && window.top === window) {
  query.delete("token");
  const rest = query.toString();
  history.replaceState(null, "", location.pathname + (rest && `?${rest}`) + location.hash);
}

// A refused socket gives no reason. If the token was the reason, the server answers with the page that asks for it.
new MutationObserver(async () => {
  if (dataset.phase !== "offline") return;
  const answer = await fetch(location.href, { method: "HEAD" }).catch(() => null);
  if (answer?.status === 401) location.reload();
}).observe(document.documentElement, { attributeFilter: ["data-phase"] });
