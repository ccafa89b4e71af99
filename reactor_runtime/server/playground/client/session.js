/** A client and its model, from the first connection to close(): reactor.d.ts explains what is public, and lists the events. */

import { Connection, ConnectionLost } from "./connection.js";
import { InputDelay } from "./delay.js";
import { Feed } from "./feed.js";
import { MediaError, readMedia } from "./media.js";
import { Outputs } from "./outputs.js";
import { Screen } from "./screen.js";
import { Sound } from "./sound.js";

const MOST_MESSAGES = 1000; // waiting for who iterates over them; then the oldest goes
const NONE = { tracks: [], schema: { events: {}, messages: {} }, state: {}, limits: {}, model: null, session: null };

export class Session extends EventTarget {
  delay = new InputDelay();
  stats = {}; // the newest reactor.stats
  sound = new Sound(() => this.#emit("listening", this.sound.on));
  #address;
  #options;
  #connection;
  #outputs = new Outputs((track, seq) => this.#connection.notify("reactor.ack", { track, seq }));
  #feeds = new Set();
  #publishing = null; // promise of the Publisher, once something was published
  #welcome = NONE;
  #role = null; // of the running session; null while there is none
  #place = null; // in the line
  #state = {};
  #status = { phase: "connecting", role: null };
  #page = null; // the document of the canvases
  #wish = {};
  #closing = new AbortController();

  constructor(address, options) {
    super();
    this.#address = address;
    this.#options = options;
    const { token, role, watch, WebSocket } = options;
    this.#connection = new Connection(address, { token, role, watch: watch && 1 }, WebSocket);
    this.#on("open", () => this.#opened());
    this.#on("message", (message) => this.#told(message));
    this.#on("media", (bytes) => this.#received(bytes));
    this.#on("malformed", (text) => this.#ignore("A text message was ignored: it is no envelope", text));
    this.#on("close", (closed) => this.#leave({ phase: "closed", ...closed }));
    globalThis.addEventListener?.("online", () => this.#connection.wake(), { signal: this.#closing.signal });
    this.#connection.open();
  }

  get status() {
    return this.#status;
  }

  get role() {
    return this.#role;
  }

  get id() {
    return this.#role && this.#welcome.session;
  }

  get model() {
    return this.#welcome.model;
  }

  get tracks() {
    return this.#welcome.tracks;
  }

  get schema() {
    return this.#welcome.schema;
  }

  get limits() {
    return this.#welcome.limits;
  }

  get state() {
    return this.#state;
  }

  get rttMs() {
    return this.#connection.rttMs;
  }

  ready({ signal } = {}) {
    return new Promise((resolve, reject) => {
      const over = new AbortController();
      const settle = (how, value) => (over.abort(), how(value));
      const look = () => {
        const { phase, message, reason, retryAt } = this.#status;
        if (signal?.aborted) settle(reject, signal.reason);
        else if (this.#role === this.#options.role) settle(resolve, this);
        else if (phase === "failed") settle(reject, new Error(message));
        else if (phase === "closed" && !retryAt) settle(reject, new ConnectionLost(reason || "the session is over"));
      };
      this.addEventListener("status", look, { signal: over.signal });
      signal?.addEventListener("abort", look, { signal: over.signal });
      look();
    });
  }

  async send(type, data = {}, { inputAt = performance.now() } = {}) {
    const reply = await this.#connection.send(type, data);
    if (typeof reply.n === "number") this.delay.replied(reply.n, inputAt);
    return reply;
  }

  notify(type, data = {}) {
    return this.#connection.notify(type, data);
  }

  messages() {
    const stop = new AbortController();
    const feed = this.#feed(MOST_MESSAGES, (message) => message, () => stop.abort());
    this.addEventListener("message", ({ detail }) => feed.push(detail), { signal: stop.signal });
    return feed;
  }

  frames(track = null) {
    const feed = this.#feed(1, (frame) => this.#take(track, frame), () => remove());
    const show = (header, bytes) => feed.push({ header, bytes });
    const remove = this.#outputs.add(track, { show, restart: () => feed.clear() });
    return feed;
  }

  attach(track, canvas) {
    this.#watchPage(canvas.ownerDocument);
    const screen = new Screen(canvas, {
      painted: (header, skipped) => this.#painted(header ?? { track }, canvas, skipped),
      broken: (header, error) => this.#broken(header ?? { track }, error),
      paintAt: (header, now) => this.sound.mixer?.paintAt(header.pts, now) ?? now,
    });
    return this.#outputs.add(track, screen);
  }

  async stream(...names) {
    const { streamOf } = await import("./stream.js");
    return streamOf(this, names);
  }

  async publish(track, source, options) {
    this.#publishing ??= import("./publish.js").then(({ Publisher }) => new Publisher(this.#connection));
    const publisher = await this.#publishing;
    if (source instanceof Blob) return publisher.publish(track, await source.arrayBuffer());
    if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return publisher.publish(track, source);
    const { capture } = await import("./capture.js");
    return capture(this, publisher, track, source, options);
  }

  async upload(file, name = file.name) {
    const { upload } = await import("./upload.js");
    return upload(this.#address, { key: this.#welcome.upload_key, token: this.#options.token, name }, file);
  }

  view({ paused, maxFps, tracks } = {}) {
    this.#wish = { paused, max_fps: maxFps, tracks };
    this.#view();
  }

  here() {
    this.#connection.notify("reactor.here");
  }

  reconnect() {
    this.#connection.open();
  }

  close() {
    this.#closing.abort();
    this.#connection.close();
    for (const feed of this.#feeds) feed.end();
    this.sound.stop();
  }

  #on(name, listener) {
    this.#connection.addEventListener(name, ({ detail }) => listener(detail));
  }

  #emit(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }

  #ignore(what, why) {
    this.#emit("ignored", { what, why });
  }

  #report(status) {
    this.#status = { ...status, role: this.#role };
    this.#emit("status", this.#status);
  }

  #opened() {
    this.#welcome = { ...this.#welcome, protocol: null };
    this.#place = null;
    this.#report({ phase: "connecting" });
  }

  #told(message) {
    const { type, data } = message;
    if (!type.startsWith("reactor.")) this.#emit("message", { type, data });
    else if (Object.hasOwn(this.#replies, type)) this.#replies[type](data);
    else this.#ignore(`Unknown message ${type}`, data);
  }

  #replies = {
    "reactor.welcome": (welcome) => this.#begin({ ...NONE, ...welcome }),
    "reactor.queue": (place) => {
      this.#place = place;
      if (this.#role) this.#report({ phase: "waiting", ...place });
      else this.#leave({ phase: "waiting", ...place });
    },
    "reactor.session": (session) => this.#turned(session),
    "reactor.state": (changes) => {
      this.#state = { ...this.#state, ...changes };
      this.#emit("state", changes);
    },
    "reactor.stats": (stats) => this.#emit("stats", (this.stats = stats)),
    "reactor.error": (error) => this.#emit("error", error),
    "reactor.reply": () => {},
    "reactor.pong": () => {},
  };

  #turned({ phase, ...rest }) {
    const { session, seconds, reason, message = "", detail, elapsed_s: elapsedS = 0 } = rest;
    const starts = phase === "started" && this.#welcome.protocol && !this.#role; // a viewer stays
    if (starts) this.#begin({ ...this.#welcome, session });
    else if (phase === "idle") this.#report(seconds === null ? { phase: "connected" } : { phase, seconds });
    else if (phase === "loading") this.#leave({ phase, detail, elapsedS });
    else if (phase === "failed" || phase === "ended") this.#leave({ phase, reason, message });
    else if (phase !== "started") this.#emit(phase, rest); // ending, stopping, away, resumed
  }

  #begin(welcome) {
    const names = (kind) => welcome.tracks.filter((track) => track.kind === kind && track.direction === "out").map(({ name }) => name);
    this.#welcome = welcome;
    this.#role = welcome.role;
    this.#state = { ...welcome.state };
    if (this.#role !== "viewer") this.#place = null;
    this.#outputs.restart(names("video"));
    this.sound.tracks = names("audio");
    this.delay.restart();
    this.#emit("session", welcome);
    this.#report(this.#place ? { phase: "waiting", ...this.#place } : { phase: "connected" });
    if (this.#page?.hidden || Object.keys(this.#wish).length) this.#view();
  }

  /** No session for now. */
  #leave(status) {
    this.#role = null;
    this.sound.mixer?.restart();
    this.delay.forgetWaiting();
    this.#publishing?.then((publisher) => publisher.clear());
    this.#report(status);
  }

  #received(bytes) {
    this.#emit("received", bytes.byteLength);
    try {
      const media = readMedia(bytes);
      if (media.kind === "wav") this.#hear(media);
      else this.#see(media.header, bytes);
    } catch (error) {
      if (!(error instanceof MediaError)) throw error;
      this.#ignore("A binary message was ignored", error.message);
    }
  }

