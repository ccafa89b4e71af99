/** The median of the last few values, which an outlier does not move. */
export class Median {
  #values = [];
  #most;

  constructor(most) {
    this.#most = most;
  }

  add(value) {
    this.#values.push(value);
    if (this.#values.length > this.#most) this.#values.shift();
  }

  clear() {
    this.#values = [];
  }

  get last() {
    return this.#values.at(-1) ?? null;
  }

  /** Null without values. */
  get value() {
    return this.#values.toSorted((a, b) => a - b)[Math.floor(this.#values.length / 2)] ?? null;
  }
}
