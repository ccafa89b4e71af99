/** A bounded queue for `for await`: when it is full, the oldest item is dropped. */

export class AsyncQueue {
  #items = [];
  #most;
  #take;
  #stopped;
  #ended = false;
  #waiting = [];
  #over = new AbortController();
  #error = null;

  /**
   * `take(item)` makes of an item what is given out, undefined for nothing; `stopped()` is called when nobody asks any more. It ends
   * with the AbortSignal `end`: with its reason, where that is an error of a session that ended otherwise than it should.
   */
  constructor({ most, take = (item) => item, stopped, end }) {
    this.#most = most;
    this.#take = take;
    this.#stopped = stopped;
    const finish = () => {
      if (!["closed", "finished"].includes(end.reason.reason)) this.#error = end.reason;
      this.#end();
    };
    if (end.aborted) finish();
    else end.addEventListener("abort", finish, { signal: this.#over.signal });
  }

  push(item) {
    this.#items.push(item);
    if (this.#items.length > this.#most) this.#items.shift();
    this.#wake();
  }

  clear() {
    this.#items = [];
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  async next() {
    for (;;) {
      if (this.#items.length) {
        const value = await this.#take(this.#items.shift());
        if (value !== undefined) return { done: false, value };
      } else if (this.#error) {
        const error = this.#error;
        this.#error = null;
        throw error;
      } else if (this.#ended) return { done: true, value: undefined };
      else await new Promise((resolve) => this.#waiting.push(resolve));
    }
  }

  async return(value) {
    this.#over.abort();
    this.clear();
    this.#end();
    this.#stopped();
    return { done: true, value };
  }

  /** End with an error, after what waits. */
  fail(error) {
    this.#error = error;
    this.return();
  }

  /** What waits is still given out. */
  #end() {
    this.#ended = true;
    this.#wake();
  }

  #wake() {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}
