/** What the model and the server said, newest last; bounded, and written once per repaint. */

import { el, setText } from "./dom.js";

const MOST = 200;

export class Log {
  #list;
  #count;
  #entries = []; // {at, kind, title, value}
  #unwritten = 0;
  #total = 0;

  constructor(list, { count, copy, clear }) {
    this.#list = list;
    this.#count = count;
    copy.onclick = () => copyText(this.#entries.map(asLine).join("\n"), copy);
    clear.onclick = () => this.#clear();
  }

  /** `kind` is message | reply | error | note; `value` is any JSON value or nothing. */
  add(kind, title, value) {
    this.#entries.push({ at: new Date(), kind, title, value });
    this.#entries.splice(0, this.#entries.length - MOST);
    this.#total += 1;
    if (this.#unwritten++ === 0) requestAnimationFrame(() => this.#write());
  }

  #write() {
    const list = this.#list;
    const reel = list.parentElement;
    const atEnd = reel.scrollHeight - reel.scrollTop - reel.clientHeight < 24;
    const known = Math.max(0, this.#entries.length - this.#unwritten);
    this.#unwritten = 0;
    list.append(...this.#entries.slice(known).map(row));
    while (list.childElementCount > MOST) list.firstElementChild.remove();
    if (atEnd) reel.scrollTop = reel.scrollHeight;
    setText(this.#count, String(this.#total || ""));
  }

  #clear() {
    this.#entries = [];
    this.#unwritten = this.#total = 0;
    this.#list.replaceChildren();
    setText(this.#count, "");
  }
}

function row(entry) {
  const { at, kind, title, value } = entry;
  const head = [el("time", {}, asTime(at)), el("b", {}, title)];
  if (value === undefined) return el("li", { class: kind }, el("div", { class: "entry" }, ...head));
  const copy = el("button", { type: "button", class: "quiet", onclick: () => copyText(asLine(entry), copy) }, "Copy");
  const pretty = el("pre");
  const ontoggle = () => setText(pretty, JSON.stringify(value, null, 2));
  const summary = el("summary", { class: "entry" }, ...head, el("code", {}, JSON.stringify(value).slice(0, 160)));
  return el("li", { class: kind }, el("details", { ontoggle }, summary, pretty, copy));
}

const asTime = (at) => at.toTimeString().slice(0, 8) + at.toISOString().slice(19, 23);
const asLine = ({ at, kind, title, value }) => `${at.toISOString()} ${kind} ${title} ${JSON.stringify(value) ?? ""}`;

/** The clipboard API exists on https and localhost only; elsewhere the old command still works. */
async function copyText(text, button) {
  const copied = navigator.clipboard ? await navigator.clipboard.writeText(text).then(() => true, () => false) : copyBySelection(text);
  const words = button.textContent;
  button.textContent = copied ? "Copied" : "Not allowed";
  setTimeout(() => (button.textContent = words), 1200);
}

function copyBySelection(text) {
  const area = el("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  return copied;
}
