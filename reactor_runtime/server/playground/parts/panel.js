/** What an input looks like: its choices, its preview, its figures and what is said of it. */

import { el, humanise, newId, setText } from "../dom.js";
import { SourceMenu } from "./sourcemenu.js";

export class Panel {
  root;
  #title;
  #kind;
  #on;
  #phase = "off";
  #source;
  #menus;
  #toggle;
  #wanted; // of the toggle, also while it has no effect
  #button = el("button", { type: "button", class: "button input-start", onclick: () => this.#pressed() });
  #preview = el("div", { class: "input-preview", hidden: true });
  #meter = el("meter", { class: "input-level", max: 1, high: 0.98, "aria-label": "Level", hidden: true });
  #figures = el("p", { class: "input-figures" });
  #status = el("p", { class: "hint", role: "status" });

  /** `on` is {start(), stop(), changed()}; `remembered` the choices of the last time, as far as there are any. */
  constructor(track, kind, remembered, on) {
    this.#title = humanise(track.name);
    this.#kind = kind;
    this.#on = on;
    this.#source = new SourceMenu(kind, remembered, { chosen: () => this.#chosen(), picked: () => on.start() });
    this.#menus = kind.menus.map((menu) => makeMenu(menu, remembered[menu.name], () => on.changed()));
    this.#toggle = el("input", { type: "checkbox", role: "switch", class: "switch", id: newId(), onchange: () => this.#toggled() });
    this.#wanted = remembered[kind.toggle.name] ?? kind.toggle.initial;
    this.root = this.#layOut(track);
    this.#fit();
    this.#label("Start");
  }

  /** What is chosen, to open and to remember: {source, label, and each menu and the toggle by name}. */
  get choices() {
    const menus = this.#menus.map(({ name, value }) => [name, value]);
    const { value: source, label } = this.#source;
    return { source, label, [this.#kind.toggle.name]: this.#wanted, ...Object.fromEntries(menus) };
  }

  /** The menu of sources: the file that was picked, the devices there are. */
  get source() {
    return this.#source;
  }

  /** `phase` is off, opening, on or failed; `view` the element that shows what is sent, if there is any. */
  show(phase, words, view) {
    const isOn = phase === "on" || phase === "opening";
    this.#phase = phase;
    this.root.dataset.phase = phase;
    this.#label(isOn ? "Stop" : "Start");
    setText(this.#status, words);
    this.#status.className = phase === "failed" ? "error" : "hint";
    if (view) this.#preview.replaceChildren(view);
    if (phase !== "on") this.#preview.replaceChildren();
    if (phase !== "on") setText(this.#figures, "");
    this.#preview.hidden = !this.#preview.firstChild;
    this.#fit();
    this.#meter.hidden = phase !== "on" || this.#kind.thing !== "microphone";
  }

  set level(level) {
    this.#meter.value = level;
  }

  set figures(words) {
    setText(this.#figures, words);
  }

  #layOut({ name, kind }) {
    const { toggle } = this.#kind;
    const title = newId();
    this.#preview.ariaHidden = true;
    const switched = el("div", { class: "input-toggle", title: toggle.title }, this.#toggle, el("label", { for: this.#toggle.id }, toggle.label));
    return el("section", { class: "input", "data-input": name, "data-phase": "off", "aria-labelledby": title },
      el("header", { class: "panel-head" },
        el("h2", { id: title }, this.#title), el("span", { class: "count" }, kind === "audio" ? "sound to the model" : "picture to the model"), this.#button),
      this.#source.menu, this.#source.picker,
      el("div", { class: "input-body" }, this.#preview, el("div", { class: "input-choices" }, ...this.#menus, switched)),
      this.#meter, this.#figures, this.#status);
  }

  /** Where there are several panels, the name says which; it is read out alone. */
  #label(words) {
    setText(this.#button, words);
    this.#button.ariaLabel = `${words} ${this.#title}`;
  }

  #pressed() {
    if (this.#phase === "on" || this.#phase === "opening") this.#on.stop();
    else if (this.#source.needsFile) this.#source.picker.click();
    else this.#on.start();
  }

  #chosen() {
    this.#fit();
    if (this.#source.needsFile) this.#on.stop(); // until one is picked
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
  const select = el("select", { name, "aria-label": label, title: label, onchange }, ...options.map(([value, words]) => el("option", { value }, words)));
  select.value = options.some(([value]) => value === remembered) ? remembered : initial;
  return select;
}
