/** A queue's store that lasts as long as the page or process: for tests, and where nothing better is allowed. */

import { Turns } from "./turns.js";

/** A `QueueStore`. */
export class MemoryStore {
  /** @type {Map<string, string>} */
  #texts = new Map();
  #turns = new Turns();

  async names() {
    return [...this.#texts.keys()].filter((name) => name.endsWith(".json")).sort();
  }

  /** @param {string} name */
  async read(name) {
    return this.#texts.get(name) ?? null;
  }

  /**
   * @param {string} name
   * @param {string} text
   */
  async write(name, text) {
    this.#texts.set(name, text);
  }

  /** @param {string} name */
  async remove(name) {
    this.#texts.delete(name);
  }

  /** @param {string} name */
  async setAside(name) {
    const text = this.#texts.get(name);
    if (text === undefined) return;
    this.#texts.set(`${name}.damaged`, text);
    this.#texts.delete(name);
  }

  /**
   * @template Result
   * @param {() => Promise<Result>} task
   */
  exclusively(task) {
    return this.#turns.take(task);
  }
}
