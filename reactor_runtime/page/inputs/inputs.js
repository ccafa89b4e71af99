/** A panel for each input track of the model: choices, preview, Start and Stop. */

/** @import { Session } from "../client/reactor.js" */

import { loadStyle } from "../browser.js";
import { el, humanise, newId, setText } from "../dom.js";
import { recall, remember } from "../storage.js";
import { explain, listDevices } from "./devices.js";
import { Offer } from "./offer.js";
import { audioInput, videoInput } from "./sources.js";

/**
 * Add the panels at the top of `side`, and buttons for unused inputs to `stage`. Return {offer, detach}: offer(tracks)
 * shows panels for these tracks, as reactor.welcome describes them; panels of the same tracks stay, others stop
 * sending.
 * @param {{ session: Session, side: HTMLElement, stage: HTMLElement }} parts
 */
export async function attach({ session, side, stage }) {
  const root = el("section", { class: "inputs", "aria-label": "What is sent to the model", hidden: true });
  const make = (track) => new Input(track, track.kind === "audio" ? audioInput : videoInput, session);
  // Track as JSON → Input
  let inputs = new Map();
  await loadStyle(new URL("inputs.css", import.meta.url));
  side.prepend(root);
  const buttons = new Offer();
  stage.append(buttons.root);
  root.addEventListener("inputchange", () => buttons.update(inputs.values()));

  const findFile = () => (buttons.hasFile = Object.values(session.state).some((value) => value?.upload));
  const offer = (tracks) => {
    findFile();
    const wanted = new Map(tracks.map((track) => [JSON.stringify(track), track]));
    if ([...wanted.keys()].join() === [...inputs.keys()].join()) return;
    for (const [text, input] of inputs) if (!wanted.has(text)) input.end();
    inputs = new Map([...wanted].map(([text, track]) => [text, inputs.get(text) ?? make(track)]));
    root.replaceChildren(...[...inputs.values()].map((input) => input.root));
    root.hidden = !inputs.size;
    buttons.update(inputs.values());
  };
  const leave = new AbortController();
  const onStatus = ({ detail }) => {
    const isOver = detail.phase === "ended" && ["turn_over", "idle"].includes(detail.reason);
    for (const input of isOver ? inputs.values() : []) input.rest("Off: your turn is over.");
  };
  session.addEventListener("status", onStatus, { signal: leave.signal });
  session.addEventListener("state", findFile, { signal: leave.signal });
  const detach = () => {
    leave.abort();
    offer([]);
    root.remove();
    buttons.root.remove();
  };
  return { offer, detach };
}

const METRICS_MS = 1000;
// After this time without a session an input stops: a camera that was forgotten must not stay on.
const NO_SESSION_MS = 30000;

class Input {
  #track;
  #kind;
  #session;
  #panel;
  // {source, capture, sending, timer} while it is on
  #running = null;
  #wanted = false;
  #used = false;
  #epoch = 0;
  #counts = noCounts();
  #leave = new AbortController();

