/** What a client throws. */
export type Problem = {
    type?: string;
    title?: string;
    status?: number;
    detail?: string;
    server_time?: number;
    [member: string]: unknown;
};
/**
 * A problem document (RFC 9457).
 * @typedef {{type?: string, title?: string, status?: number, detail?: string, server_time?: number,
 *   [member: string]: unknown}} Problem
 */
/** A refusal by the gateway, or an answer that is none of its own, or no answer at all (`status` 0). */
export declare class ScoregateError extends Error {
    #private;
    /** HTTP status, 0 without an answer. */
    status: number;
    /** The whole problem document. */
    problem: Problem;
    /** The seconds after which to try again, null if the answer does not say. @type {number | null} */
    retryAfter: number | null;
    /** Whether the gateway itself has answered, and not something before it. */
    isFromGateway: boolean;
    /** Whether the request may have reached the gateway. */
    wasSent: boolean;
    /**
     * @param {number} status HTTP status, 0 without an answer
     * @param {Problem} problem the problem document, or what is known instead
     * @param {{retryAfter?: number | null, isProblem?: boolean, wasSent?: boolean}} [facts]
     */
    constructor(status: number, problem: Problem, { retryAfter, isProblem, wasSent }?: {
        retryAfter?: number | null;
        isProblem?: boolean;
        wasSent?: boolean;
    });
    /** The stable name of the problem: the last segment of its type, "" without one. */
    get reason(): string;
    /** What the problem says in a sentence, "" if nothing. */
    get detail(): string;
    /** The time of the gateway in Unix seconds, if the problem tells it. */
    get serverTime(): number | null;
}
