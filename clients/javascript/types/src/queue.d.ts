/** A queue of submissions that loses none: each is stored before it is sent, until the gateway itself has answered. */
import { ScoregateError } from "./errors.js";
import type { Scoregate } from "./client.js";
import type { Claim } from "./claims.js";
import type { RunKey } from "./connection.js";
import type { Receipt } from "./documents.js";
export type QueueStore = {
    /**
     * of all entries that are not set aside, sorted
     */
    names: () => Promise<string[]>;
    /**
     * null if there is none
     */
    read: (name: string) => Promise<string | null>;
    write: (name: string, text: string) => Promise<void>;
    remove: (name: string) => Promise<void>;
    /**
     * keeps it under another name, ending in `.damaged`
     */
    setAside: (name: string) => Promise<void>;
    exclusively: <Result>(task: () => Promise<Result>) => Promise<Result>;
};
export type QueueEntry = {
    version: number;
    board: string;
    ticket: string;
    key: string;
    body: string;
    written_at: number;
    recording?: string;
    submission?: string;
};
export type FlushOutcome = {
    entry: string;
    ticket: string | null;
    outcome: "accepted" | "refused" | "kept" | "expired" | "damaged";
    receipt?: Receipt;
    problem?: ScoregateError;
};
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
export declare class OfflineQueue {
    #private;
    /**
     * @param {Scoregate} gateway
     * @param {QueueStore} store
     */
    constructor(gateway: Scoregate, store: QueueStore);
    /**
     * Stores a submission, which the next `flush` sends. It is durable when this returns. The same run and claim twice
     * are one entry. Throws a ScoregateError of reason `queue-full` if a hundred wait already.
     * @param {RunKey & {board: string}} run what `openRun` returned
     * @param {Claim} claim
     * @param {{committed?: boolean}} [options] `committed` sends the digest of the recording first, and keeps the
     *   recording until the submission is verified
     * @returns {Promise<string>} the name of the entry
     */
    submitLater({ board, ticket, key }: RunKey & {
        board: string;
    }, claim: Claim, { committed }?: {
        committed?: boolean;
    }): Promise<string>;
    /** Returns the number of submissions that wait to be sent. */
    waiting(): Promise<number>;
    /**
     * Sends what waits, the oldest first, and the recordings that the gateway asks for. An entry is deleted only when
     * the gateway itself has answered. Returns what became of each entry, and the submissions whose recordings were
     * sent. Call it when the game starts, when the network is back, and after each run. One flush runs at a time.
     * @returns {Promise<{outcomes: FlushOutcome[], revealed: string[]}>}
     */
    flush(): Promise<{
        outcomes: FlushOutcome[];
        revealed: string[];
    }>;
}
