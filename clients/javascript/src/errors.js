/** What a client throws. */

/** The beginning of the type of every problem that a gateway answers. */
const PROBLEMS = "https://scoregate.dev/problems/";

/**
 * A problem document (RFC 9457).
 * @typedef {{type?: string, title?: string, status?: number, detail?: string, server_time?: number,
 *   [member: string]: unknown}} Problem
 */

/** A refusal by the gateway, or an answer that is none of its own, or no answer at all (`status` 0). */
export class ScoregateError extends Error {
  /**
   * @param {number} status HTTP status, 0 without an answer
   * @param {Problem} problem the problem document, or what is known instead
   * @param {{retryAfter?: number | null, isProblem?: boolean, wasSent?: boolean}} [facts]
   */
  constructor(status, problem, { retryAfter = null, isProblem = false, wasSent = true } = {}) {
    const { detail, title } = problem;
    super([detail, title].find((text) => text && typeof text === "string") ?? `HTTP status ${status}`);
    this.name = "ScoregateError";
    /** HTTP status, 0 without an answer. */
    this.status = status;
    /** The whole problem document. */
    this.problem = problem;
    /** The seconds after which to try again, null if the answer does not say. @type {number | null} */
    this.retryAfter = retryAfter;
    /** Whether the gateway itself has answered, and not something before it. */
    this.isFromGateway = isProblem && this.#type.startsWith(PROBLEMS);
    /** Whether the request may have reached the gateway. */
    this.wasSent = wasSent;
  }

  get #type() {
    return typeof this.problem.type === "string" ? this.problem.type : "";
  }

  /** The stable name of the problem: the last segment of its type, "" without one. */
  get reason() {
    return this.#type === "about:blank" ? "" : (this.#type.split(/[/#:]/).pop() ?? "");
  }

  /** What the problem says in a sentence, "" if nothing. */
  get detail() {
    return typeof this.problem.detail === "string" ? this.problem.detail : "";
  }

  /** The time of the gateway in Unix seconds, if the problem tells it. */
  get serverTime() {
    const { server_time } = this.problem;
    if (typeof server_time !== "number" || !Number.isInteger(server_time)) return null;
    return server_time >= 0 && server_time < 2 ** 40 ? server_time : null;
  }
}
