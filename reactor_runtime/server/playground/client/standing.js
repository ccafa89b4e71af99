/** How things stand between a client and the server, from what the server says: no socket, no clock. */

import { ConnectionLost } from "./errors.js";

const NONE = { tracks: [], schema: { events: {}, messages: {} }, state: {}, limits: {}, model: null, session: null };

export class Standing {
  status = { phase: "connecting", role: null };
  role = null; // of the running session; null while there is none
  welcome = NONE;
  state = {};
  stats = {}; // the newest of them
  #isKnown = false; // a welcome has come on this connection
  #place = null; // in the line
  #tell;

  /** `tell`: began() when a session has, left() when there is none any more, ended(status) when it is over; emit(name, detail). */
  constructor(tell) {
    this.#tell = tell;
  }

  opened() {
    this.#isKnown = false;
    this.#place = null;
    this.#report({ phase: "connecting" });
  }

  /** After the end of a turn there is no more to tell. */
  closed({ code, reason: detail, opened, retryAt, error }) {
    if (retryAt) this.#leave({ phase: "reconnecting", code, detail, opened, retryAt });
    else if (this.status.phase !== "ended") this.#leave({ phase: "ended", ...endOf(error) });
  }

  /** Take a message; those of the model's are passed on. */
  told(type, data) {
    if (!type.startsWith("reactor.")) this.#tell.emit("message", { type, data });
    else if (Object.hasOwn(this.#understood, type)) this.#understood[type](data);
    else this.#tell.emit("ignored", { what: `Unknown message ${type}`, why: data });
  }

  #understood = {
    "reactor.welcome": (welcome) => this.#begin({ ...NONE, ...welcome, tracks: welcome.tracks.map(trackOf) }),
    "reactor.queue": (place) => {
      this.#place = place;
      if (this.role) this.#report({ phase: "waiting", ...place });
      else this.#leave({ phase: "waiting", ...place });
    },
    "reactor.session": (session) => this.#turned(session),
    "reactor.state": (changes) => {
      this.state = { ...this.state, ...changes };
      this.#tell.emit("state", changes);
    },
    "reactor.stats": (stats) => this.#tell.emit("stats", (this.stats = stats)),
    "reactor.error": (error) => this.#tell.emit("error", error),
    "reactor.pong": (pong) => this.#tell.emit("pong", pong),
    "reactor.reply": () => {},
  };

  #turned({ phase, ...rest }) {
    const { session, reason, message = "", detail, elapsed_s: elapsedS = 0 } = rest;
    const starts = phase === "started" && this.#isKnown && !(this.role && this.welcome.session); // a viewer stays
    if (starts) this.#begin({ ...this.welcome, session });
    else if (phase === "loading") this.#leave({ phase, detail, elapsedS });
    else if (phase === "failed") this.#end({ phase: "ended", reason: phase, detail: message });
    else if (phase === "ended" && this.role === "controller") this.#end({ phase, reason, detail: message });
    else if (phase === "ended") this.#leave({ phase: "waiting", ...this.#place, reason, detail: message });
    else if (phase !== "started") this.#tell.emit(phase, rest); // ending, idle, stopping, away, resumed, warning
  }

  #begin(welcome) {
    this.welcome = welcome;
    this.role = welcome.role;
    this.state = { ...welcome.state };
    this.#isKnown = true;
    if (this.role !== "viewer") this.#place = null;
    this.#tell.began();
    this.#tell.emit("session", welcome);
    this.#report(this.#place ? { phase: "waiting", ...this.#place } : { phase: "connected" });
  }

  #end(status) {
    this.#tell.ended(status);
    this.#leave(status);
  }

  #leave(status) {
    this.role = null;
    this.#tell.left();
    this.#report(status);
  }

  #report(status) {
    this.status = { ...status, role: this.role };
    this.#tell.emit("status", this.status);
  }
}

const endOf = (error) => {
  if (!error) return { reason: "closed", detail: "" };
  if (error instanceof ConnectionLost) return { reason: "lost", detail: error.message };
  return { reason: error.reason ?? error.code, detail: error.detail ?? error.message };
};

const trackOf = ({ sample_rate: sampleRate, ...track }) => (sampleRate ? { ...track, sampleRate } : track);
