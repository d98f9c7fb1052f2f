/** A queue of submissions that loses none: each is stored before it is sent, until the gateway itself has answered. */

import { claimText, commitmentText } from "./claims.js";
import { fromBase64, refuseInsecure, sha256, toBase64, toHex, utf8 } from "./encoding.js";
import { ScoregateError } from "./errors.js";
import { Turns } from "./turns.js";

/** @import { Scoregate } from "./client.js" */
/** @import { Claim } from "./claims.js" */
/** @import { RunKey } from "./connection.js" */
/** @import { Receipt, Submission } from "./documents.js" */

const VERSION = 1;
const MOST_ENTRIES = 100;
const LONGEST_WAIT_S = 7 * 86_400;
const LONGEST_COMMITTED_S = 60 * 86_400;
const TRIES_WITHOUT_AN_ANSWER = 3;
const KEY_BYTES = 32;

// What a client error is that a gateway does not mean for good.
const NOT_FOR_GOOD = new Set([401, 408, 421, 425, 429]);

/**
 * Where entries are kept, by name. `write` returns once the text would survive a crash, and replaces as one step.
 * `exclusively` runs tasks one after the other, also of other processes or tabs over the same store.
 * @typedef {object} QueueStore
 * @property {() => Promise<string[]>} names of all entries that are not set aside, sorted
 * @property {(name: string) => Promise<string | null>} read null if there is none
 * @property {(name: string, text: string) => Promise<void>} write
 * @property {(name: string) => Promise<void>} remove
 * @property {(name: string) => Promise<void>} setAside keeps it under another name, ending in `.damaged`
 * @property {<Result>(task: () => Promise<Result>) => Promise<Result>} exclusively
 */

/**
 * An entry as it is stored. It has the key of its run, but no token. `recording` is base64, of a commitment;
 * `submission` is set once the commitment was taken.
 * @typedef {{version: number, board: string, ticket: string, key: string, body: string, written_at: number,
 *   recording?: string, submission?: string}} QueueEntry
 */

/**
 * What became of an entry: `accepted` with its receipt, `refused` for good, `kept` for the next flush, `expired` after
 * seven days, or `damaged` and set aside. `entry` is its name, and `ticket` that of its run, null if damaged.
 * @typedef {object} FlushOutcome
 * @property {string} entry
 * @property {string | null} ticket
 * @property {"accepted" | "refused" | "kept" | "expired" | "damaged"} outcome
 * @property {Receipt} [receipt]
 * @property {ScoregateError} [problem]
 */

/** Submissions that wait for a network, in a store that outlives the game. */
export class OfflineQueue {
  #gateway;
  #store;
  #writes = new Turns();

  /**
   * @param {Scoregate} gateway
   * @param {QueueStore} store
   */
  constructor(gateway, store) {
    this.#gateway = gateway;
    this.#store = store;
  }