  /**
   * `kind` is videoInput or audioInput of sources.js.
   * @param {import("../client/reactor.js").Track} track
   * @param {any} kind
   * @param {Session} session
   */
  constructor(track, kind, session) {
    this.#track = track;
    this.#kind = kind;
    this.#session = session;
    this.#panel = new Panel(track, kind, recall(`input.${track.name}`), {
      start: () => this.#start(),
      stop: () => this.#stop(""),
      changed: (name) => this.#changed(name),
    });
    const { signal } = this.#leave;
    navigator.mediaDevices?.addEventListener("devicechange", () => this.#list(), { signal });
    this.#list();
  }

  get root() {
    return this.#panel.root;
  }

  get title() {
    return this.#panel.title;
  }

  get kind() {
    return this.#track.kind;
  }

  /** Sources for the buttons on the stage: {source, label} each. */
  get suggestions() {
    return this.#kind.suggestions;
  }

  /** Whether nothing was sent to the track, and nothing is about to be. */
  get isUnused() {
    return !this.#used && !this.#wanted;
  }

  /** Why the last start failed, or "". */
  get failure() {
    return this.#panel.failure;
  }

  /** Start with a source, which is the beginning of its value; a file has to be chosen first. */
  use(source) {
    this.#panel.use(source);
  }

  /** Stop and show a message, if it is on. */
  rest(text) {
    if (this.#wanted) this.#stop(text);
  }

  end() {
    this.#stop("");
    this.#leave.abort();
  }

  /** Update the menu of devices: the browser reports labels after the first permission. */
  async #name({ deviceId }) {
    await this.#list();
    this.#panel.source.use(deviceId);
    remember(`input.${this.#track.name}`, this.#panel.choices);
  }

  async #list() {
    this.#panel.source.list(await listDevices(this.#kind.deviceKind));
  }

  /** Restart with a changed choice; the toggle (`name`) of the preview changes nothing that is sent. */
  #changed(name) {
    remember(`input.${this.#track.name}`, this.#panel.choices);
    if (this.#wanted && !(name && this.#kind.toggle.isLocal)) this.#start();
  }

  async #start() {
    this.#close();
    this.#wanted = true;
    const epoch = this.#epoch;
    const {
      choices,
      source: { file },
    } = this.#panel;
    this.#panel.show("opening", "Opening. The browser may ask for your permission.");
    try {
      const source = await this.#kind.open(choices, file);
      const capture = await this.#publish(source, choices);
      if (epoch === this.#epoch) return this.#opened(source, capture);
      capture.stop();
      source.close();
    } catch (error) {
      const text = await explain(
        error,
        choices.source === "screen" ? "screen" : this.#kind.device,
        choices.source !== "device:",
      );
      if (epoch === this.#epoch) this.#stop(text, "failed");
    }
  }

  async #publish(source, choices) {
    try {
      const [view, options] = this.#kind.offer(source, choices);
      // Of a source, not of a file.
      return /** @type {any} */ (await this.#session.publish(this.#track.name, view, options));
    } catch (error) {
      source.close();
      throw error;
    }
  }

  #opened(source, capture) {
    const on = (name, listener) => capture.addEventListener(name, ({ detail }) => listener(detail));
    const sending = capture.background
      ? "Sending, also while this tab is hidden."
      : "Sending, but not while this tab is hidden.";
    source.lost = (text) => this.#stop(text, "failed");
    source.paused = (text) => this.#panel.show("on", text || sending);
    this.#counts = noCounts();
    this.#used = true;
    on("sent", (sent) => this.#sent(sent));
    on("skipped", () => (this.#counts.skipped += 1));
    on("nobody", () => this.#onNoSession());
    on("ended", ({ error }) => error && this.#stop(`It can't be sent: ${error.message}`, "failed"));
    this.#running = { source, capture, sending, timer: setInterval(() => this.#metrics(), METRICS_MS) };
    this.#panel.show("on", sending, source.view);
    this.#name(source);
  }

  #stop(text, phase = "off") {
    this.#close();
    this.#wanted = false;
    this.#panel.show(phase, text);
  }

  #close() {
    this.#epoch += 1;
    if (!this.#running) return;
    const { source, capture, timer } = this.#running;
    this.#running = null;
    clearInterval(timer);
    capture.stop();
    source.close();
  }

  #sent({ bytes, ...last }) {
    const counts = this.#counts;
    if (counts.noSessionSince !== null) this.#panel.show("on", this.#running.sending);
    counts.noSessionSince = null;
    counts.count += 1;
    counts.bytes += bytes;
    counts.last = last;
    if (last.level === undefined) return;
    counts.level = Math.max(counts.level, last.level);
    // The root makes quiet sound visible.
    this.#panel.level = Math.sqrt(last.level);
  }

  #onNoSession() {
    const now = performance.now();
    this.#counts.noSessionSince ??= now;
    const since = this.#counts.noSessionSince;
    if (now - since > NO_SESSION_MS) this.#stop("Off: there was no session for half a minute.");
    else if (now === since)
      this.#panel.show("on", "Not sent: you have no session now. It continues with the next one.");
  }

  #metrics() {
    const counts = this.#counts;
    const at = performance.now();
    const seconds = (at - counts.since) / 1000;
    if (counts.last)
      this.#panel.metrics = this.#kind.describe({
        ...counts,
        seconds,
        input: this.#session.stats.inputs?.[this.#track.name],
      });
    Object.assign(counts, { since: at, count: 0, bytes: 0, level: 0 });
  }
}

