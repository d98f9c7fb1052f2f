/** Tasks of this process, one after the other. */

export class Turns {
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();

  /**
   * Runs a task once those before it have ended.
   * @template Result
   * @param {() => Promise<Result>} task
   * @returns {Promise<Result>}
   */
  take(task) {
    const result = this.#last.then(task);
    this.#last = result.catch(() => {});
    return result;
  }
}
