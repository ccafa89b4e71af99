/** The buttons on the stage for input tracks that have received nothing yet. */

import { el, setText } from "../dom.js";

export class Offer {
  root = el("div", { class: "offer over", role: "group", "aria-label": "Inputs of the model", hidden: true });
  #buttons = el("div", { class: "offer-buttons" });
  #reason = el("p", { role: "status" });
  #declined = false;
  #hasFile = false;

  constructor() {
    const decline = () => {
      this.#declined = true;
      this.#show();
    };
    const button = el("button", { type: "button", class: "offer-decline", onclick: decline }, "Not now");
    this.root.append(this.#buttons, this.#reason, button);
  }

  /** Show the buttons of the inputs that are unused, each {title, suggestions, use, isUnused, failure}. */
  update(inputs) {
    const unused = [...inputs].filter(({ isUnused }) => isUnused);
    const buttons = unused.flatMap((input) => input.suggestions.map((suggestion) => ({ ...suggestion, input })));
    const isAmbiguous = ({ source, input }) =>
      buttons.some((other) => other.source === source && other.input !== input && other.input.kind === input.kind);
    this.#buttons.replaceChildren(
      ...buttons.map((each) => {
        const text = isAmbiguous(each) ? `${each.label} for ${each.input.title}` : each.label;
        return el("button", { type: "button", class: "offer-use", onclick: () => each.input.use(each.source) }, text);
      }),
    );
    setText(this.#reason, unused.find(({ failure }) => failure)?.failure ?? "");
    this.#show();
  }

  /** Hide the buttons while a control has given the model a file to show instead. */
  set hasFile(hasFile) {
    this.#hasFile = hasFile;
    this.#show();
  }

  #show() {
    this.root.hidden = this.#declined || this.#hasFile || !this.#buttons.firstChild;
  }
}
