/** What comes, for `for await`: bounded, and when full the oldest goes. */
export class Feed {
  #items = [];
  #most;
  #take;
  #stopped;
  #ended = false;
  #waiting = [];

  /** `take(item)` makes of an item what is given out, undefined for nothing; `stopped()` is called when nobody asks any more. */
  constructor(most, take, stopped) {
    this.#most = most;
    this.#take = take;
    this.#stopped = stopped;
  }

  push(item) {
    this.#items.push(item);
    if (this.#items.length > this.#most) this.#items.shift();
    this.#wake();
  }

  clear() {
    this.#items = [];
  }

  /** What waits is still given out. */
  end() {
    this.#ended = true;
    this.#wake();
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  async next() {
    for (;;) {
      if (this.#items.length) {
        const value = await this.#take(this.#items.shift());
        if (value !== undefined) return { done: false, value };
      } else if (this.#ended) return { done: true, value: undefined };
      else await new Promise((resolve) => this.#waiting.push(resolve));
    }
  }

  async return(value) {
    this.clear();
    this.end();
    this.#stopped();
    return { done: true, value };
  }

  #wake() {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}
