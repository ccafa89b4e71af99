/** The menu of where an input's pictures or sound come from, with the picker of a file beside it. */

import { el } from "../dom.js";

export class SourceMenu {
  menu;
  picker;
  file = null;
  #sources;
  #remembered;

  /** `sources` are [value, words] each, a device first; `remembered` is {source, label}. */
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

  /** device:ID, screen, file, pattern or tone. */
  get value() {
    return this.menu.value;
  }

  get label() {
    return this.menu.selectedOptions[0].textContent;
  }

  get needsFile() {
    return this.value === "file" && !this.file;
  }

  /** Offer these devices, each {id, label}; the choice stays, also that of a device which isn't told of now. */
  list(devices) {
    const { source, label } = this.menu.length ? { source: this.value, label: this.label } : this.#remembered;
    const [general, ...others] = this.#sources;
    const named = devices.map((device) => [`device:${device.id}`, device.label]);
    const known = [...(named.length ? named : [general]), ...others];
    const renamed = known.find(([, words]) => words === label)?.[0]; // browsers give a device another id after a while
    const wanted = known.some(([value]) => value === source) ? source : renamed;
    if (!wanted && source?.startsWith("device:") && source !== general[0]) known.unshift([source, label]);
    this.menu.replaceChildren(...known.map(([value, words]) => el("option", { value }, words)));
    this.menu.value = wanted ?? known[0][0];
    this.#fit();
  }

  /** Name the device that the browser has chosen itself. */
  use(id) {
    const value = `device:${id}`;
    if ([...this.menu.options].some((option) => option.value === value)) this.menu.value = value;
  }

  #fit() {
    this.picker.hidden = this.value !== "file";
  }
}
