/** Everything around the stage: loaded after the first connection, so that the first frame waits for none of it. */

/** @import { Session } from "./client/reactor.js" */

import { loadStyle } from "./browser.js";
import { EventError } from "./client/reactor.js";
import { Controls, eventsOf } from "./controls/controls.js";
import { byId } from "./dom.js";
import { Log } from "./log.js";
import { addPanel, Metrics } from "./metrics/metrics.js";
import { Timings } from "./metrics/timings.js";
import { PromptBar } from "./prompt.js";

const STYLES = ["controls/controls.css", "metrics/metrics.css", "prompt.css"];

/**
 * @param {Session} session
 * @param {import("./stage.js").Stage} stage
 * @param {import("./drawer.js").Drawer} drawer
 */
export async function makePanels(session, stage, drawer) {
  await Promise.all(STYLES.map((name) => loadStyle(new URL(name, import.meta.url))));
  showAuthorsTexts();
  const log = new Log(byId("log"), {
    count: byId("log-count"),
    copyAll: byId("log-copy"),
    clear: byId("log-clear"),
    onError: () => {
      /** @type {HTMLDetailsElement} */ (byId("log-panel")).open = true;
      drawer.markError();
    },
  });
  const timings = new Timings(session);
  const metrics = new Metrics(byId("figures"), session, timings);
  const send = async (type, data, inputAt) => {
    const hasFiles = Object.values(data).some((value) => value instanceof File);
    const sent = session.send(type, hasFiles ? await uploadFiles(session, data) : data, { inputAt });
    timings.sent(type, inputAt, sent);
    const reply = await sent;
    if (reply.message) log.add("reply", reply.message.type, reply.message.data);
    return reply;
  };
  const promptBar = new PromptBar(byId("prompt"), session, send);
  const controls = new Controls(byId("controls"), byId("reset-all"), send, promptBar);
  const element = byId("tracks").parentElement;
  const canvases = () => stage.videos.map(({ canvas }) => canvas);
  const onError = (text, reason) => log.add("error", reason ? `${text}: ${reason}` : text);
  const onNote = (text) => log.add("note", text);
  addPanel(byId("metrics"), { before: byId("drawer"), session, metrics, timings, onError });
  const toolbar = import("./toolbar/toolbar.js")
    .then(({ attach }) =>
      attach({ session, stage: element, before: byId("drawer"), controls, canvases, onError, onNote }),
    )
    .catch(({ message }) => {
      onError("The toolbar can't be loaded", message);
      return { begin() {} };
    });
  if (new URLSearchParams(location.search).get("role") === "viewer")
    import("./sessions.js")
      .then(({ attach }) => attach(session))
      .catch(({ message }) => onError("The list of sessions can't be loaded", message));
  followSeats(session, controls, onError);
  const bindings = new BindingsPanel(element, send);
  const media = new MediaPanels(session, element, log);
  const values = new ValuesPanel(session, element, onError);
  session.addEventListener("contract", () => {
    stage.update();
    controls.update(session.schema.events, session.state, session.tracks);
    metrics.update(stage.videos, session.speaker.tracks.length > 0);
    media.restart();
    values.update();
    bindings
      .update({ schema: session.schema, state: session.state })
      .catch(({ message }) => onError("A part of the page can't be loaded", message));
  });
  // The contract may have changed while this was loading.
  stage.update();
  values.update();
  followReloads(session, element, log, controls);
  // Whether the frame is what the user looks at: a model with a prompt or with bindings.
  const isStage = () => controls.hasPrompt || boundEvents(session.schema) !== "{}";
  /** Show changes of the model's state. */
  const follow = (changes) => {
    for (const panel of [controls, bindings, values]) panel.follow(changes);
  };
  /** Show a message of the model. */
  const receive = ({ type, data }) => {
    log.add("message", type, data);
    values.receive(type, data);
  };
  return { log, metrics, controls, bindings, media, toolbar, isStage, follow, receive };
}

/** Leave out what only the host may set, and load what shows the seats, for the first session with several. */
function followSeats(session, controls, onError) {
  let isLoading = false;
  const follow = async ({ seat = 0, seats = 1 }) => {
    controls.isHost = seat === 0;
    if (seats < 2 || isLoading) return;
    isLoading = true;
    try {
      const { attach } = await import("./seats.js");
      await attach(session);
    } catch ({ message }) {
      isLoading = false;
      onError("The seats can't be loaded", message);
    }
  };
  session.addEventListener("session", ({ detail }) => follow(detail));
  follow(session.welcome);
}

/** Load what shows reloads, for the first server with `--reload`. */
function followReloads(session, stage, log, controls) {
  const over = new AbortController();
  const onError = ({ message }) => log.add("error", "A part of the page can't be loaded", message);
  const load = async () => {
    if (!session.lastReload) return;
    over.abort();
    try {
      const { followAuthorsTexts, ReloadPanel } = await import("./reload.js");
      await ReloadPanel.make(session, stage, log);
      const follow = () => followAuthorsTexts(session, controls).catch(onError);
      session.addEventListener("session", follow);
      // The server reports `loading` again with each progress.
      session.addEventListener("reload", ({ detail }) => detail.status === "loading" || follow());
    } catch (error) {
      onError(error);
    }
  };
  for (const name of ["session", "reload"]) session.addEventListener(name, load, { signal: over.signal });
  load();
}

/** Show what the server took from reactor.yaml. */
function showAuthorsTexts() {
  const { accent } = document.documentElement.dataset;
  if (accent) document.documentElement.style.setProperty("--authors", accent);
  const about = byId("about");
  if (about) about.hidden = false;
}

