/**
 * The Scoregate client for browsers and Node 20 or later: players, runs, scores, boards, live standings.
 *
 * It has no dependencies. Signing uses WebCrypto, which browsers offer on https and on localhost only.
 */

import { claimText, commitmentText } from "./claims.js";
import { fromBase64, utf8 } from "./encoding.js";
import { ScoregateError } from "./errors.js";
import { boardPath, segmentOf, submissionPath } from "./paths.js";
import { BoardReads } from "./reads.js";

/** @import { Claim } from "./claims.js" */
/** @import { Document, RunKey } from "./connection.js" */
/** @import { Feed, FeedEvent } from "./live.js" */
/** @import { Player, Receipt, Reveal, Run, Submission } from "./documents.js" */

const PLAYERS = "/v1/players";
const FIRST_POLL_MS = 500;
const LONGEST_POLL_MS = 5_000;
const UNSETTLED = new Set(["received", "pending"]);

/** A client of one gateway for one player. Set `token` to continue as an earlier player. */
export class Scoregate extends BoardReads {
  /** The time of this machine in milliseconds. */
  get now_ms() {
    return this.connection.now();
  }

  // ---- playing ----

  /**
   * Creates an anonymous player, as whom this client acts from now on.
   * @param {string} name display name
   * @returns {Promise<Player>}
   */
  async createPlayer(name) {
    const created = { isRepeatable: false, has: ["player", "token"] };
    const player = /** @type {Player} */ (await this.#send("POST", PLAYERS, { name }, created));
    this.token = player.token;
    return player;
  }

  /**
   * Opens a run, which has a ticket, a signing key, a seed and an interval for checkpoints.
   * @param {string} board
   * @param {string} build the game's build, as the board's policy names it
   * @param {{nameSignature?: string, attempts?: number}} [options] the studio's signature of the board's name, if
   *   the run may open the board
   * @returns {Promise<Run>}
   */
  async openRun(board, build, { nameSignature, attempts } = {}) {
    const content = { build, ...(nameSignature && { name_signature: nameSignature }) };
    const opened = { isRepeatable: false, attempts, has: ["board", "ticket", "key", "seed"] };
    const run = /** @type {Run} */ (await this.#send("POST", `${boardPath(board)}/runs`, content, opened));
    refuseOtherThanKey(run.key);
    return run;
  }

  /**
   * Submits a score and returns its receipt. It is then durable.
   * @param {Run | (RunKey & {board: string})} run what `openRun` returned
   * @param {Claim} claim
   * @returns {Promise<Receipt>}
   */
  submit(run, claim) {
    return this.sendClaim(run, claimText(claim));
  }

  /**
   * Submits a score with only the digest of its recording, on a board that offers this (`reveal_s`). Keep the
   * recording while the run is pending, or counts without being verified, and send it with `reveal` once
   * `reveals` lists it. An `OfflineQueue` does this by itself.
   * @param {Run | (RunKey & {board: string})} run what `openRun` returned
   * @param {Claim} claim
   * @returns {Promise<Receipt>}
   */
  async commit(run, claim) {
    return this.sendClaim(run, await commitmentText(claim));
  }

  /**
   * Sends the text of a submission, as it was made once.
   * @param {RunKey & {board: string}} run
   * @param {string} text
   * @param {{attempts?: number}} [options]
   * @returns {Promise<Receipt>}
   */
  async sendClaim(run, text, { attempts } = {}) {
    const path = `${boardPath(run.board)}/scores`;
    return /** @type {Receipt} */ (await this.connection.callSigned(path, text, run, ["submission"], attempts));
  }

  /**
   * Lists the recordings that the player is asked to send, the next deadline first.
   * @returns {Promise<Reveal[]>}
   */
  async reveals() {
    return (await this.read("/v1/reveals", ["reveals[submission]"], "player")).reveals;
  }

  /**
   * Sends a requested recording.
   * @param {string} submission
   * @param {Uint8Array} recording
   * @returns {Promise<Document>}
   */
  reveal(submission, recording) {
    const headers = { ...this.bearer(), "Content-Type": "application/octet-stream" };
    return this.connection.call("PUT", `${submissionPath(submission)}/recording`, { headers, body: recording });
  }

  /**
   * Reads the state of a submission. Only its player may.
   * @param {string} submission
   * @returns {Promise<Submission>}
   */
  async submission(submission) {
    return /** @type {Submission} */ (await this.read(submissionPath(submission), ["submission", "state", "board"], "player"));
  }

  /**
   * Answers a moderator's question about a submission.
   * @param {string} submission
   * @param {string} text
   */
  answer(submission, text) {
    return this.#send("POST", `${submissionPath(submission)}/answer`, { text });
  }

  /**
   * Appeals against the decision on a submission.
   * @param {string} submission
   * @param {string} text
   */
  appeal(submission, text) {
    return this.#send("POST", `${submissionPath(submission)}/appeal`, { text });
  }

  /**
   * Waits until a submission is decided or held, and returns it. The live feed says when to look; without it the
   * client looks after half a second, and then more and more seldom, up to each five seconds.
   * @param {string} submission
   * @param {{timeoutMs?: number}} [options] throws a ScoregateError of status 0 after this long (60 s)
   * @returns {Promise<Submission>}
   */
  async waitUntilSettled(submission, { timeoutMs = 60_000 } = {}) {
    const until_ms = this.connection.now() + timeoutMs;
    let wake = () => {}, isTold = false, poll_ms = FIRST_POLL_MS;
    const onEvent = (/** @type {FeedEvent} */ { data }) => {
      if (data?.submission !== submission) return;
      isTold = true;
      wake();
    };
    /** @type {Feed | undefined} */
    let feed;
    try {
      for (;;) {
        const seen = await this.submission(submission);
        if (!UNSETTLED.has(seen.state)) return seen;
        const left_ms = until_ms - this.connection.now();
        if (left_ms <= 0) throw new ScoregateError(0, { title: "timeout", detail: "The run is not decided yet." });
        feed ??= this.feed(seen.board, {}, { onEvent });
        const told = new Promise((resume) => (wake = () => resume(undefined)));
        if (!isTold) await Promise.race([told, this.connection.wait(Math.min(poll_ms, left_ms))]);
        isTold = false;
        poll_ms = Math.min(2 * poll_ms, LONGEST_POLL_MS);
      }
    } finally {
      feed?.close();
    }
  }

  // ---- friends and groups ----

  /**
   * Lists the players whom this one follows.
   * @returns {Promise<Document>}
   */
  friends() {
    return this.read("/v1/friends", ["friends[player]"], "player");
  }

  /** @param {string} player */
  follow(player) {
    return this.#send("PUT", `/v1/friends/${segmentOf(player)}`);
  }

  /** @param {string} player */
  unfollow(player) {
    return this.#send("DELETE", `/v1/friends/${segmentOf(player)}`);
  }

  /**
   * Says which group of a segment the player is in, null for none.
   * @param {string} board
   * @param {string} segment
   * @param {string | null} group
   */
  setMembership(board, segment, group) {
    return this.#send("PUT", `${boardPath(board)}/memberships/${segmentOf(segment)}`, { value: group });
  }

  /**
   * Says which groups the player is in, by segment.
   * @param {string} board
   * @param {Record<string, string | null>} groups
   */
  async setMemberships(board, groups) {
    for (const [segment, group] of Object.entries(groups)) await this.setMembership(board, segment, group);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {object} [content]
   * @param {{isRepeatable?: boolean, attempts?: number, has?: string[]}} [how]
   */
  #send(method, path, content, how = {}) {
    const headers = {
      ...(path !== PLAYERS && this.bearer()),
      ...(content && { "Content-Type": "application/json" }),
    };
    const body = content && utf8(JSON.stringify(content));
    return this.connection.call(method, path, { headers, body, ...how });
  }
}

/** @param {string} key */
function refuseOtherThanKey(key) {
  try {
    if (fromBase64(key).length === 32) return;
  } catch {
    // No base64: it is no key either.
  }
  throw new ScoregateError(0, { title: "no key", detail: "The opened run has no key." });
}
