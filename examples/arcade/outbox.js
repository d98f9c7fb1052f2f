/** The runs that wait to be sent: in the browser's own database, until the leaderboard has answered. */

import { IndexedDbStore, MemoryStore, OfflineQueue } from "./scoregate/index.js";

const FIRST_PAUSE_MS = 2_000, LONGEST_PAUSE_MS = 60_000;

export class Outbox {
  #opened;
  #onSent;
  #latest = null;
  #pause_ms = FIRST_PAUSE_MS;
  #timer = 0;

  /** `onSent` is called with what became of the latest run: of this page, or of an earlier one that is left. */
  constructor(gateway, onSent) {
    this.#opened = openStore().then((store) => new OfflineQueue(gateway, store));
    this.#onSent = onSent;
    addEventListener("online", () => this.send());
  }

  /** Stores a run. It then survives whatever happens to the page. */
  async add(run, claim) {
    const queue = await this.#opened;
    const entry = await queue.submitLater(run, claim);
    this.#latest = { entry, submission: run.run, board: run.board, player: run.player };
  }

  /** Sends what waits, and again after a pause if the leaderboard could not be reached. */
  async send() {
    clearTimeout(this.#timer);
    try {
      const queue = await this.#opened;
      const { outcomes } = await queue.flush();
      this.#tell(outcomes, await queue.waiting());
      if (!outcomes.some(({ outcome }) => outcome === "kept")) {
        this.#pause_ms = FIRST_PAUSE_MS;
        return;
      }
    } catch (error) {
      console.warn(error); // of the database: the next time may do
    }
    this.#timer = setTimeout(() => this.send(), this.#pause_ms);
    this.#pause_ms = Math.min(2 * this.#pause_ms, LONGEST_PAUSE_MS);
  }

  #tell(outcomes, waiting) {
    const latest = this.#latest ?? outcomes.at(-1);
    if (!latest || latest.isTold) return;
    const own = outcomes.find(({ entry }) => entry === latest.entry);
    if (!own && waiting > 0) return; // it was added meanwhile
    const sent = own ?? { outcome: "accepted" }; // by another tab
    this.#latest = { submission: null, board: null, player: null, ...latest, ...sent.receipt, isTold: sent.outcome !== "kept" };
    this.#onSent({ ...this.#latest, outcome: sent.outcome, problem: sent.problem });
  }
}

/** Returns the browser's database, or memory where a private window refuses it. */
async function openStore() {
  const store = new IndexedDbStore("scoregate.arcade");
  try {
    await store.names();
    return store;
  } catch {
    return new MemoryStore();
  }
}
