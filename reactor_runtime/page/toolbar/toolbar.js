/** The tools in the bar: share the last 10 s, save a frame or a recording, links, picture in picture, full screen, code. */

/** @import { Session } from "../client/reactor.js" */

import { download, loadStyle } from "../browser.js";
import { byId, el, newId, setText } from "../dom.js";
import { LastSeconds } from "./last_seconds.js";
import { Recording, saveFrame } from "./record.js";
import { addressWith, makeLinks, valuesIn } from "./share.js";

const ICONS = {
  snapshot: "M4 7h3l2-2h6l2 2h3v12H4zM12 10a3 3 0 1 0 .01 0z",
  record: "M12 6a6 6 0 1 0 .01 0z",
  clip: "M12 15V4M7 9l5-5 5 5M5 14v6h14v-6",
  link: "M9 15l6-6M7 12l-2 2a3.5 3.5 0 0 0 5 5l2-2M17 12l2-2a3.5 3.5 0 0 0-5-5l-2 2",
  float: "M3 5h18v14H3zM12 12h7v5h-7z",
  full: "M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5",
  code: "M8 7l-5 5 5 5M16 7l5 5-5 5M13.5 5l-3 14",
};

const OVER_THE_CANVAS = "button, .legend";

/**
 * Add the tools before an element of the bar. `controls` have the values for links, `canvases()` returns the canvases,
 * `onError(text, reason)` and `onNote(text)` report to the user.
 * @param {{ session: Session, stage: HTMLElement, before: HTMLElement, controls: any, canvases: () => HTMLCanvasElement[], onError: (text: string, reason?: string) => void, onNote: (text: string) => void }} parts
 */
export async function attach({ session, stage, before, controls, canvases, onError, onNote }) {
  await loadStyle(new URL("toolbar.css", import.meta.url));
  // A promise.
  let recording = null;
  const clock = el("span");
  const attempt = (text, action) => async () => {
    try {
      await action();
    } catch (error) {
      onError(text, error.message);
    }
  };
  const button = (icon, title, onclick, ...more) =>
    el("button", { type: "button", ...labels(title), onclick, class: "tool" }, ...content(icon, title), ...more);

  const snap = button(
    "snapshot",
    "Save the frame",
    attempt("The frame can't be saved", () => saveFrames(session, canvases())),
  );
  const record = button("record", "Record", attempt("Recording isn't possible", toggle), clock);
  const lastSeconds = new LastSeconds(session);
  const clip = button("clip", "Share clip", attempt("The clip can't be made", shareClip));
  clip.classList.add("primary");
  const { root: links, opener } = makeLinks(controls, (title) => button("link", title));
  const floating = new PictureInPicture(session, stage);
  const float = button(
    "float",
    "Picture in picture",
    attempt("Picture in picture isn't possible", () => floating.toggle()),
  );
  float.addEventListener("pointerdown", () => floating.prepare());
  const full = button("full", "Full screen", attempt("Full screen isn't possible", toggleFull));
  const code = el(
    "a",
    { href: "docs", target: "_blank", rel: "noopener", ...labels("Use it from code"), class: "tool" },
    ...content("code", "Use it from code"),
  );
  record.ariaPressed = "false";
  opener.hidden = links.hidden = !("popover" in HTMLElement.prototype);
  float.hidden = !document.pictureInPictureEnabled;
  full.hidden = !document.fullscreenEnabled;
  const tools = [clip, snap, record, opener, float, full, code];
  const bar = el("div", { class: "tools plate", role: "toolbar", "aria-label": "Tools", id: newId() }, ...tools);
  makeOneTabStop(bar, tools);
  before.before(makeMenuButton(bar), bar);
  document.body.append(links);
  stage.addEventListener("click", (event) => {
    const target = /** @type {Element} */ (event.target);
    if (!target.closest(OVER_THE_CANVAS)) stage.toggleAttribute("data-tools");
  });

  async function toggle() {
    if (recording) return (await recording).stop();
    // Set at once, or a second press would start another one.
    recording = Recording.start(session, lastSeconds.isVideo);
    const { ended } = await recording.catch((error) => {
      recording = null;
      throw error;
    });
    record.ariaPressed = "true";
    const began = performance.now();
    const tick = setInterval(() => setText(clock, clockOf(performance.now() - began)), 250);
    setText(clock, "0:00");
    window.addEventListener("beforeunload", confirmLeaving);
    ended.then(({ file, failure, continues }) => {
      if (file) download(file, file.name);
      if (failure) onError("The recording ended by itself and was saved", failure.message);
      window.removeEventListener("beforeunload", confirmLeaving);
      clearInterval(tick);
      setText(clock, "");
      record.ariaPressed = "false";
      recording = null;
      if (continues) record.click();
    });
  }

  async function shareClip() {
    const pieces = lastSeconds.pieces;
    const { openClip } = await import("./clip.js");
    const caption = [byId("model").textContent, controls.prompt].filter(Boolean).join(" — ");
    const onKept = (headline, { file, message }) =>
      file ? onNote(`${headline}: ${file}`) : onError(headline, message ?? "");
    await openClip({ session, pieces, link: addressWith(location.href, controls.values), caption, onKept });
  }

  let linked = session.role === "viewer" ? {} : fromAddress(onError);
  return {
    /** Start a session; the first one as controller gets the values of the page's address. */
    begin() {
      const hasPicture = canvases().length > 0;
      for (const tool of [snap, float]) tool.toggleAttribute("disabled", !hasPicture);
      // Its dialog has the last minute too.
      clip.toggleAttribute("disabled", !hasPicture && !session.lastReload);
      if (session.role !== "controller") return;
      for (const name of controls.set(linked)) onError("The link sets a field that this model does not have", name);
      linked = {};
    },
  };
}

