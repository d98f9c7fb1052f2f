/** The JSON objects of answers, as types. Each may have more members than these: see docs/reference/http.md. */

/** @typedef {{player: string, name: string, token: string}} Player */

/**
 * An opened run.
 * @typedef {object} Run
 * @property {string} run
 * @property {string} ticket
 * @property {string} key base64
 * @property {string} seed a decimal number, which may not fit a `number`: use `BigInt(seed)`
 * @property {string} board
 * @property {string} player
 * @property {string} build
 * @property {number} ticks_per_second
 * @property {number} checkpoint_ticks
 * @property {string | null} parameters the text of a JSON object
 * @property {string | null} asset
 * @property {string | null} asset_url
 * @property {string} issued_at
 * @property {string} expires_at
 */

/** @typedef {{submission: string, board: string, player: string, score: number, state: string}} Receipt */

/**
 * A submission. `reason` is a class; `verified` is false for a score that counts without a replay.
 * @typedef {object} Submission
 * @property {string} submission
 * @property {string} board
 * @property {string} player
 * @property {number} score
 * @property {string} state
 * @property {string | null} reason
 * @property {number | null} rank
 * @property {boolean | null} verified
 * @property {string | null} reveal_by
 * @property {string | null} message
 * @property {{text: string, asked_at: string, answer_by: string} | null} question
 * @property {{state: string, until?: string | null} | null} appeal
 */

/** @typedef {{submission: string, board: string, recording_digest: string, recording_bytes: number, reveal_by: string}} Reveal */

/** @typedef {{rank: number, player: string, name: string, score: number, submission: string, [member: string]: any}} Entry */

/** @typedef {{board: string, rank: number, total: number, score: number, [member: string]: any}} Standing */

/**
 * @typedef {object} EntryPage
 * @property {string} board
 * @property {string} window
 * @property {number} total
 * @property {Entry[]} entries
 * @property {string | null} next
 * @property {string | null} previous
 * @property {string[]} [unranked]
 */

/** @typedef {{family: string, title: string, opened_by: string, [member: string]: any}} Family */

export {};
