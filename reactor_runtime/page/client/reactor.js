/** The client of a Reactor server; reactor.d.ts documents it, and index.js is what programs import. */

import { Session } from "./session.js";

export {
  Busy,
  ClientError,
  ConnectError,
  ConnectionLost,
  EventError,
  MediaError,
  Refused,
  SessionEnded,
  UploadError,
} from "./errors.js";
export { Session };

export function connect(url = globalThis.location?.href, options = {}) {
  const given = parse(url);
  const of = (name) => options[name] ?? given.searchParams.get(name);
  const stepped = options.stepped ?? of("generation") === "stepped";
  const role = of("role") ?? "controller";
  if (!["controller", "viewer"].includes(role)) throw new TypeError(`the role is controller or viewer, not "${role}"`);
  const query = { role, watch: options.watch && 1, generation: stepped && "stepped" };
  for (const name of ["token", "session", "room", "seat"]) query[name] = String(of(name) ?? "");
  return new Session(socketAddress(given), query, options.WebSocket);
}

function parse(url) {
  const address = /^[a-z]+:\/\//i.test(url) ? url : `http://${url}`;
  if (url && /^(http|ws)s?:/i.test(address)) return new URL(address);
  throw new TypeError(`connect() needs the address of a server, as in http://127.0.0.1:8080, not "${url}"`);
}

function socketAddress({ protocol, host, pathname }) {
  const path = pathname.endsWith("/ws") ? pathname : `${pathname.replace(/\/$/, "")}/ws`;
  return new URL(`${protocol.replace(/^http/, "ws")}//${host}${path}`);
}
