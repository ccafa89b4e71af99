/** The control panel as a drawer beside the stage: open until the user closes it, and remembered. */

import { recall, remember } from "./browser.js";

export class Drawer {
  #button;

  constructor(button) {
    this.#button = button;
    button.onclick = () => {
      this.#show(!this.#open);
      remember("drawer", { open: this.#open });
    };
    this.#show(recall("drawer").open ?? true);
  }

  /** Mark the button while the drawer is closed: the log has an error. */
  markError() {
    this.#button.toggleAttribute("data-error", !this.#open);
  }

  get #open() {
    return this.#button.ariaExpanded === "true";
  }

  #show(open) {
    this.#button.ariaExpanded = String(open);
    this.#button.removeAttribute("data-error");
    document.documentElement.dataset.drawer = open ? "open" : "closed";
  }
}
