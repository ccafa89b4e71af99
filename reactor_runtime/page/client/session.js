/** A client and its model, from the first connection to close(); reactor.d.ts documents what is public. */

import { Connection } from "./connection.js";
import { ConnectionLost, errorOf, MediaError, SessionEnded } from "./errors.js";
import { VideoOutputs } from "./frames.js";
import { InputDelay } from "./input_delay.js";
import { readFile } from "./media.js";
import { ClientProtocol } from "./protocol.js";
import { Speaker } from "./sound/speaker.js";

export class Session extends EventTarget {
  speaker = new Speaker(() => this.#emit("listening", this.speaker.on));
  #inputDelay = new InputDelay();
  #role;
  #connection;
  #emit = (name, detail) => this.dispatchEvent(new CustomEvent(name, { detail }));
  #protocol = new ClientProtocol({
    onBegin: () => this.#began(),
    onContract: () => this.#changedTracks(),
    onLeave: () => this.#left(),
    onEnd: (status) => this.#endScope(errorOf(status)),
    emit: (name, detail) => {
      if (name === "stats") this.#video?.explain(detail);
      this.#emit(name, detail);
    },
  });
  #outputs = new VideoOutputs({
    acknowledge: ({ track, seq, receivedAt }) =>
      this.#connection.notify("reactor.ack", { track, seq, held_ms: Math.round(performance.now() - receivedAt) }),
    onSinks: () => this.#video && this.#sendView(),
    onShown: (header, at) => this.#shown(header, at),
    emit: this.#emit,
    paintAt: (header, now) => this.speaker.mixer?.paintAt(header.ptsS, now) ?? now,
  });
  // Null until a server has offered video.
  #video = null;
  // Of the frames that came, by track.
  #newestPtsS = new Map();
  #read = readFile;
  #publisher = null;
  #steps = null;
  // The document of the canvases.
  #page = null;
  #view = {};
  #closing = new AbortController();
  // The scope of a controller's session; a viewer's spans all its sessions.
  #scope = new AbortController();
  // Whether another session starts only after reconnect().
  #over = false;
  // The session and the seat whose frames are shown.
  #shownSession = null;
  #shownSeat = 0;
  // {session, since}: a session that may be resumed
  #resumable = null;

  constructor(address, query, WebSocket) {
    super();
    const on = (name, listener) => this.#connection.addEventListener(name, ({ detail }) => listener(detail));
    this.#role = query.role;
    this.#connection = new Connection(address, query, WebSocket);
    on("open", () => {
      this.#renewScope();
      this.#protocol.reopen();
    });
    on("message", ({ type, data }) => {
      this.#checkResumed(type, data);
      this.#protocol.receive(type, data);
    });
    on("media", (bytes) => this.#received(bytes));
    on("malformed", (text) =>
      this.#emit("ignored", { what: "A text message was ignored: it is not an envelope", why: text }),
    );
    on("asking", (detail) => this.#protocol.ask(detail));
    on("close", (closed) => this.#closed(closed));
    globalThis.addEventListener?.("online", () => this.#connection.reopen(), { signal: this.#closing.signal });
    this.#connection.open();
  }

  get status() {
    return this.#protocol.status;
  }
  get role() {
    return this.#protocol.role;
  }
  get maySend() {
    // In a shared session every client may.
    return this.role === "controller" || !!(this.id && this.welcome.shared);
  }
  get state() {
    return this.#protocol.state;
  }
  get id() {
    return this.role && this.welcome.session;
  }
  get welcome() {
    return this.#protocol.welcome;
  }
  get model() {
    return this.welcome.model;
  }
  get tracks() {
    return this.welcome.tracks;
  }
  get schema() {
    return this.welcome.schema;
  }
  get lastReload() {
    return this.welcome.reload;
  }
  get stats() {
    return this.#protocol.stats;
  }
  get limits() {
    return this.welcome.limits;
  }
  get inputDelayMs() {
    return this.#inputDelay.delays.last;
  }
  get medianInputDelayMs() {
    return this.#inputDelay.delays.value;
  }
  get rttMs() {
    return this.#connection.rttMs;
  }

  /** Whether the message about the clients in several seats, which follows the welcome, has come. */
  get #knowsSeats() {
    return !(this.id && this.welcome.seats > 1) || !!this.welcome.clients;
  }

  ready(options) {
    return this.#ready(options?.signal, this.#over ? null : this.#scope);
  }

  /** Wait for a session; `lost` is the scope of one that may be over. */
  #ready(signal, lost = null) {
    return new Promise((resolve, reject) => {
      const over = new AbortController();
      const settle = (how, value) => {
        over.abort();
        how(value);
      };
      let scope = lost?.signal.aborted ? null : this.#scope;
      const check = () => {
        if (this.#scope !== lost) scope ??= this.#scope;
        if (signal?.aborted) settle(reject, signal.reason);
        else if (scope?.signal.aborted) settle(reject, scope.signal.reason);
        else if (scope && this.role === this.#role && this.#knowsSeats) settle(resolve, this);
        else if (this.#over) settle(reject, this.#scope.signal.reason);
      };
      for (const name of ["status", "seats"]) this.addEventListener(name, check, { signal: over.signal });
      signal?.addEventListener("abort", check, { signal: over.signal });
      check();
    });
  }

  async send(type, data = {}, { inputAt = performance.now() } = {}) {
    // Most messages of the protocol have no reply.
    if (!type || type.startsWith("reactor.")) throw new TypeError(`"${type}" is no event of a model`);
    if (!this.maySend && this.role !== this.#role) await this.#ready();
    const reply = await this.#connection.send(type, data);
    if (typeof reply.n === "number") this.#inputDelay.replied(reply.n, inputAt);
    return reply;
  }

  async step(request) {
    await this.#ready();
    this.#steps ??= import("./steps.js").then(({ Steps }) => new Steps(this, this.#connection));
    return (await this.#steps).request(request);
  }

  notify(type, data = {}) {
    // The server would refuse it.
    if (!this.maySend && !type.startsWith("reactor.")) return false;
    return this.#connection.notify(type, data);
  }

  messages() {
    const end = this.#scope.signal;
    const loaded = new AbortController();
    const early = [];
    this.addEventListener("message", ({ detail }) => early.push(detail), { signal: loaded.signal });
    return later(
      import("./readers.js").then(({ readMessages }) => {
        loaded.abort();
        return readMessages(this, end, early);
      }),
    );
  }

  frames(track = null, options) {
    const end = this.#scope.signal;
    return later(import("./readers.js").then(({ readFrames }) => readFrames(this.#outputs, track, end, options)));
  }

  async frame(options) {
    return (await import("./stream.js")).frame(this, options);
  }

  attach(track, canvas) {
    this.#watchPage(canvas.ownerDocument);
    return this.#outputs.attach(track, canvas);
  }

  async stream(...tracks) {
    return (await import("./stream.js")).streamOf(this, tracks);
  }

  async publish(track, source, options) {
    const { Publisher } = await import("./publish/publisher.js");
    this.#publisher ??= new Publisher({ session: this, connection: this.#connection, closing: this.#closing.signal });
    return this.#publisher.publish(track, source, options);
  }

  async upload(file, name = file.name) {
    const { upload } = await import("./http.js");
    return upload(this.#connection.server, { key: this.welcome.upload_key, name }, file);
  }

  view(wanted) {
    const { maxFps, seat, ...view } = wanted ?? {};
    // Without it, the next connection begins with the seat of the address.
    this.#view = { ...view, seat: seat ?? this.#view.seat, max_fps: maxFps };
    const { codecs } = view;
    if (codecs) this.#loadReader().then(() => this.#sendView());
    else this.#sendView();
  }

  here() {
    this.notify("reactor.here");
  }

  reload() {
    this.notify("reactor.reload");
  }

  keep() {
    this.notify("reactor.keep");
  }

  reconnect() {
    if (this.#closing.signal.aborted) return;
    this.#over = false;
    this.#connection.open();
  }

  close() {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort();
    this.#endScope(new SessionEnded("closed", ""));
    this.#connection.close();
    this.speaker.close();
  }

  /** Reject the pending calls of the session, and end its iterators. */
  #endScope(error) {
    if (/closed|finished|turn_over|idle/.test(error.reason)) this.#over = true;
    // This error replaces that of a scope that has ended before.
    if (this.#over) this.#renewScope();
    this.#scope.abort(error);
    this.#connection.forgetSession(error);
    this.#resumable = null;
  }

  #renewScope() {
    if (this.#scope.signal.aborted && !this.#closing.signal.aborted) this.#scope = new AbortController();
  }

  #closed(closed) {
    const { error, kept, retryAt } = closed;
    const now = performance.now();
    this.#over = !retryAt;
    if (kept) this.#resumable ??= { session: this.welcome.session, since: now };
    if (error) this.#endScope(error);
    else if (this.#resumable && now - this.#resumable.since > 1000 * (this.limits.resume_grace_s ?? 0)) {
      this.#endScope(new ConnectionLost("the connection did not come back in time"));
    }
    this.#protocol.close(closed);
  }

  /** End the scope if the first answer after a reconnection is another session or a queue position. */
  #checkResumed(type, { session }) {
    if (!this.#resumable || !/^reactor\.(welcome|queue)$/.test(type)) return;
    if (session !== this.#resumable.session) {
      this.#endScope(new ConnectionLost("the session was not kept"));
      this.#renewScope();
    }
    this.#resumable = null;
  }

  #names(kind) {
    return this.tracks.filter((track) => track.kind === kind && track.direction === "out").map(({ name }) => name);
  }

  #changedTracks() {
    this.#outputs.update(this.#names("video"));
    const sounds = this.#names("audio");
    if (`${sounds}` !== `${this.speaker.tracks}`) this.speaker.tracks = sounds;
  }

  #began() {
    const { session, seat = 0, encodings } = this.welcome;
    const resumed = session !== null && session === this.#shownSession && seat === this.#shownSeat;
    this.#outputs.restart(this.#names("video"), { resumed });
    if (!resumed) this.#newestPtsS.clear();
    [this.#shownSession, this.#shownSeat] = [session, seat];
    this.speaker.tracks = this.#names("audio");
    this.#inputDelay.restart();
    this.#video?.restart({ resumed });
    if (this.#page?.hidden || this.#video || Object.keys(this.#view).length) this.#sendView();
    if (!this.#video && encodings?.includes("h264")) {
      this.#loadVideo().catch(({ message }) => this.#emit("ignored", { what: "Video can't be decoded", why: message }));
    }
  }

  async #loadVideo() {
    await this.#loadReader();
    const { makeVideo } = await import("./video/video.js");
    this.#video = await makeVideo({
      show: (header, frame) => this.#outputs.put(header, null, frame),
      requestKey: (track) => this.notify("reactor.key", { track }),
      onGiveUp: () => this.#sendView(),
      emit: this.#emit,
    });
    this.#sendView();
  }

  async #loadReader() {
    this.#read = (await import("./read_media.js")).readMedia;
  }

  #left() {
    if (!this.#resumable) this.#outputs.end();
    this.speaker.mixer?.restart();
    this.#inputDelay.forgetWaiting();
  }

  #received(bytes) {
    this.#emit("received", bytes.byteLength);
    try {
      const media = this.#read(bytes);
      if (media.kind === "wav") this.#playSound(media);
      else this.#showFrame(media, bytes);
    } catch (error) {
      if (!(error instanceof MediaError)) throw error;
      this.#video?.reset();
      this.#emit("ignored", { what: "A binary message was ignored", why: error.message });
    }
  }

  #showFrame(media, bytes) {
    const { header, sample, isKey } = media;
    if (header) header.receivedAt = performance.now();
    if (sample) this.#video.put(media);
    else this.#outputs.put(header, bytes);
    if (header) {
      this.#emit("arrived", header);
      this.#emit("encoded", { header, bytes, isKey });
    }
    if (!header) return;
    if (header.afterFlush) this.speaker.mixer?.flush(header.ptsS, this.#newestPtsS.get(header.track) ?? -Infinity);
    this.#newestPtsS.set(header.track, header.ptsS);
  }

  #playSound(media) {
    const { track } = media.header;
    if (!this.speaker.tracks.includes(track))
      throw new MediaError(`sound of ${track}, which this session does not have`);
    if (this.role) this.speaker.play(media);
    const { header, kind, ...sound } = media;
    this.#emit("sound", { ...header, ...sound });
  }

  #shown(header, at) {
    this.speaker.mixer?.painted(header, at);
    this.#inputDelay.painted(header.applied, at);
  }

  /** Pause video while the page is hidden; sound continues. */
  #watchPage(page = null) {
    if (!page || this.#page) return;
    this.#page = page;
    const changed = () => {
      this.#outputs.skipGap();
      this.#inputDelay.forgetWaiting();
      this.speaker.mixer?.forgetFrames();
      this.#sendView();
      if (!page.hidden) this.#connection.reopen();
    };
    page.addEventListener("visibilitychange", changed, { signal: this.#closing.signal });
  }

  #sendView() {
    if (!this.role) return;
    const hidden = Boolean(this.#page?.hidden) && this.#outputs.onScreenOnly;
    const audible = this.speaker.on && this.speaker.tracks.length > 0;
    const paused = this.#view.paused || hidden;
    const view = hidden && audible ? { tracks: this.speaker.tracks, seat: this.#view.seat } : { ...this.#view, paused };
    const wanted = this.#outputs.takesVideo && this.welcome.generation !== "stepped";
    const codecs = this.#video?.follow({ paused, wanted });
    this.notify("reactor.view", { ...view, codecs: this.#view.codecs ?? codecs });
  }
}

/** Return an iterator for the promise of one. */
const later = (iterator) => ({
  next: async () => (await iterator).next(),
  return: async (value) => (await iterator).return(value),
  [Symbol.asyncIterator]() {
    return this;
  },
});
