/** A queue's store in a browser: it survives a reload, a killed tab and a restart, and all tabs of a page share it. */

import { Turns } from "./turns.js";

const ENTRIES = "entries";

/** A `QueueStore`. */
export class IndexedDbStore {
  #name;
  #turns = new Turns();
  /** @type {Promise<IDBDatabase> | null} */
  #database = null;

  /** @param {string} [name] of the database, if the page's origin has more than one game */
  constructor(name = "scoregate-queue") {
    this.#name = name;
  }

  async names() {
    const keys = await this.#transact("readonly", (entries) => entries.getAllKeys());
    return keys.map(String).filter((name) => name.endsWith(".json"));
  }

  /**
   * @param {string} name
   * @returns {Promise<string | null>}
   */
  async read(name) {
    return (await this.#transact("readonly", (entries) => entries.get(name))) ?? null;
  }

  /**
   * @param {string} name
   * @param {string} text
   */
  async write(name, text) {
    await this.#transact("readwrite", (entries) => entries.put(text, name));
  }

  /** @param {string} name */
  async remove(name) {
    await this.#transact("readwrite", (entries) => entries.delete(name));
  }

  /** @param {string} name */
  async setAside(name) {
    const text = await this.read(name);
    if (text === null) return;
    await this.#transact("readwrite", (entries) => {
      entries.put(text, `${name}.damaged`);
      return entries.delete(name);
    });
  }

  /**
   * @template Result
   * @param {() => Promise<Result>} task
   * @returns {Promise<Result>}
   */
  async exclusively(task) {
    const { locks } = navigator;
    if (!locks) return this.#turns.take(task); // an old browser
    return await locks.request(this.#name, task);
  }

  /**
   * Performs a request and returns its result once the transaction is complete: a write is on the disk then.
   * @template Result
   * @param {IDBTransactionMode} mode
   * @param {(entries: IDBObjectStore) => IDBRequest<Result>} task
   * @returns {Promise<Result>}
   */
  async #transact(mode, task) {
    const database = await this.#open();
    return new Promise((resolve, reject) => {
      const transaction = database.transaction(ENTRIES, mode, { durability: "strict" });
      const request = task(transaction.objectStore(ENTRIES));
      transaction.oncomplete = () => resolve(request.result);
      transaction.onabort = () => reject(transaction.error);
    });
  }

  #open() {
    this.#database ??= new Promise((resolve, reject) => {
      const opening = indexedDB.open(this.#name, 1);
      const forget = () => (this.#database = null);
      opening.onupgradeneeded = () => opening.result.createObjectStore(ENTRIES);
      opening.onerror = () => {
        forget();
        reject(opening.error);
      };
      opening.onsuccess = () => {
        const database = opening.result;
        database.onclose = forget;
        database.onversionchange = () => {
          database.close();
          forget();
        };
        resolve(database);
      };
    });
    return this.#database;
  }
}
