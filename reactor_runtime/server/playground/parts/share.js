/** What to do with the picture: keep it, record it, enlarge it, show it to others. A bar on the stage. */

import { el, setText } from "../dom.js";
import { Floating } from "./floating.js";
import { makeLinks } from "./links.js";
import { Recording, savePicture } from "./record.js";
import { style } from "./style.js";
import { valuesIn } from "./values.js";

const ICONS = {
  snapshot: "M4 7h3l2-2h6l2 2h3v12H4zM12 10a3 3 0 1 0 .01 0z",
  record: "M12 6a6 6 0 1 0 .01 0z",
  link: "M9 15l6-6M7 12l-2 2a3.5 3.5 0 0 0 5 5l2-2M17 12l2-2a3.5 3.5 0 0 0-5-5l-2 2",
  float: "M3 5h18v14H3zM12 12h7v5h-7z",
  full: "M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5",
};

const ON_THE_PICTURE = "button, .tools, .touch";

/** `controls` hold the values of links, `pictures()` gives the canvases, `failed(words, why)` tells the visitor. */
export async function attach({ session, stage, controls, pictures, failed }) {
  await style("share.css");
  let recording = null; // promise of it
  const clock = el("span");
  const attempt = (words, action) => async () => {
    try {
      await action();
    } catch (error) {
      failed(words, error.message);
    }
  };
  const button = (icon, title, onclick, ...more) => el("button", { type: "button", title, "aria-label": title, onclick, class: "tool" }, drawn(icon), ...more);

  const snap = button("snapshot", "Save the picture", attempt("The picture can't be saved", () => savePictures(session, pictures())));
  const record = button("record", "Record", attempt("Recording isn't possible", toggle), clock);
  const { root: links, opener } = makeLinks(session, controls, (title) => button("link", title));
  const floating = new Floating(session, stage);
  const float = button("float", "Picture in picture", attempt("Picture in picture isn't possible", () => floating.toggle()));
  float.addEventListener("pointerdown", () => floating.prepare());
  const full = button("full", "Full screen", attempt("Full screen isn't possible", () => toggleFull(stage)));
  record.ariaPressed = "false";
  opener.hidden = links.hidden = !("popover" in HTMLElement.prototype);
  float.hidden = !document.pictureInPictureEnabled;
  full.hidden = !document.fullscreenEnabled;
  const bar = el("div", { class: "tools", role: "toolbar", "aria-label": "Picture" }, snap, record, opener, float, full, links);
  oneStop(bar, [snap, record, opener, float, full]);
  stage.append(bar);
  stage.addEventListener("click", ({ target }) => target.closest(ON_THE_PICTURE) || stage.toggleAttribute("data-tools"));

  async function toggle() {
    if (recording) return (await recording).stop();
    recording = Recording.start(session); // from the press on, or a second one would begin another
    const { ended } = await recording.catch((error) => {
      recording = null;
      throw error;
    });
    record.ariaPressed = "true";
    const began = performance.now();
    const tick = setInterval(() => setText(clock, clockOf(performance.now() - began)), 250);
    setText(clock, "0:00");
    window.addEventListener("beforeunload", ask);
    ended.then((fault) => {
      if (fault) failed("The recording ended by itself; what there was is saved", fault.message);
      window.removeEventListener("beforeunload", ask);
      clearInterval(tick);
      setText(clock, "");
      record.ariaPressed = "false";
      recording = null;
    });
  }

  let linked = session.role === "viewer" ? {} : fromAddress(failed);
  return {
    /** A new session: in the first one that is ours to control, what the page's address says is set. */
    begin() {
      const hasPicture = pictures().length > 0;
      for (const tool of [snap, float]) tool.toggleAttribute("disabled", !hasPicture);
      if (session.role !== "controller") return;
      for (const name of controls.set(linked)) failed("The link sets what this model doesn't have", name);
      linked = {};
    },
  };
}

/** Let Tab reach a bar once, and the arrows move within it, as toolbars do. */
function oneStop(bar, tools) {
  for (const tool of tools) tool.tabIndex = tool === tools[0] ? 0 : -1;
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const usable = tools.filter((tool) => !tool.hidden && !tool.disabled);
    const at = usable.indexOf(event.target);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = usable.at((at + step) % usable.length);
    for (const tool of tools) tool.tabIndex = tool === next ? 0 : -1;
    next.focus();
  });
}

function fromAddress(failed) {
  try {
    return valuesIn(location.href);
  } catch (error) {
    failed(error.message);
    return {};
  }
}

function drawn(icon) {
  const [svg, path] = ["svg", "path"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", ICONS[icon]);
  svg.append(path);
  return svg;
}

/** The browser asks whoever leaves whether to lose what isn't saved. */
const ask = (event) => event.preventDefault();

const clockOf = (ms) => `${Math.floor(ms / 60000)}:${String(Math.floor(ms / 1000) % 60).padStart(2, "0")}`;

const savePictures = (session, canvases) => Promise.all(canvases.map((canvas) => savePicture(session.model, canvas)));

const toggleFull = (stage) => (document.fullscreenElement ? document.exitFullscreen() : stage.requestFullscreen());
