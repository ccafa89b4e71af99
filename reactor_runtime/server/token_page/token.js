/**
 * What a page does about the token: out of the address once it was used, asked for again when it is no longer good.
 * Comes after the page's own script, which reads the address first, and knows of it only the phase it shows.
 */

const { dataset } = document.documentElement;
const query = new URLSearchParams(location.search);

// The browser keeps the token as a cookie by now; in a frame of another site it doesn't, and nobody sees the address.
if (query.has("token") && window.top === window) {
  query.delete("token");
  const rest = query.toString();
  history.replaceState(null, "", location.pathname + (rest && `?${rest}`) + location.hash);
}

// A socket that is refused doesn't say why. Where it was the token, the server has another page for us.
new MutationObserver(async () => {
  if (dataset.phase !== "offline") return;
  const answer = await fetch(location.href, { method: "HEAD" }).catch(() => null);
  if (answer?.status === 401) location.reload();
}).observe(document.documentElement, { attributeFilter: ["data-phase"] });
