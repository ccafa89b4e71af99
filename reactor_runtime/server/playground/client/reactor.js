/** The client of a Reactor server, for pages and for Node: `connect(url)` gives a Session. Types and explanations: reactor.d.ts. */

import { Session } from "./session.js";

export { ConnectionLost, EventError, SessionEnded, UploadError } from "./errors.js";
export { MediaError, readMedia } from "./media.js";
export { Session };

export function connect(url = globalThis.location?.href, options = {}) {
  const given = new URL(/^[a-z]+:\/\//i.test(url) ? url : `http://${url}`);
  const of = (name) => given.searchParams.get(name);
  const { token = of("token"), role = of("role"), session = of("session"), watch, WebSocket } = options;
  return new Session(socketAddress(given), { token, role: role ?? "controller", session, watch, WebSocket });
}

function socketAddress({ protocol, host, pathname }) {
  const path = pathname.endsWith("/ws") ? pathname : `${pathname.replace(/\/$/, "")}/ws`;
  return new URL(`${protocol.replace(/^http/, "ws")}//${host}${path}`);
}
