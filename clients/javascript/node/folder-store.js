/** A queue's store in a folder, for Node: one private file for each entry. Processes may share the folder. */

import { randomBytes } from "node:crypto";
import { mkdir, open, readFile, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";

import { Turns } from "../src/turns.js";

const NAME = /^\d{13}-[0-9a-f]{8}\.json$/;
const LOCK = "flush.lock";
const LOOK_MS = 20;
const STALE_MS = 600_000;

/** A `QueueStore`. */
export class FolderStore {
  #folder;
  #turns = new Turns();

  /** @param {string} folder made if it is missing */
  constructor(folder) {
    this.#folder = folder;
  }

  async names() {
    const files = await orElse(readdir(this.#folder), "ENOENT", []);
    return files.filter((name) => NAME.test(name)).sort();
  }

  /**
   * @param {string} name
   * @returns {Promise<string | null>}
   */
  read(name) {
    return orElse(readFile(this.#path(name), "utf8"), "ENOENT", null);
  }

  /**
   * @param {string} name
   * @param {string} text
   */
  async write(name, text) {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const fresh = this.#path(`${name}.${randomBytes(6).toString("hex")}.new`);
    const file = await open(fresh, "wx", 0o600);
    try {
      await file.writeFile(text).then(() => file.sync()).finally(() => file.close());
      await rename(fresh, this.#path(name));
    } catch (error) {
      await rm(fresh, { force: true }); // on a full disk each attempt would leave one
      throw error;
    }
    await this.#syncFolder();
  }

  /** @param {string} name */
  async remove(name) {
    await rm(this.#path(name), { force: true });
  }

  /** @param {string} name */
  async setAside(name) {
    await orElse(rename(this.#path(name), this.#path(`${name}.damaged`)), "ENOENT", undefined);
  }

  /**
   * @template Result
   * @param {() => Promise<Result>} task
   */
  exclusively(task) {
    return this.#turns.take(async () => {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      while (!(await this.#lock())) await new Promise((resume) => setTimeout(resume, LOOK_MS));
      try {
        return await task();
      } finally {
        await rm(this.#path(LOCK), { force: true });
      }
    });
  }

  // A lock that is taken from a process too early does no harm: an entry that is sent twice counts once.
  async #lock() {
    try {
      const file = await open(this.#path(LOCK), "wx", 0o600);
      await file.writeFile(String(process.pid));
      await file.close();
      return true;
    } catch (error) {
      if (codeOf(error) !== "EEXIST") throw error;
    }
    if (await this.#isStale()) await rm(this.#path(LOCK), { force: true });
    return false;
  }

  async #isStale() {
    const held = await orElse(stat(this.#path(LOCK)), "ENOENT", null);
    if (held === null) return false;
    const age_ms = Date.now() - held.mtimeMs, holder = Number(await this.read(LOCK));
    return age_ms > STALE_MS || (holder > 0 ? !isAlive(holder) : age_ms > 1000);
  }

  async #syncFolder() {
    if (process.platform === "win32") return; // it has no such thing
    const folder = await open(this.#folder, "r");
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  }

  /** @param {string} name */
  #path(name) {
    return join(this.#folder, name);
  }
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return codeOf(error) === "EPERM";
  }
}

/**
 * @template Result
 * @template Other
 * @param {Promise<Result>} promise
 * @param {string} code
 * @param {Other} other
 */
async function orElse(promise, code, other) {
  try {
    return await promise;
  } catch (error) {
    if (codeOf(error) === code) return other;
    throw error;
  }
}

/** @param {unknown} error */
function codeOf(error) {
  return /** @type {NodeJS.ErrnoException} */ (error).code;
}