  /**
   * Stores a submission, which the next `flush` sends. It is durable when this returns. The same run and claim twice
   * are one entry. Throws a ScoregateError of reason `queue-full` if a hundred wait already.
   * @param {RunKey & {board: string}} run what `openRun` returned
   * @param {Claim} claim
   * @param {{committed?: boolean}} [options] `committed` sends the digest of the recording first, and keeps the
   *   recording until the submission is verified
   * @returns {Promise<string>} the name of the entry
   */
  async submitLater({ board, ticket, key }, claim, { committed = false } = {}) {
    refuseInsecure("Signing");
    const body = committed ? await commitmentText(claim) : claimText(claim);
    const recording = committed && claim.recording ? { recording: toBase64(claim.recording) } : {};
    const digest = toHex(await sha256(utf8(ticket))).slice(0, 8);
    return this.#writes.take(async () => {
      const names = await this.#store.names();
      for (const name of names.filter((each) => each.endsWith(`-${digest}.json`))) {
        const entry = await this.#entry(name);
        if (entry && entry.ticket === ticket && entry.body === body) return name;
      }
      if (names.length >= MOST_ENTRIES && (await this.waiting()) >= MOST_ENTRIES) throw queueFull();
      const now_ms = Math.floor(this.#gateway.now_ms);
      const name = freeName(names, now_ms, digest), written_at = Math.floor(now_ms / 1000);
      await this.#write(name, { version: VERSION, board, ticket, key, body, written_at, ...recording });
      return name;
    });
  }

  /** Returns the number of submissions that wait to be sent. */
  async waiting() {
    let count = 0;
    for (const name of await this.#store.names()) {
      const entry = await this.#entry(name);
      if (entry && !entry.submission) count += 1;
    }
    return count;
  }

  /**
   * Sends what waits, the oldest first, and the recordings that the gateway asks for. An entry is deleted only when
   * the gateway itself has answered. Returns what became of each entry, and the submissions whose recordings were
   * sent. Call it when the game starts, when the network is back, and after each run. One flush runs at a time.
   * @returns {Promise<{outcomes: FlushOutcome[], revealed: string[]}>}
   */
  flush() {
    return this.#store.exclusively(async () => {
      const outcomes = await this.#sendAll();
      return { outcomes, revealed: await this.#revealAll() };
    });
  }

  async #sendAll() {
    /** @type {FlushOutcome[]} */
    const outcomes = [];
    let unanswered = 0;
    for (const name of await this.#store.names()) {
      const entry = await this.#entry(name);
      if (entry === undefined || entry?.submission) continue;
      const outcome = await this.#settle(name, entry, unanswered);
      const status = outcome.problem?.status;
      if (outcome.outcome === "kept" && (status === 429 || status === 503)) unanswered = TRIES_WITHOUT_AN_ANSWER;
      else unanswered = status === 0 ? unanswered + 1 : 0;
      outcomes.push(outcome);
    }
    return outcomes;
  }

  /**
   * @param {string} name
   * @param {QueueEntry | null} entry
   * @param {number} unanswered how many entries in a row had no answer
   * @returns {Promise<FlushOutcome>}
   */
  async #settle(name, entry, unanswered) {
    if (entry === null) {
      await this.#store.setAside(name);
      return { entry: name, ticket: null, outcome: "damaged" };
    }
    const told = { entry: name, ticket: entry.ticket };
    if (this.#age_s(entry) > LONGEST_WAIT_S) {
      await this.#store.remove(name);
      return { ...told, outcome: "expired" };
    }
    try {
      if (unanswered >= TRIES_WITHOUT_AN_ANSWER) throw new ScoregateError(0, { title: "no answer", detail: "Not tried." });
      const receipt = await this.#gateway.sendClaim(entry, entry.body, unanswered ? { attempts: 1 } : {});
      if (entry.recording) await this.#write(name, { ...entry, submission: receipt.submission });
      else await this.#store.remove(name);
      return { ...told, outcome: "accepted", receipt };
    } catch (error) {
      if (!(error instanceof ScoregateError)) throw error;
      if (!isForGood(error)) return { ...told, outcome: "kept", problem: error };
      await this.#store.remove(name);
      return { ...told, outcome: "refused", problem: error };
    }
  }

  /** Sends the recordings that are asked for, and forgets those that nobody will ask for any more. */
  async #revealAll() {
    /** @type {string[]} */
    const revealed = [];
    const committed = await this.#committed();
    if (committed.length === 0 || this.#gateway.token === null) return revealed;
    try {
      const asked = new Set((await this.#gateway.reveals()).map(({ submission }) => submission));
      for (const { name, submission, recording } of committed) {
        if (asked.has(submission)) {
          if (await this.#reveal(submission, recording)) revealed.push(submission);
        } else if (await this.#isOver(submission)) await this.#store.remove(name);
      }
    } catch (error) {
      // The recordings stay, and the next flush goes on.
      if (!(error instanceof ScoregateError)) throw error;
    }
    return revealed;
  }

  async #committed() {
    const committed = [];
    for (const name of await this.#store.names()) {
      const entry = await this.#entry(name);
      if (!entry?.submission || entry.recording === undefined) continue;
      if (this.#age_s(entry) > LONGEST_COMMITTED_S) await this.#store.remove(name);
      else committed.push({ name, submission: entry.submission, recording: entry.recording });
    }
    return committed;
  }

  /**
   * @param {string} submission
   * @param {string} recording
   */
  async #reveal(submission, recording) {
    try {
      await this.#gateway.reveal(submission, fromBase64(recording));
      return true;
    } catch (error) {
      if (error instanceof ScoregateError && error.isFromGateway) return false; // one must not hold up the others
      throw error;
    }
  }

  /** @param {string} submission */
  async #isOver(submission) {
    try {
      return isOver(await this.#gateway.submission(submission));
    } catch (error) {
      // Another player's: this one may not see it.
      if (error instanceof ScoregateError && error.isFromGateway && error.status === 404) return false;
      throw error;
    }
  }

  /** @param {QueueEntry} entry */
  #age_s({ written_at }) {
    return this.#gateway.now_ms / 1000 - written_at;
  }

  /**
   * Returns an entry, null if it is damaged, and undefined if there is none.
   * @param {string} name
   */
  async #entry(name) {
    const text = await this.#store.read(name);
    return text === null ? undefined : entryOf(text);
  }

  /**
   * @param {string} name
   * @param {QueueEntry} entry
   */
  #write(name, entry) {
    return this.#store.write(name, JSON.stringify(entry));
  }
}

/**
 * @param {string[]} names
 * @param {number} now_ms
 * @param {string} digest
 */
function freeName(names, now_ms, digest) {
  const taken = new Set(names.map((name) => name.slice(0, 13)));
  let at = String(now_ms).padStart(13, "0");
  while (taken.has(at)) at = String(Number(at) + 1).padStart(13, "0"); // so that order stays that of writing
  return `${at}-${digest}.json`;
}

/**
 * @param {string} text
 * @returns {QueueEntry | null}
 */
function entryOf(text) {
  try {
    const entry = JSON.parse(text);
    return isEntry(entry) ? entry : null;
  } catch {
    return null;
  }
}

/**
 * @param {any} entry
 * @returns {entry is QueueEntry}
 */
function isEntry(entry) {
  const texts = [entry.board, entry.ticket, entry.key, entry.body];
  const more = [entry.recording ?? "", entry.submission ?? ""];
  if (entry.version !== VERSION || ![...texts, ...more].every((each) => typeof each === "string")) return false;
  if (!Number.isFinite(entry.written_at) || fromBase64(entry.key).length !== KEY_BYTES) return false;
  const claim = JSON.parse(entry.body);
  fromBase64(more[0]);
  return typeof claim === "object" && claim !== null;
}

/** @param {ScoregateError} error */
function isForGood({ status, isFromGateway }) {
  return isFromGateway && status >= 400 && status < 500 && !NOT_FOR_GOOD.has(status);
}

/** @param {Submission} submission */
function isOver({ state, verified }) {
  if (state === "promoted") return verified === true;
  return !["received", "pending", "held"].includes(state);
}

function queueFull() {
  const detail = `${MOST_ENTRIES} runs wait to be sent: connect to the network first.`;
  return new ScoregateError(0, { type: "queue-full", title: "queue full", detail });
}
