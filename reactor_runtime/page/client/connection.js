/**
 * The socket of a session: envelopes, ids, promises, pings, reconnecting. Events and their detail: "open"; "message"
 * {type, data, id}; "media" ArrayBuffer; "malformed" text; "asking" text while the browser asks for a permission;
 * "close" {code, reason, opened, retryAt, error, kept}: `opened` is false for a failed attempt; `retryAt` is on
 * performance.now()'s clock, 0 for never; `error` rejects all that waits, or is null; `kept`: the server keeps the
 * session. A redirect to a worker is followed without an event.
 */

import { ConnectError, ConnectionLost, EventError, Refused } from "./errors.js";
import { judgeClose } from "./protocol.js";
import { mayNeedPermission, PROTOCOL, Route } from "./route.js";

// As in the Python client.
const [FIRST_WAIT_MS, MOST_WAIT_MS] = [200, 2000];
// A connection that lasted this long resets the delay of retries.
const STEADY_MS = 2000;
const OPEN = 1;
const PING_MS = 2000;
const SILENT_PINGS = 5;
// A ticket is valid for 10 s: the time left is for another way.
const OPENING_WORKER_MS = 5000;
// A session that a worker ended so is over, and not lost.
const REGULAR_CLOSES = [1000, 1001, 1011];

export class Connection extends EventTarget {
  rttMs = null;
  limits = {};
  #WebSocket;
  #route;
  #socket = null;
  // The permission to connect from a page, and whether it is being read.
  #localNetwork = null;
  #checking = false;
  #pending = new Map();
  #lastId = 0;
  #failures = 0;
  #retryTimer = 0;
  #pingTimer = 0;
  #silentPings = 0;
  #openedAt = 0;
  #openingTimer = 0;
  // When the worker forgets the session of a broken connection; 0 while it stands.
  #keptUntil = 0;
  // Whether there ever was a connection.
  #reached = false;
  #resume = null;
  #role = "";
  #requestedRole;
  // Whether only open() connects again.
  #released = false;

  constructor(url, query = {}, WebSocket = globalThis.WebSocket) {
    super();
    if (!WebSocket) throw new TypeError("there is no WebSocket here: give one as an option (Node 22 has it)");
    this.#WebSocket = WebSocket;
    const address = new URL(url);
    this.#requestedRole = query.role;
    for (const [name, value] of Object.entries(query)) {
      if (value) address.searchParams.set(name, value);
    }
    this.#route = new Route(address);
  }

