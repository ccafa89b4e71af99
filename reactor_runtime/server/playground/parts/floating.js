/** The first picture in a small window above all others. Safari wants that asked for in the click itself, so what it shows is made before. */

import { el } from "../dom.js";

const KEPT_MS = 10000; // made ready and not used

export class Floating {
  #session;
  #stage;
  #making = null; // promise of the <video>
  #video = null; // once it plays
  #timer = 0;

  constructor(session, stage) {
    this.#session = session;
    this.#stage = stage;
  }

  /** Make the window's picture ready; what can't be made is told by toggle(). */
  prepare() {
    clearTimeout(this.#timer);
    if (!document.pictureInPictureElement) this.#timer = setTimeout(() => this.#end(), KEPT_MS);
    this.#making ??= this.#make();
    this.#making.catch(() => this.#end());
  }

  /** Rejects in words where the browser doesn't let it. */
  async toggle() {
    if (document.pictureInPictureElement) return document.exitPictureInPicture();
    if (!this.#video) {
      this.prepare();
      await this.#making;
    }
    await this.#video.requestPictureInPicture().catch((error) => {
      if (error.name === "NotAllowedError") throw new Error("press once more", { cause: error });
      this.#end(); // or every frame would be decoded for nobody
      throw error;
    });
    clearTimeout(this.#timer);
  }

  async #make() {
    const [first] = this.#session.tracks.filter(({ kind, direction }) => kind === "video" && direction === "out");
    const stream = await this.#session.stream(first.name);
    const video = Object.assign(el("video", { class: "floating", playsinline: true, "aria-hidden": true }), { muted: true, srcObject: stream });
    video.onleavepictureinpicture = () => this.#end();
    this.#stage.append(video);
    await video.play();
    this.#video = video;
  }

  #end() {
    clearTimeout(this.#timer);
    this.#stage.querySelector(".floating")?.srcObject.getTracks().forEach((track) => track.stop());
    this.#stage.querySelector(".floating")?.remove();
    this.#making = this.#video = null;
  }
}
