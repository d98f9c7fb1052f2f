/**
 * The Scoregate client for browsers and Node 20 or later: players, runs, scores, boards, live standings.
 *
 * It has no dependencies. Signing uses WebCrypto, which browsers offer on https and on localhost only.
 */
import { BoardReads } from "./reads.js";
import type { Claim } from "./claims.js";
import type { Document, RunKey } from "./connection.js";
import type { Player, Receipt, Reveal, Run, Submission } from "./documents.js";
/** A client of one gateway for one player. Set `token` to continue as an earlier player. */
export declare class Scoregate extends BoardReads {
    #private;
    /** The time of this machine in milliseconds. */
    get now_ms(): number;
    /**
     * Creates an anonymous player, as whom this client acts from now on.
     * @param {string} name display name
     * @returns {Promise<Player>}
     */
    createPlayer(name: string): Promise<Player>;
    /**
     * Opens a run, which has a ticket, a signing key, a seed and an interval for checkpoints.
     * @param {string} board
     * @param {string} build the game's build, as the board's policy names it
     * @param {{nameSignature?: string, attempts?: number}} [options] the studio's signature of the board's name, if
     *   the run may open the board
     * @returns {Promise<Run>}
     */
    openRun(board: string, build: string, { nameSignature, attempts }?: {
        nameSignature?: string;
        attempts?: number;
    }): Promise<Run>;
    /**
     * Submits a score and returns its receipt. It is then durable.
     * @param {Run | (RunKey & {board: string})} run what `openRun` returned
     * @param {Claim} claim
     * @returns {Promise<Receipt>}
     */
    submit(run: Run | (RunKey & {
        board: string;
    }), claim: Claim): Promise<Receipt>;
    /**
     * Submits a score with only the digest of its recording, on a board that offers this (`reveal_s`). Keep the
     * recording while the run is pending, or counts without being verified, and send it with `reveal` once
     * `reveals` lists it. An `OfflineQueue` does this by itself.
     * @param {Run | (RunKey & {board: string})} run what `openRun` returned
     * @param {Claim} claim
     * @returns {Promise<Receipt>}
     */
    commit(run: Run | (RunKey & {
        board: string;
    }), claim: Claim): Promise<Receipt>;
    /**
     * Sends the text of a submission, as it was made once.
     * @param {RunKey & {board: string}} run
     * @param {string} text
     * @param {{attempts?: number}} [options]
     * @returns {Promise<Receipt>}
     */
    sendClaim(run: RunKey & {
        board: string;
    }, text: string, { attempts }?: {
        attempts?: number;
    }): Promise<Receipt>;
    /**
     * Lists the recordings that the player is asked to send, the next deadline first.
     * @returns {Promise<Reveal[]>}
     */
    reveals(): Promise<Reveal[]>;
    /**
     * Sends a requested recording.
     * @param {string} submission
     * @param {Uint8Array} recording
     * @returns {Promise<Document>}
     */
    reveal(submission: string, recording: Uint8Array): Promise<Document>;
    /**
     * Reads the state of a submission. Only its player may.
     * @param {string} submission
     * @returns {Promise<Submission>}
     */
    submission(submission: string): Promise<Submission>;
    /**
     * Answers a moderator's question about a submission.
     * @param {string} submission
     * @param {string} text
     */
    answer(submission: string, text: string): Promise<Document>;
    /**
     * Appeals against the decision on a submission.
     * @param {string} submission
     * @param {string} text
     */
    appeal(submission: string, text: string): Promise<Document>;
    /**
     * Waits until a submission is decided or held, and returns it. The live feed says when to look; without it the
     * client looks after half a second, and then more and more seldom, up to each five seconds.
     * @param {string} submission
     * @param {{timeoutMs?: number}} [options] throws a ScoregateError of status 0 after this long (60 s)
     * @returns {Promise<Submission>}
     */
    waitUntilSettled(submission: string, { timeoutMs }?: {
        timeoutMs?: number;
    }): Promise<Submission>;
    /**
     * Lists the players whom this one follows.
     * @returns {Promise<Document>}
     */
    friends(): Promise<Document>;
    /** @param {string} player */
    follow(player: string): Promise<Document>;
    /** @param {string} player */
    unfollow(player: string): Promise<Document>;
    /**
     * Says which group of a segment the player is in, null for none.
     * @param {string} board
     * @param {string} segment
     * @param {string | null} group
     */
    setMembership(board: string, segment: string, group: string | null): Promise<Document>;
    /**
     * Says which groups the player is in, by segment.
     * @param {string} board
     * @param {Record<string, string | null>} groups
     */
    setMemberships(board: string, groups: Record<string, string | null>): Promise<void>;
}
