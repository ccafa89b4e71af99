/** Shows messages of the model and the server, newest last; bounded, and written once per repaint. */

import { copyText } from "./browser.js";
import { el, setText } from "./dom.js";

const MOST = 200;

export class Log {
  #list;
  #onError;
  #count;
  // {at, kind, title, value, past}; `past`: of an earlier session
  #entries = [];
  #unwritten = 0;
  #total = 0;

  constructor(list, { count, copyAll, clear, onError }) {
    this.#list = list;
    this.#onError = onError;
    this.#count = count;
    copyAll.onclick = () => copy(this.#entries.map(asLine).join("\n"), copyAll);
    clear.onclick = () => this.#clear();
  }

  /** `kind` is message | reply | error | note; `value` is any JSON value or nothing. */
  add(kind, title, value) {
    this.#entries.push({ at: new Date(), kind, title, value });
    this.#entries.splice(0, this.#entries.length - MOST);
    this.#total += 1;
    if (kind === "error") this.#onError();
    if (this.#unwritten++ === 0) requestAnimationFrame(() => this.#write());
  }

  /** Show the entries so far as those of an earlier session: their errors need no attention. */
  endSession() {
    for (const entry of this.#entries) entry.past = true;
    for (const item of this.#list.children) item.classList.add("past");
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
  const { at, title, value } = entry;
  const kind = entry.past ? `${entry.kind} past` : entry.kind;
  const head = [el("time", {}, asTime(at)), el("b", {}, title)];
  if (value === undefined) return el("li", { class: kind }, el("div", { class: "entry" }, ...head));
  const button = el("button", { type: "button", class: "quiet", onclick: () => copy(asLine(entry), button) }, "Copy");
  const pretty = el("pre");
  const ontoggle = () => setText(pretty, JSON.stringify(value, null, 2));
  const summary = el("summary", { class: "entry" }, ...head, el("code", {}, JSON.stringify(value).slice(0, 160)));
  return el("li", { class: kind }, el("details", { ontoggle }, summary, pretty, button));
}

const asTime = (at) => at.toTimeString().slice(0, 8) + at.toISOString().slice(19, 23);
const asLine = ({ at, kind, title, value }) => `${at.toISOString()} ${kind} ${title} ${JSON.stringify(value) ?? ""}`;

async function copy(text, button) {
  // The label may still be that of the last click.
  button.dataset.label ??= button.textContent;
  button.textContent = (await copyText(text)) ? "Copied" : "Not allowed";
  setTimeout(() => (button.textContent = button.dataset.label), 1200);
}
