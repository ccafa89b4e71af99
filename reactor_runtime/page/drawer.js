/** The drawer with the controls. While it is closed, the frame fills the window and everything else lies over it. */

import { recall, remember } from "./storage.js";

const FADE_MS = 3000;
const ACTIVITY = ["pointermove", "pointerdown", "wheel", "keydown", "focusin", "activity"];

export class Drawer {
  #button;
  // Of the model and the role, under which the choice is kept.
  #name = "";
  #chosen = false;

  constructor(button) {
    this.#button = button;
    button.onclick = () => {
      this.#chosen = !this.#open;
      this.#show(this.#chosen);
      if (this.#name) remember("drawer", { ...recall("drawer"), [this.#name]: this.#chosen });
    };
    document.addEventListener("fullscreenchange", () => this.#show(this.#chosen && !document.fullscreenElement));
    fadeWhenIdle();
  }

  /**
   * Show the drawer of a model as the user left it, at first `open` or closed; the next session with the same `maySend`
   * leaves it as it is. A client that may not send anything needs no controls.
   */
  begin(model, { open, maySend }) {
    this.#button.hidden = false;
    const isViewer = !maySend || new URLSearchParams(location.search).get("role") === "viewer";
    const name = isViewer ? `${model} (viewer)` : model;
    if (name === this.#name) return;
    this.#name = name;
    this.#chosen = recall("drawer")[name] ?? (open && !isViewer);
    this.#show(this.#chosen);
  }

  /** Mark the button while the drawer is closed: the log has an error. */
  markError() {
    this.#button.hidden = false;
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

/** Mark the page as idle after a while without pointer, key or touch; the style sheet fades the plates unless they are in use. */
function fadeWhenIdle() {
  const { dataset } = document.documentElement;
  let timer = 0;
  const idle = () => {
    // A mouse that rests on a plate; a finger leaves :hover behind.
    const isHovered = matchMedia("(hover: hover)").matches && document.querySelector(".plate:hover");
    if (!isHovered) dataset.idle = "";
  };
  const wake = () => {
    delete dataset.idle;
    clearTimeout(timer);
    timer = setTimeout(idle, FADE_MS);
  };
  for (const name of ACTIVITY) window.addEventListener(name, wake, { capture: true, passive: true });
  wake();
}