/** Return the button that shows the tools where the bar has no room for them. */
function makeMenuButton(bar) {
  const button = el("button", {
    type: "button",
    class: "tools-more plate",
    ...labels("Tools"),
    "aria-controls": bar.id,
    "aria-expanded": "false",
    onclick: () => show(!isOpen()),
  });
  const isOpen = () => button.ariaExpanded === "true";
  const show = (open) => (button.ariaExpanded = String(open));
  button.textContent = "⋯";
  document.addEventListener("click", ({ target }) => {
    if (target instanceof Node && !button.contains(target)) show(false);
  });
  bar.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape" || !isOpen()) return;
    show(false);
    button.focus();
  });
  return button;
}

const labels = (title) => ({ title, "aria-label": title });

/** Return the icon of a tool and its name, which a menu shows. */
const content = (icon, title) => [drawIcon(icon), el("span", { class: "tool-name", "aria-hidden": "true" }, title)];

/** Make the toolbar one tab stop, with arrow keys inside. */
function makeOneTabStop(bar, tools) {
  for (const tool of tools) tool.tabIndex = tool === tools[0] ? 0 : -1;
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const usable = tools.filter((tool) => !tool.hidden && !tool.disabled);
    const at = usable.indexOf(event.target);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = usable.at((at + step) % usable.length);
    for (const tool of tools) tool.tabIndex = tool === next ? 0 : -1;
    next.focus();
  });
}

function fromAddress(onError) {
  try {
    return valuesIn(location.href);
  } catch (error) {
    onError(error.message);
    return {};
  }
}

function drawIcon(icon) {
  const [svg, path] = ["svg", "path"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", ICONS[icon]);
  svg.append(path);
  return svg;
}

/** The browser asks before the user leaves the page during a recording. */
const confirmLeaving = (event) => event.preventDefault();

const clockOf = (ms) => `${Math.floor(ms / 60000)}:${String(Math.floor(ms / 1000) % 60).padStart(2, "0")}`;

const saveFrames = (session, canvases) => Promise.all(canvases.map((canvas) => saveFrame(session.model, canvas)));

const toggleFull = () =>
  document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen();

// Time after which an unused video element is removed.
const KEPT_MS = 10000;

class PictureInPicture {
  #session;
  #stage;
  // Promise of the <video>.
  #making = null;
  #video = null;
  #timer = 0;

  /**
   * @param {Session} session
   * @param {HTMLElement} stage
   */
  constructor(session, stage) {
    this.#session = session;
    this.#stage = stage;
  }

  /** Make the video element. toggle() reports errors. */
  prepare() {
    clearTimeout(this.#timer);
    if (!document.pictureInPictureElement) this.#timer = setTimeout(() => this.#end(), KEPT_MS);
    this.#making ??= this.#make();
    this.#making.catch(() => this.#end());
  }

  /** Open or close the window. Rejects with a message for people if the browser refuses. */
  async toggle() {
    if (document.pictureInPictureElement) return document.exitPictureInPicture();
    // Safari opens the window only directly in the click.
    if (!this.#video?.readyState) {
      this.prepare();
      await this.#making;
    }
    await this.#video.requestPictureInPicture().catch((error) => {
      if (error.name === "NotAllowedError") throw new Error("press once more", { cause: error });
      // Otherwise frames would be decoded for nothing.
      this.#end();
      throw error;
    });
    clearTimeout(this.#timer);
  }

  async #make() {
    const [first] = this.#session.tracks.filter(({ kind, direction }) => kind === "video" && direction === "out");
    const stream = await this.#session.stream(first.name);
    const video = Object.assign(el("video", { class: "floating", playsinline: true, "aria-hidden": true }), {
      muted: true,
      srcObject: stream,
    });
    video.onleavepictureinpicture = () => this.#end();
    this.#stage.append(video);
    this.#video = video;
    await video.play();
  }

  #end() {
    clearTimeout(this.#timer);
    /** @type {any} */
    const video = this.#stage.querySelector(".floating");
    video?.srcObject.getTracks().forEach((track) => track.stop());
    video?.remove();
    this.#making = this.#video = null;
  }
}
