/** A bounded queue for `for await`: when it is full, the oldest item is dropped. */

export class AsyncQueue {
  #items = [];
  #most;
  #take;
  #onStop;
  #ended = false;
  #waiting = [];
  #over = new AbortController();
  #error = null;

  /**
   * `take(item)` converts an item that is read; undefined skips the item. `onStop()` is called when the reader stops. The
   * queue ends with the AbortSignal `end`; unless its reason is a regular end, reading rejects with it.
   */
  constructor({ most, take = (item) => item, onStop, end }) {
    this.#most = most;
    this.#take = take;
    this.#onStop = onStop;
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
    this.#onStop();
    return { done: true, value };
  }

  /** End with an error, after the items in the queue. */
  fail(error) {
    this.#error = error;
    this.return();
  }

  /** End; items in the queue can still be read. */
  #end() {
    this.#ended = true;
    this.#wake();
  }

  #wake() {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}
