/** The client's side of `reactor.v1` without sockets and clocks: the effect of each message and each close. */

import { Busy, ConnectionLost, Refused, SessionEnded } from "./errors.js";

const NONE = {
  tracks: [],
  schema: { events: {}, messages: {} },
  state: {},
  limits: {},
  model: null,
  session: null,
  reload: null,
};

export class ClientProtocol {
  /** @type {import("./reactor.d.ts").Status} */
  status = { phase: "connecting", role: null };
  // Null without a session.
  role = null;
  /** @type {any} */
  welcome = NONE;
  state = {};
  stats = {};
  // Whether this connection had a welcome.
  #welcomed = false;
  #position = null;
  #handlers;

  /** `handlers`: onBegin(), onContract(), onLeave() and onEnd(status) of a session; emit(name, detail). */
  constructor(handlers) {
    this.#handlers = handlers;
  }

  reopen() {
    this.#welcomed = false;
    this.#position = null;
    this.#report({ phase: "connecting" });
  }

  /** Report that the browser asks the visitor before it connects. */
  ask(detail) {
    this.#report({ phase: "connecting", detail });
  }

  /** Report a closed connection, but nothing after the end of a turn. */
  close({ code, reason: detail, opened, retryAt, error }) {
    if (retryAt) this.#leave({ phase: "reconnecting", code, detail, opened, retryAt });
    else if (this.status.phase !== "ended") this.#leave({ phase: "ended", ...endOf(error) });
  }

  /** Handle a message of the protocol; emit a message of the model. */
  receive(type, data) {
    if (!type.startsWith("reactor.")) this.#handlers.emit("message", { type, data });
    else if (Object.hasOwn(this.#receivers, type)) this.#receivers[type](data);
    else this.#handlers.emit("ignored", { what: `Unknown message ${type}`, why: data });
  }

  #receivers = {
    "reactor.welcome": (welcome) => this.#begin({ ...NONE, ...welcome, tracks: welcome.tracks.map(trackOf) }),
    "reactor.queue": ({ wait_s: waitS, reason: detail, ...place }) => {
      this.#position = { phase: "waiting", ...place, waitS, detail };
      if (this.role) this.#report(this.#position);
      else this.#leave(this.#position);
    },
    "reactor.session": (session) => this.#changeSession(session),
    "reactor.state": (changes) => {
      this.state = { ...this.state, ...changes };
      this.#handlers.emit("state", changes);
    },
    "reactor.contract": ({ tracks, schema }) => {
      // The next welcome has it.
      if (!this.role) return;
      const contract = { tracks: tracks.map(trackOf), schema };
      this.welcome = { ...this.welcome, ...contract };
      const fields = [...Object.keys(schema.state ?? {}), ...Object.values(schema.events).map(({ field }) => field)];
      this.state = Object.fromEntries(Object.entries(this.state).filter(([name]) => fields.includes(name)));
      this.#handlers.onContract();
      this.#handlers.emit("contract", contract);
    },
    "reactor.reload": (reload) => {
      this.welcome = { ...this.welcome, reload };
      this.#handlers.emit("reload", reload);
    },
    "reactor.seats": (seats) => this.#handlers.emit("seats", Object.assign(this.welcome, seats)),
    "reactor.keep": (kept) => this.#handlers.emit("kept", kept),
    "reactor.stats": (stats) => {
      this.stats = stats;
      this.#handlers.emit("stats", stats);
    },
    "reactor.error": (error) => this.#handlers.emit("error", error),
    "reactor.pong": (pong) => this.#handlers.emit("pong", pong),
    "reactor.reply": () => {},
  };

  #changeSession({ phase, ...rest }) {
    const { session, reason, message = "", detail, model, progress, elapsed_s: elapsedS = 0 } = rest;
    // A viewer stays.
    const starts = phase === "started" && this.#welcomed && !(this.role && this.welcome.session);
    if (starts) this.#begin({ ...this.welcome, session });
    else if (phase === "loading") this.#leave({ phase, model, detail, progress, elapsedS });
    else if (phase === "failed") this.#end({ phase: "ended", reason: phase, detail: message });
    else if (phase === "ended" && this.role === "controller") this.#end({ phase, reason, detail: message });
    else if (phase === "ended") this.#leave({ phase: "waiting", ...this.#position, reason, detail: message });
    // preparing, ending, idle, stopping, away, resumed, lost, warning
    else if (phase !== "started") this.#handlers.emit(phase, rest);
  }

  #begin(welcome) {
    this.welcome = welcome;
    this.role = welcome.role;
    this.state = { ...welcome.state };
    this.#welcomed = true;
    if (this.role !== "viewer") this.#position = null;
    this.#handlers.onBegin();
    this.#handlers.emit("session", welcome);
    this.#report(this.#position ?? { phase: "connected" });
  }

  #end(status) {
    this.#handlers.onEnd(status);
    this.#leave(status);
  }

  #leave(status) {
    this.role = null;
    this.stats = {};
    this.#handlers.onLeave();
    this.#report(status);
  }

  #report(status) {
    this.status = { ...status, role: this.role };
    this.#handlers.emit("status", this.status);
  }
}

const endOf = (error) => {
  if (!error) return { reason: "closed", detail: "" };
  if (error instanceof ConnectionLost) return { reason: "lost", detail: error.message };
  return { reason: error.reason ?? error.code, detail: error.detail ?? error.message };
};

const trackOf = ({ sample_rate: sampleRate, ...track }) => (sampleRate ? { ...track, sampleRate } : track);

const REFUSALS = [4400, 4401, 4403];

// A new attempt would end the same way.
const OWN_FAULT = [1002, 1007, 1009, 4429];

/**
 * Return {error, final}: the error for all that waits, or null. `welcomed`: a controller has a session, a viewer knows
 * the model; `kept`: the server keeps the session.
 */
export function judgeClose(code, reason, { role, welcomed, kept }) {
  const own = role === "controller" && welcomed;
  if (code === 1000) return { error: new SessionEnded("closed", reason), final: true };
  if (REFUSALS.includes(code)) return { error: new Refused(reason || "the server refused this client"), final: true };
  if (OWN_FAULT.includes(code)) {
    return { error: new ConnectionLost(`the server closed the connection: ${reason || code}`), final: true };
  }
  if (code === 1013 && !welcomed) return { error: new Busy(reason || "the server is full; try again later") };
  if (code === 1001 && own) return { error: new SessionEnded("server_stopping", reason) };
  if (code === 1011 && own) return { error: new SessionEnded("model_error", reason) };
  return { error: own && !kept ? new ConnectionLost("the connection was lost, and the session with it") : null };
}
