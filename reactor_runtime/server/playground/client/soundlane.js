/** The way of a track of sound to the model: it must not have holes, so all goes out, until a second of it is unread. */

import { Way } from "./way.js";

const MOST_UNREAD_S = 1;
const PING_S = 0.2; // of sound between two pings

export class SoundLane {
  #way;
  #unread = []; // {at, seconds}: pings without a pong, and how much sound went before each
  #sinceS = 0; // the last ping

  /** `link` is as Way wants it. */
  constructor(link, track) {
    this.#way = new Way(link, track, { answered: (sentAt) => this.#answered(sentAt), lost: () => this.#restart() });
  }

  get hasRoom() {
    return this.#unread.reduce((sum, { seconds }) => sum + seconds, this.#sinceS) < MOST_UNREAD_S;
  }

  /** Send a WAV (Uint8Array) that lasts so long; false where nobody takes it. */
  send(file, seconds) {
    if (!this.#way.send(file)) return false;
    const at = performance.now();
    this.#sinceS += seconds;
    if (this.#sinceS < PING_S || !this.#way.ping(at)) return true;
    this.#unread.push({ at, seconds: this.#sinceS });
    this.#sinceS = 0;
    return true;
  }

  end() {
    this.#way.end();
  }

  #answered(sentAt) {
    if (this.#unread.some(({ at }) => at === sentAt)) this.#unread = this.#unread.filter(({ at }) => at > sentAt);
  }

  #restart() {
    this.#unread = [];
    this.#sinceS = 0;
  }
}
