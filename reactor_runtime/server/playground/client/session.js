/** A client and its model, from the first connection to close(): reactor.d.ts explains what is public, and lists the events. */

import { Connection } from "./connection.js";
import { InputDelay } from "./delay.js";
import { ConnectionLost, errorOf, MediaError } from "./errors.js";
import { Feed } from "./feed.js";
import { readMedia } from "./media.js";
import { Outputs } from "./outputs.js";
import { Speaker } from "./speaker.js";
import { Standing } from "./standing.js";

const FINAL = /closed|failed|refused|unreachable|turn_over|idle/; // no session follows these by itself
const MOST_MESSAGES = 1000; // waiting for who iterates over them

export class Session extends EventTarget {
  speaker = new Speaker(() => this.#emit("listening", this.speaker.on));
  #inputDelay = new InputDelay();
  #address;
  #options;
  #connection;
  #emit = (name, detail) => this.dispatchEvent(new CustomEvent(name, { detail }));
  #standing = new Standing({ began: () => this.#began(), left: () => this.#left(), emit: this.#emit });
  #outputs = new Outputs({
    acknowledge: (track, seq) => this.#connection.notify("reactor.ack", { track, seq }),
    shown: (header, at) => this.#shown(header, at),
    emit: this.#emit,
    paintAt: (header, now) => this.speaker.mixer?.paintAt(header.ptsS, now) ?? now,
  });
  #publisher = null; // once something was published
  #page = null; // the document of the canvases
  #wish = {};
  #closing = new AbortController();

  constructor(address, options) {
    super();
    const { token, role, session, watch, WebSocket } = options;
    const on = (name, listener) => this.#connection.addEventListener(name, ({ detail }) => listener(detail));
    this.#address = address;
    this.#options = options;
    this.#connection = new Connection(address, { token, role, session, watch: watch && 1 }, WebSocket);
    on("open", () => this.#standing.opened());
    on("message", ({ type, data }) => this.#standing.told(type, data));
    on("media", (bytes) => this.#received(bytes));
    on("malformed", (text) => this.#emit("ignored", { what: "A text message was ignored: it is no envelope", why: text }));
    on("close", (closed) => this.#standing.closed(closed));
    globalThis.addEventListener?.("online", () => this.#connection.wake(), { signal: this.#closing.signal });
    this.#connection.open();
  }

  get status() { return this.#standing.status; }
  get role() { return this.#standing.role; }
  get state() { return this.#standing.state; }
  get id() { return this.role && this.#standing.welcome.session; }
  get model() { return this.#standing.welcome.model; }
  get tracks() { return this.#standing.welcome.tracks; }
  get schema() { return this.#standing.welcome.schema; }
  get stats() { return this.#standing.stats; }
  get limits() { return this.#standing.welcome.limits; }
  get inputDelayMs() { return this.#inputDelay.lastMs; }
  get medianInputDelayMs() { return this.#inputDelay.medianMs; }
  get rttMs() { return this.#connection.rttMs; }

  ready({ signal } = {}) {
    return new Promise((resolve, reject) => {
      const over = new AbortController();
      const settle = (how, value) => (over.abort(), how(value));
      const look = () => {
        const { status } = this;
        if (signal?.aborted) settle(reject, signal.reason);
        else if (this.role === this.#options.role) settle(resolve, this);
        else if (status.phase === "ended" && FINAL.test(status.reason)) settle(reject, errorOf(status));
      };
      this.addEventListener("status", look, { signal: over.signal });
      signal?.addEventListener("abort", look, { signal: over.signal });
      look();
    });
  }

  async send(type, data = {}, { inputAt = performance.now() } = {}) {
    if (!type || type.startsWith("reactor.")) throw new TypeError(`"${type}" is no event of a model`); // most are never answered
    if (this.role !== this.#options.role) await this.#turn();
    const reply = await this.#connection.send(type, data);
    if (typeof reply.n === "number") this.#inputDelay.replied(reply.n, inputAt);
    return reply;
  }

  /** In a break: of the same session. */
  async #turn() {
    const { status } = this;
    const { session, resume } = /connecting$/.test(status.phase) ? this.#standing.welcome : {};
    if (status.phase === "ended") throw errorOf(status);
    if (!session || resume) await this.ready();
    if (session && this.id !== session) throw new ConnectionLost("the session was not kept");
  }

  notify(type, data = {}) {
    if (this.role !== "controller" && !type.startsWith("reactor.")) return false; // the server would refuse it
    return this.#connection.notify(type, data);
  }

  messages() {
    const over = new AbortController();
    const feed = new Feed({ most: MOST_MESSAGES, stopped: () => over.abort(), end: this.#closing.signal });
    this.addEventListener("message", ({ detail }) => feed.push(detail), { signal: over.signal });
    return feed;
  }

  frames(track = null) {
    return this.#outputs.frames(track, this.#closing.signal);
  }

  async frame(options) {
    return (await import("./frame.js")).frame(this, options);
  }

  attach(track, canvas) {
    this.#watchPage(canvas.ownerDocument);
    return this.#outputs.attach(track, canvas);
  }

  async stream(...tracks) {
    const { streamOf } = await import("./stream.js");
    return streamOf(this, tracks);
  }

  async publish(track, source, options) {
    const { Publisher } = await import("./publish.js");
    this.#publisher ??= new Publisher({ session: this, connection: this.#connection, closing: this.#closing.signal });
    return this.#publisher.publish(track, source, options);
  }

  async upload(file, name = file.name) {
    const { upload } = await import("./upload.js");
    return upload(this.#address, { key: this.#standing.welcome.upload_key, token: this.#options.token, name }, file);
  }

  view({ paused, maxFps, tracks } = {}) {
    this.#wish = { paused, max_fps: maxFps, tracks };
    this.#view();
  }

  here() {
    this.#connection.notify("reactor.here");
  }

  reconnect() {
    if (!this.#closing.signal.aborted) this.#connection.open();
  }

  close() {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort();
    this.#connection.close();
    this.speaker.close();
  }

  #began() {
    const names = (kind) => this.tracks.filter((track) => track.kind === kind && track.direction === "out").map(({ name }) => name);
    this.#outputs.restart(names("video"));
    this.speaker.tracks = names("audio");
    this.#inputDelay.restart();
    if (this.#page?.hidden || Object.keys(this.#wish).length) this.#view();
  }

  #left() {
    this.speaker.mixer?.restart();
    this.#inputDelay.forgetWaiting();
  }

  #received(bytes) {
    this.#emit("received", bytes.byteLength);
    try {
      const media = readMedia(bytes);
      if (media.kind === "wav") this.#hear(media);
      else this.#see(media.header, bytes);
    } catch (error) {
      if (!(error instanceof MediaError)) throw error;
      this.#emit("ignored", { what: "A binary message was ignored", why: error.message });
    }
  }

  #see(header, bytes) {
    if (header) header.receivedAt = performance.now();
    this.#outputs.show(header, bytes);
    if (header) this.#emit("arrived", header);
    if (header?.afterFlush) this.speaker.mixer?.cut(header.ptsS);
  }

  #hear(media) {
    const { track } = media.header;
    if (!this.speaker.tracks.includes(track)) throw new MediaError(`sound of ${track}, which this session doesn't have`);
    if (this.role) this.speaker.play(media);
    const { header, kind, ...sound } = media;
    this.#emit("sound", { ...header, ...sound });
  }

  #shown(header, at) {
    this.speaker.mixer?.painted(header, at);
    this.#inputDelay.painted(header.applied, at);
  }

  /** A hidden page paints nothing, and is heard if it was. */
  #watchPage(page = null) {
    if (!page || this.#page) return;
    this.#page = page;
    const changed = () => {
      this.#outputs.skipGap();
      this.#inputDelay.forgetWaiting();
      this.speaker.mixer?.forgetPictures();
      this.#view();
      if (!page.hidden) this.#connection.wake();
    };
    page.addEventListener("visibilitychange", changed, { signal: this.#closing.signal });
  }

  #view() {
    if (!this.role) return;
    const hidden = Boolean(this.#page?.hidden) && this.#outputs.onScreenOnly;
    const heard = this.speaker.on && this.speaker.tracks.length > 0;
    const paused = this.#wish.paused || hidden;
    this.#connection.notify("reactor.view", hidden && heard ? { tracks: this.speaker.tracks } : { ...this.#wish, paused });
  }
}
