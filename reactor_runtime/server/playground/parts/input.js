/** One input track: opens what was chosen for it, sends it, and says how that goes. */

import { listDevices } from "./devices.js";
import { recall, remember } from "./memory.js";
import { Panel } from "./panel.js";
import { explain } from "./words.js";

const FIGURES_MS = 1000;
const NOBODY_MS = 30000; // then a camera goes off: whoever has lost the turn may have forgotten it

export class Input {
  #track;
  #kind;
  #session;
  #panel;
  #running = null; // {source, capture, sending, timer} while it is on
  #wanted = false;
  #epoch = 0;
  #counts = noCounts();
  #leave = new AbortController();

  /** `kind` is what there is to choose and how to open and send it, see picture.js. */
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

  /** Turn off what is on, and say why. */
  rest(words) {
    if (this.#wanted) this.#stop(words);
  }

  end() {
    this.#stop("");
    this.#leave.abort();
  }

  /** From the first permission on the browser tells the names. */
  async #name({ deviceId }) {
    await this.#list();
    this.#panel.source.use(deviceId);
    remember(`input.${this.#track.name}`, this.#panel.choices);
  }

  async #list() {
    this.#panel.source.list(await listDevices(this.#kind.deviceKind));
  }

  /** What concerns the preview alone (`name` of the toggle) changes nothing of what is sent. */
  #changed(name) {
    remember(`input.${this.#track.name}`, this.#panel.choices);
    if (this.#wanted && !(name && this.#kind.toggle.isLocal)) this.#start();
  }

  async #start() {
    this.#close();
    this.#wanted = true;
    const epoch = this.#epoch;
    const { choices, source: { file } } = this.#panel;
    this.#panel.show("opening", "Opening. The browser may ask for your permission.");
    try {
      const source = await this.#kind.open(choices, file);
      const capture = await this.#publish(source, choices);
      if (epoch === this.#epoch) return this.#opened(source, capture);
      capture.stop();
      source.close();
    } catch (error) {
      const words = await explain(error, choices.source === "screen" ? "screen" : this.#kind.thing, choices.source !== "device:");
      if (epoch === this.#epoch) this.#stop(words, "failed");
    }
  }

  async #publish(source, choices) {
    try {
      return await this.#session.publish(this.#track.name, ...this.#kind.offer(source, choices));
    } catch (error) {
      source.close();
      throw error;
    }
  }

  #opened(source, capture) {
    const on = (name, listener) => capture.addEventListener(name, ({ detail }) => listener(detail));
    const sending = capture.background ? "Sending, also while this tab is hidden." : "Sending, but not while this tab is hidden.";
    source.lost = (words) => this.#stop(words, "failed");
    source.paused = (words) => this.#panel.show("on", words || sending);
    this.#counts = noCounts();
    on("sent", (sent) => this.#sent(sent));
    on("skipped", () => (this.#counts.skipped += 1));
    on("nobody", () => this.#toNobody());
    on("ended", ({ error }) => error && this.#stop(`It can't be sent: ${error.message}`, "failed"));
    this.#running = { source, capture, sending, timer: setInterval(() => this.#figures(), FIGURES_MS) };
    this.#panel.show("on", sending, source.view);
    this.#name(source);
  }

  #stop(words, phase = "off") {
    this.#close();
    this.#wanted = false;
    this.#panel.show(phase, words);
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
    if (counts.nobodySince !== null) this.#panel.show("on", this.#running.sending);
    counts.nobodySince = null;
    counts.count += 1;
    counts.bytes += bytes;
    counts.last = last;
    if (last.level === undefined) return;
    counts.level = Math.max(counts.level, last.level);
    this.#panel.level = Math.sqrt(last.level); // what is said quietly is to be seen, too
  }

  #toNobody() {
    const now = performance.now();
    const since = (this.#counts.nobodySince ??= now);
    if (now - since > NOBODY_MS) this.#stop("Off: nobody took it for half a minute.");
    else if (now === since) this.#panel.show("on", "Not sent: the model has no session with you now. It goes on with the next one.");
  }

  #figures() {
    const counts = this.#counts;
    const at = performance.now();
    const seconds = (at - counts.since) / 1000;
    if (counts.last) this.#panel.figures = this.#kind.describe({ ...counts, seconds, input: this.#session.stats.inputs?.[this.#track.name] });
    Object.assign(counts, { since: at, count: 0, bytes: 0, level: 0 });
  }
}

/** `count`, `bytes` and the highest `level` since a moment, `skipped` in all, and the `last` thing sent. */
const noCounts = () => ({ since: performance.now(), count: 0, bytes: 0, level: 0, skipped: 0, last: null, nobodySince: null });