/** Loads the bindings of keys, gamepad, mouse and fingers for the first model that has any. */
class BindingsPanel {
  #stage;
  #send;
  // what attach() returned
  #bindings = null;
  // {session, role, shared, schema, state}, as in reactor.welcome
  #session = null;

  /** `stage` is the element around the canvases; `send(event, data, inputAt)` returns a promise of the reply. */
  constructor(stage, send) {
    this.#stage = stage;
    this.#send = send;
  }

  /** Start with a session. */
  async begin({ session: id, role, shared, schema: all, state, seat = 0 }) {
    this.leave();
    const schema = { ...all, events: eventsOf(all.events ?? {}, seat === 0) };
    const session = { session: id, role, shared, schema, state: { ...state }, seat };
    this.#session = session;
    if ((role !== "controller" && !shared) || boundEvents(schema) === "{}") return;
    const { attach } = await import("./bindings/bindings.js");
    if (this.#session === session) this.#bindings = attach({ send: this.#send, session, stage: this.#stage });
  }

  /** Bind what a changed contract declares; with the same bindings, keys that are held stay held. */
  async update(contract) {
    const before = this.#session;
    const events = eventsOf(contract.schema.events ?? {}, before?.seat === 0);
    if (before && boundEvents(before.schema) !== boundEvents({ events })) await this.begin({ ...before, ...contract });
  }

  /** Forward a change of the model's state. */
  follow(changes) {
    if (this.#session) Object.assign(this.#session.state, changes);
    this.#bindings?.follow(changes);
  }

  leave() {
    this.#session = null;
    this.#bindings?.detach();
    this.#bindings = null;
  }
}

/** Return the events with bindings as JSON. */
const boundEvents = ({ events = {} }) =>
  JSON.stringify(
    Object.fromEntries(
      Object.entries(events).filter(([, event]) => JSON.stringify(event).includes('"x-reactor-bind"')),
    ),
  );

/** Loads what shows values over the frame for the first model that declares one. */
class ValuesPanel {
  #session;
  #stage;
  #onError;
  // a promise of the Values; null before the first model with one
  #values = null;

  constructor(session, stage, onError) {
    this.#session = session;
    this.#stage = stage;
    this.#onError = onError;
    session.addEventListener("session", () => this.update());
  }

  /** Show the values that the session's schema declares. */
  update() {
    const { schema, id, state } = this.#session;
    const { state: fields = {}, messages } = schema;
    if (!this.#values && !JSON.stringify([fields, messages]).includes('"x-reactor-ui"')) return;
    this.#values ??= import("./values/values.js").then(({ Values }) => new Values(this.#stage));
    this.#use((values) => values.begin(id, { fields, messages }, state));
  }

  /** Show changes of the model's state. */
  follow(changes) {
    this.#use((values) => values.follow(changes));
  }

  receive(type, data) {
    this.#use((values) => values.receive(type, data));
  }

  #use(use) {
    this.#values?.then(use).catch(({ message }) => {
      this.#values = null;
      this.#onError("The values over the frame can't be shown", message);
    });
  }
}

/** Loads the sound button and the panels of input tracks for the first model that needs them, and keeps them. */
class MediaPanels {
  #session;
  #stage;
  #log;
  // name → promise of the panel, undefined if it could not be loaded
  #loaded = {};

  /**
   * @param {Session} session
   * @param {HTMLElement} stage the element around the canvases
   * @param {Log} log
   */
  constructor(session, stage, log) {
    this.#session = session;
    this.#stage = stage;
    this.#log = log;
  }

  /** Start with a session. */
  async restart() {
    const session = this.#session;
    const hasSound = session.speaker.tracks.length > 0;
    const inputs = session.maySend ? session.tracks.filter(({ direction }) => direction === "in") : [];
    const onError = (text) => this.#log.add("error", `No sound: ${text}`);
    if (hasSound)
      this.#load("sound", async () => (await import("./sound.js")).SoundButton.make(byId("listen"), session, onError));
    if (inputs.length)
      this.#load("inputs", async () => {
        const { attach } = await import("./inputs/inputs.js");
        return attach({ session, side: byId("side"), stage: this.#stage });
      });
    (await this.#loaded.inputs)?.offer(inputs);
    const sound = await this.#loaded.sound;
    if (sound) sound.available = hasSound;
  }

  /** Load a panel once; after a failure again with the next session. */
  #load(name, load) {
    this.#loaded[name] ??= load().catch(({ message }) => {
      delete this.#loaded[name];
      this.#log.add("error", `A part of the page can't be loaded: ${message}`);
    });
  }
}

/**
 * Return `data` with an upload's id in place of each File. Throws EventError with the server's message.
 * @param {Session} session
 */
async function uploadFiles(session, data) {
  const entries = Object.entries(data).map(async ([name, value]) => [
    name,
    value instanceof File ? await uploadFile(session, value) : value,
  ]);
  return Object.fromEntries(await Promise.all(entries));
}

/**
 * @param {Session} session
 * @param {File} file
 */
async function uploadFile(session, file) {
  await file
    .slice(0, 1)
    .arrayBuffer()
    .catch(() => {
      throw new EventError({ message: `${file.name} has changed or gone since it was chosen: choose it again` });
    });
  return session.upload(file).catch(({ status, message }) => {
    throw new EventError({ message: status ? message : `${file.name} could not be sent: ${message}` });
  });
}