/** Return counters: `count`, `bytes` and maximum `level` since a time, `skipped` in total, and the `last` event. */
const noCounts = () => ({
  since: performance.now(),
  count: 0,
  bytes: 0,
  level: 0,
  skipped: 0,
  last: null,
  noSessionSince: null,
});

class Panel {
  root;
  #title;
  #kind;
  #on;
  #phase = "off";
  #source;
  #menus;
  #toggle;
  // State of the toggle, also while it is disabled.
  #wanted;
  #button = el("button", { type: "button", class: "button input-start", onclick: () => this.#pressed() });
  #preview = el("div", { class: "input-preview", hidden: true });
  #meter = el("meter", { class: "input-level", max: 1, high: 0.98, "aria-label": "Level", hidden: true });
  #metrics = el("p", { class: "input-figures" });
  #status = el("p", { class: "hint", role: "status" });

  /** `on` is {start(), stop(), changed()}; `remembered` the choices of the last time. */
  constructor(track, kind, remembered, on) {
    this.#title = humanise(track.name);
    this.#kind = kind;
    this.#on = on;
    this.#source = new SourceMenu(kind, remembered, { chosen: () => this.#chosen(), picked: () => on.start() });
    this.#menus = kind.menus.map((menu) => makeMenu(menu, remembered[menu.name], () => on.changed()));
    this.#toggle = el("input", {
      type: "checkbox",
      role: "switch",
      class: "switch",
      id: newId(),
      onchange: () => this.#toggled(),
    });
    this.#wanted = remembered[kind.toggle.name] ?? kind.toggle.initial;
    this.root = this.#layOut(track);
    this.#fit();
    this.#label("Start");
  }

  /** Return the choices: {source, label, and each menu and the toggle by name}. */
  get choices() {
    const menus = this.#menus.map(({ name, value }) => [name, value]);
    const { value: source, label } = this.#source;
    return { source, label, [this.#kind.toggle.name]: this.#wanted, ...Object.fromEntries(menus) };
  }

  get source() {
    return this.#source;
  }

  get title() {
    return this.#title;
  }

  get failure() {
    return this.#phase === "failed" ? this.#status.textContent : "";
  }

  use(source) {
    const { menu } = this.#source;
    menu.value = [...menu.options].find(({ value }) => value.startsWith(source)).value;
    menu.dispatchEvent(new Event("change"));
    if (this.#phase === "off" || this.#phase === "failed") this.#pressed();
  }

  /** `phase` is off, opening, on or failed; `view` the preview element, if any. */
  show(phase, text, view) {
    const isOn = phase === "on" || phase === "opening";
    this.#phase = phase;
    this.root.dataset.phase = phase;
    this.#label(isOn ? "Stop" : "Start");
    setText(this.#status, text);
    this.#status.className = phase === "failed" ? "error" : "hint";
    if (view) this.#preview.replaceChildren(view);
    if (phase !== "on") this.#preview.replaceChildren();
    if (phase !== "on") setText(this.#metrics, "");
    this.#preview.hidden = !this.#preview.firstChild;
    this.#fit();
    this.#meter.hidden = phase !== "on" || this.#kind.device !== "microphone";
    this.root.dispatchEvent(new Event("inputchange", { bubbles: true }));
  }

  set level(level) {
    this.#meter.value = level;
  }

  set metrics(text) {
    setText(this.#metrics, text);
  }

  #layOut({ name, kind }) {
    const { toggle } = this.#kind;
    const title = newId();
    this.#preview.ariaHidden = true;
    const switched = el(
      "div",
      { class: "input-toggle", title: toggle.title },
      this.#toggle,
      el("label", { for: this.#toggle.id }, toggle.label),
    );
    return el(
      "section",
      { class: "input", "data-input": name, "data-phase": "off", "aria-labelledby": title },
      el(
        "header",
        { class: "panel-head" },
        el("h2", { id: title }, this.#title),
        el("span", { class: "count" }, kind === "audio" ? "sound to the model" : "video to the model"),
        this.#button,
      ),
      this.#source.menu,
      this.#source.picker,
      el(
        "div",
        { class: "input-body" },
        this.#preview,
        el("div", { class: "input-choices" }, ...this.#menus, switched),
      ),
      this.#meter,
      this.#metrics,
      this.#status,
    );
  }

  /** With several panels the label names the track, because screen readers announce it alone. */
  #label(text) {
    setText(this.#button, text);
    this.#button.ariaLabel = `${text} ${this.#title}`;
  }

  #pressed() {
    if (this.#phase === "on" || this.#phase === "opening") this.#on.stop();
    else if (this.#source.needsFile) this.#source.picker.click();
    else this.#on.start();
  }

  #chosen() {
    this.#fit();
    // Until a file is chosen.
    if (this.#source.needsFile) this.#on.stop();
    this.#on.changed();
  }

  #toggled() {
    this.#wanted = this.#toggle.checked;
    this.#fit();
    this.#on.changed(this.#kind.toggle.name);
  }

  #fit() {
    const isDevice = this.#source.value.startsWith("device:");
    const { name, label } = this.#kind.toggle;
    const mirrors = name === "mirror";
    const away = mirrors && this.#preview.firstChild?.dataset.facing === "environment";
    this.#toggle.parentElement.hidden = !isDevice;
    this.#toggle.disabled = away;
    this.#toggle.checked = this.#wanted && !away;
    setText(this.#toggle.nextSibling, away ? "Not mirrored: it faces away" : label);
    this.root.toggleAttribute("data-mirrored", isDevice && mirrors && this.#toggle.checked);
  }
}

function makeMenu({ name, label, options, initial }, remembered, onchange) {
  const select = el(
    "select",
    { name, "aria-label": label, title: label, onchange },
    ...options.map(([value, text]) => el("option", { value }, text)),
  );
  select.value = options.some(([value]) => value === remembered) ? remembered : initial;
  return select;
}

class SourceMenu {
  menu;
  picker;
  file = null;
  #sources;
  #remembered;

  /** `sources` are [value, text] each, a device first; `remembered` is {source, label}. */
  constructor({ sources, accept }, remembered, { chosen, picked }) {
    this.#sources = sources;
    this.#remembered = remembered;
    const onchange = () => {
      this.file = null;
      this.picker.value = "";
      this.#fit();
      chosen();
    };
    const onpick = () => {
      this.file = this.picker.files[0] ?? null;
      if (this.file) picked();
    };
    this.menu = el("select", { "aria-label": "Source", name: "source", onchange });
    this.picker = el("input", { type: "file", accept, "aria-label": "File", onchange: onpick });
    this.list([]);
  }

  /** Return device:ID, screen, file, pattern or tone. */
  get value() {
    return this.menu.value;
  }

  get label() {
    return this.menu.selectedOptions[0].textContent;
  }

  get needsFile() {
    return this.value === "file" && !this.file;
  }

  /** Offer devices, each {id, label}; the choice stays, also for a device that is missing now. */
  list(devices) {
    const { source, label } = this.menu.length ? { source: this.value, label: this.label } : this.#remembered;
    const [general, ...others] = this.#sources;
    const named = devices.map((device) => [`device:${device.id}`, device.label]);
    const known = [...(named.length ? named : [general]), ...others];
    // Browsers change the ids of devices from time to time.
    const renamed = known.find(([, text]) => text === label)?.[0];
    const wanted = known.some(([value]) => value === source) ? source : renamed;
    if (!wanted && source?.startsWith("device:") && source !== general[0]) known.unshift([source, label]);
    this.menu.replaceChildren(...known.map(([value, text]) => el("option", { value }, text)));
    this.menu.value = wanted ?? known[0][0];
    this.#fit();
  }

  /** Select the device that the browser chose. */
  use(id) {
    const value = `device:${id}`;
    if ([...this.menu.options].some((option) => option.value === value)) this.menu.value = value;
  }

  #fit() {
    this.picker.hidden = this.value !== "file";
  }
}