  #see(header, bytes) {
    this.#outputs.show(header, bytes);
    if (header?.afterFlush) this.sound.mixer?.cut(header.pts);
  }

  #hear(media) {
    const { track } = media.header;
    if (!this.sound.tracks.includes(track)) throw new MediaError(`sound of ${track}, which this session doesn't have`);
    if (this.#role) this.sound.play(media);
    this.#emit("sound", media);
  }

  #painted(header, canvas, skipped) {
    const at = performance.now();
    this.#shown(header, at);
    this.#emit("painted", { ...header, canvas, skipped, at });
  }

  #shown(header, at) {
    if (header.seq === undefined) return;
    this.sound.mixer?.painted(header, at);
    this.delay.painted(header.applied, at);
    this.#outputs.acknowledge(header);
  }

  /** Acknowledged all the same: a frame nobody can show must not use up the window. */
  #broken(header, error) {
    this.#ignore(`A picture of ${header.track ?? "no track"} can't be decoded`, error.message);
    if (header.seq !== undefined) this.#outputs.acknowledge(header);
  }

  /** Gives undefined for a frame that can't be decoded. */
  async #take(track, { header, bytes }) {
    const fields = header ?? { track };
    const data = new Uint8Array(bytes);
    try {
      const bitmap = globalThis.createImageBitmap ? await createImageBitmap(new Blob([bytes], { type: "image/jpeg" })) : null;
      this.#shown(fields, performance.now());
      return { ...fields, data, bitmap };
    } catch (error) {
      return this.#broken(fields, error);
    }
  }

  #feed(most, take, stop) {
    const stopped = () => {
      this.#feeds.delete(feed);
      stop();
    };
    const feed = new Feed(most, take, stopped);
    this.#feeds.add(feed);
    if (this.#closing.signal.aborted) feed.end();
    return feed;
  }

  /** A hidden page paints nothing, and is heard if it was. */
  #watchPage(page = null) {
    if (!page || this.#page) return;
    this.#page = page;
    const changed = () => {
      this.#outputs.skipGap();
      this.delay.forgetWaiting();
      this.sound.mixer?.forgetPictures();
      this.#view();
      if (!page.hidden) this.#connection.wake();
    };
    page.addEventListener("visibilitychange", changed, { signal: this.#closing.signal });
  }

  #view() {
    if (!this.#role) return;
    const hidden = Boolean(this.#page?.hidden) && this.#outputs.onScreenOnly;
    const heard = this.sound.on && this.sound.tracks.length > 0;
    const paused = this.#wish.paused || hidden;
    this.#connection.notify("reactor.view", hidden && heard ? { tracks: this.sound.tracks } : { ...this.#wish, paused });
  }
}