  /** Connect now, unless there is a connection or an attempt. */
  open() {
    if (this.#socket || this.#checking) return;
    clearTimeout(this.#retryTimer);
    this.#released = false;
    if (mayNeedPermission(this.server.hostname)) this.#checkPermission();
    else this.#dial();
  }

  /** Connect if the browser allows this page to; otherwise report what the visitor can do, and try again later. */
  async #checkPermission() {
    this.#checking = true;
    // Do not ask for a worker: the front relays the session if there is no permission.
    const onAsk = this.#route.atWorker ? null : (text) => this.#emit("asking", text);
    const refusal = await import("./local_network.js")
      .then(({ LocalNetwork, needsPermission }) => {
        this.#localNetwork ??= new LocalNetwork();
        return needsPermission(this.server.hostname) ? this.#localNetwork.check(this.server, onAsk) : "";
      })
      .catch(({ message }) => message);
    this.#checking = false;
    if (this.#released) return;
    if (refusal) this.#closed(1006, refusal);
    else this.#dial();
  }

  #dial() {
    const route = this.#route;
    const socket = new this.#WebSocket(route.next(this.#resume), route.protocols);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => this.#opened();
    socket.onmessage = ({ data }) => this.#received(data);
    socket.onclose = ({ code, reason }) => this.#closed(code, reason);
    // Node 20 reports a failed attempt only here.
    socket.onerror = () => this.#openedAt || this.#closed(1006, "");
    this.#socket = socket;
    if (!route.atWorker) return;
    // Networks that drop packets refuse nothing.
    const leftMs = route.admitted ? this.#keptUntil - performance.now() : OPENING_WORKER_MS;
    this.#openingTimer = setTimeout(() => this.#closed(1006, ""), Math.min(leftMs, OPENING_WORKER_MS));
  }

  /** The address for requests beside the socket: that of the current server, with its token. */
  get server() {
    return this.#route.server;
  }

  /** Connect, unless the turn was ended. */
  reopen() {
    if (!this.#released) this.open();
  }

  /** Leave: the session ends, and nothing is tried again. */
  close(error = null) {
    this.#released = true;
    clearTimeout(this.#retryTimer);
    if (this.#socket) this.#closed(1000, "", { closeCode: 1000, error });
    else this.#emit("close", { code: 1000, reason: "", opened: false, retryAt: 0, error });
  }

  /** Reject what waits for the session, and do not resume it. */
  forgetSession(error) {
    [this.#role, this.#resume] = ["", null];
    this.#rejectPending(error);
  }

  /**
   * Send an event of the model, or a request for steps. Resolves to its answer; rejects with EventError or ConnectionLost.
   * `read` gets the steps that were made as their answer arrives, before the messages after it, and returns the result.
   */
  send(type, data = {}, read = (answer) => answer) {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      if (!this.notify(type, data, id)) return reject(new ConnectionLost("not connected"));
      this.#pending.set(id, { resolve, reject, read });
    });
  }

  /** Send without a reply; return false if there is no connection. Throws RangeError for a message over the limit. */
  notify(type, data, id) {
    const text = JSON.stringify({ type, data, id });
    const most = this.limits.max_text_bytes ?? Infinity;
    if (text.length * 3 > most && new Blob([text]).size > most) {
      throw new RangeError(`${type} is over ${most} bytes; a file goes through upload()`);
    }
    return this.sendBytes(text);
  }

  /** Send text or bytes; return false if there is no connection. */
  sendBytes(message) {
    if (this.#socket?.readyState !== OPEN) return false;
    this.#socket.send(message);
    return true;
  }

  get unsentBytes() {
    return this.#socket?.bufferedAmount ?? 0;
  }

  #opened() {
    clearTimeout(this.#openingTimer);
    const { protocol } = this.#socket;
    if (protocol !== PROTOCOL) {
      const reason = `${this.server.host} is no Reactor server: it doesn't speak ${PROTOCOL}`;
      return this.#route.atWorker ? this.#closed(1006, reason) : this.close(new ConnectError(reason));
    }
    this.#reached = true;
    this.#openedAt = performance.now();
    this.#silentPings = 0;
    this.#pingTimer = setInterval(() => this.#ping(), PING_MS);
    this.#ping();
    this.#emit("open");
  }

  /** Count ticks, not seconds: after a sleep of the machine one tick is late, which is no fault of the server. */
  #ping() {
    if (++this.#silentPings > SILENT_PINGS) return this.#closed(0, "the server stopped answering");
    this.notify("reactor.ping", { t: performance.now() });
  }

  #received(payload) {
    this.#silentPings = 0;
    if (typeof payload !== "string") return this.#emit("media", payload);
    const message = parse(payload);
    if (!message) return this.#emit("malformed", payload.slice(0, 200));
    const { type, data, id } = message;
    if (type === "reactor.redirect" && this.#route.acceptsRedirect) return this.#redirected(data);
    if (type === "reactor.pong") this.rttMs = performance.now() - data.t;
    if (type === "reactor.welcome") {
      [this.#resume, this.#role, this.limits] = [data.resume, data.role, data.limits ?? {}];
      this.#keptUntil = 0;
      if (data.role === this.#requestedRole) this.#route.welcomed();
    }
    if (type === "reactor.session") {
      this.#released = this.#role === "controller" && ["finished", "turn_over", "idle"].includes(data.reason);
    }
    this.#emit("message", message);
    if (["reactor.reply", "reactor.stepped", "reactor.error"].includes(type)) this.#answer(id, type, data);
  }

  #answer(id, type, data) {
    const pending = this.#pending.get(id);
    if (!pending) return;
    this.#pending.delete(id);
    const { resolve, reject, read } = pending;
    if (type !== "reactor.error") return resolve(read(data));
    reject(new EventError({ ...data, made: data.made && read(data.made) }));
  }

  #redirected(redirect) {
    const refusal = this.#route.follow(redirect);
    if (refusal) return this.#closed(1006, refusal);
    this.#dropSocket(1000);
    this.#rejectPending(new ConnectionLost("the server redirected this client before it answered"));
    this.open();
  }

  /** Close the socket; return whether it had opened. */
  #dropSocket(code) {
    const socket = this.#socket;
    if (!socket) return false;
    const opened = this.#openedAt > 0;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.onerror = () => {};
    socket.close(code);
    this.#socket = this.rttMs = null;
    clearInterval(this.#pingTimer);
    clearTimeout(this.#openingTimer);
    if (opened && performance.now() - this.#openedAt > STEADY_MS) this.#failures = 0;
    this.#openedAt = 0;
    return opened;
  }

  #rejectPending(error) {
    for (const { reject } of this.#pending.values()) reject(error);
    this.#pending.clear();
  }

  /** `closeCode` goes to the server; the default keeps the session. */
  #closed(code, reason, { closeCode = 4408, error: given = null } = {}) {
    const { atWorker } = this.#route;
    const welcomed = this.#role === this.#requestedRole;
    const kept = welcomed && Boolean(this.#resume);
    const judged = judgeClose(code, reason, { role: this.#requestedRole, welcomed, kept });
    const closed = { code, reason, kept, opened: this.#dropSocket(closeCode), error: given, final: false };
    if (given || this.#released) this.#route.leave();
    else Object.assign(closed, judged, atWorker && this.#judgeWorker(closed, judged));
    const { error, final, opened } = closed;
    if (final) {
      this.#released = true;
      clearTimeout(this.#retryTimer);
    }
    const mostMs = Math.min(MOST_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(this.#failures++, 10));
    // All clients of a server lose it at once.
    const waitMs = mostMs * (1 - Math.random() / 2);
    if (!this.#released) this.#retryTimer = setTimeout(() => this.reopen(), waitMs);
    this.#rejectPending(error ?? new ConnectionLost("connection lost"));
    const retryAt = this.#released ? 0 : performance.now() + waitMs;
    this.#emit("close", { ...closed, retryAt });
    // Pages cannot find the reason.
    if (!opened && !atWorker && !this.#released && !globalThis.location) this.#diagnose(retryAt);
  }

  /** Choose the worker or the front for the next attempt, after a close by the worker; return changes of `closed`. */
  #judgeWorker({ code, reason, kept }, { error, final = false }) {
    const route = this.#route;
    // From the caller's view the connection to the front broke.
    if (!route.admitted) return { code: 1006, reason: route.refused(reason), opened: true, error: null, final: false };
    // Only the front refuses finally.
    const refused = error instanceof Refused;
    if (REGULAR_CLOSES.includes(code) || (final && !refused)) return route.leave();
    const now = performance.now();
    this.#keptUntil ||= now + 1000 * (this.limits.resume_grace_s ?? 0);
    if (kept && !refused && now < this.#keptUntil) return {};
    route.leave({ returns: true });
    const own = this.#role === "controller" && this.#requestedRole === "controller";
    const lost = own ? new ConnectionLost("the connection was lost, and the session with it") : null;
    return { kept: false, final: false, error: lost };
  }

  /** End for a wrong address, continue for a server that was reached, unless it refuses this client. */
  async #diagnose(retryAt) {
    const error = await (await import("./http.js")).diagnose(this.server);
    if (!error || this.#released || this.#openedAt) return;
    if (!this.#reached || error instanceof Refused) this.close(error);
    else this.#emit("close", { code: 1006, reason: error.message, opened: false, retryAt });
  }

  #emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}

/** Return {type, data, id}, or null for a malformed envelope. */
function parse(text) {
  try {
    const { type, data = {}, id } = JSON.parse(text);
    return typeof type === "string" && typeof data === "object" && data ? { type, data, id } : null;
  } catch {
    return null;
  }
}
