/** The control panel as a drawer beside the stage: at first open, closed for a viewer and a replay, then as the user left it. */

import { recall, remember } from "./storage.js";

export class Drawer {
  #button;

  constructor(button) {
    this.#button = button;
    button.onclick = () => {
      this.#show(!this.#open);
      remember("drawer", { open: this.#open });
    };
    const isViewer = new URLSearchParams(location.search).get("role") === "viewer";
    this.#show(recall("drawer").open ?? !(isViewer || document.getElementById("timeline")));
  }

  /** Mark the button while the drawer is closed: the log has an error. */
  markError() {
    this.#button.toggleAttribute("data-error", !this.#open);
  }

  clearError() {
    this.#button.removeAttribute("data-error");
  }

  get #open() {
    return this.#button.ariaExpanded === "true";
  }

  #show(open) {
    this.#button.ariaExpanded = String(open);
    this.clearError();
    document.documentElement.dataset.drawer = open ? "open" : "closed";
  }
}
