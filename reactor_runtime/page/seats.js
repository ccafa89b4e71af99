/** Who has which seat in a session with several, the seats that are free, and the link to the room. */

/** @import { Session } from "./client/reactor.js" */

import { copyText, loadStyle } from "./browser.js";
import { byId, el, setText } from "./dom.js";

const COPIED_MS = 1500;

/** Add the seats to the bar. @param {Session} session */
export async function attach(session) {
  await loadStyle(new URL("seats.css", import.meta.url));
  const summary = el("summary", { class: "quiet plate" });
  const list = el("ol");
  const room = el("code");
  const invited = el("p", {}, "Room ", room);
  const invite = el("button", { class: "button", type: "button" }, "Copy the invite link");
  const panel = el("div", { class: "seats-panel" }, invited, list, invite);
  const seats = el("details", { class: "seats" }, summary, panel);
  let reset = 0;
  invite.onclick = async () => {
    const copied = await copyText(String(linkTo({ room: session.welcome.room })));
    setText(invite, copied ? "Copied" : "The browser does not allow it");
    clearTimeout(reset);
    reset = setTimeout(() => setText(invite, "Copy the invite link"), COPIED_MS);
  };
  const refresh = () => {
    const { room: code, seats: count = 1, clients = [], away = [], seat: own = 0 } = session.welcome;
    seats.hidden = count < 2 || !session.id;
    if (seats.hidden) return;
    const controls = session.role === "controller";
    const place = code === null ? { session: session.id } : { room: code };
    setText(summary, controls ? `Seat ${own + 1} of ${count}` : `Watching seat ${own + 1}`);
    setText(room, code ?? "");
    invited.hidden = invite.hidden = code === null;
    list.replaceChildren(
      ...clients.map((client, seat) => {
        const isOwn = seat === own;
        const state = client === null ? "free" : away.includes(seat) ? "away" : "taken";
        const text = `Seat ${seat + 1}${seat ? "" : ", the host"}: ${isOwn && controls ? "you" : state}`;
        const take =
          client === null && code !== null && el("a", { href: linkTo({ room: code, seat }) }, "Take this seat");
        const watch = !controls && !isOwn && el("a", { href: linkTo({ ...place, seat, role: "viewer" }) }, "Watch");
        return el("li", { "aria-current": isOwn }, text, ...[take, watch].filter(Boolean));
      }),
    );
  };
  for (const name of /** @type {const} */ (["session", "seats", "status"])) session.addEventListener(name, refresh);
  byId("role").after(seats);
  refresh();
}

/** Return the address of this page with these of room, session, seat and role, and without the others. */
function linkTo(wanted) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries({ room: null, session: null, seat: null, role: null, ...wanted })) {
    if (value === null) url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  return url;
}
