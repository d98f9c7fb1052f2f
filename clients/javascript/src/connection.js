/** Requests to one gateway: signed or not, sent again where that is safe, on the gateway's clock. */

import { refuseInsecure, sha256, toBase64, toHex, utf8 } from "./encoding.js";
import { ScoregateError } from "./errors.js";
import { sign } from "./signing.js";
import { FetchTransport, NoAnswer } from "./transport.js";

/** @import { Bytes } from "./encoding.js" */
/** @import { Problem } from "./errors.js" */
/** @import { Answer, Transport } from "./transport.js" */

const ATTEMPTS = 6;
const ATTEMPT_MS = 15_000;
const DOWNLOAD_MS = 120_000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;
const LONGEST_ASKED_S = 60;
const SIGNATURE_LIFE_S = 300;
const TO_ARRIVE_S = 5;
const REPEATED = new Set([408, 425, 429, 500, 502, 503, 504]);
const REFUSED_BEFORE_ANYTHING_HAPPENED = new Set([429, 503]);

/**
 * `transport` sends the requests. A request that is safe to repeat is tried `attempts` times (6). The others replace
 * the environment in tests: `now` in milliseconds, `wait` for milliseconds, `random` from 0 to 1, `nonce`.
 * @typedef {object} ConnectionOptions
 * @property {Transport} [transport]
 * @property {number} [attempts]
 * @property {() => number} [now]
 * @property {(ms: number) => Promise<void>} [wait]
 * @property {() => number} [random]
 * @property {() => string} [nonce]
 */

/** Which key signs, as an opened run has it. @typedef {{ticket: string, key: string}} RunKey */

/** @typedef {{[member: string]: any}} Document the JSON object of an answer */

export class Connection {
  #base;
  #nonce;
  #random;
  #clockOffset_s = 0;

  /**
   * @param {string} baseUrl the URL of the gateway, without "/v1"
   * @param {ConnectionOptions} options
   */
  constructor(baseUrl, options) {
    this.#base = addressOf(baseUrl);
    this.transport = options.transport ?? new FetchTransport();
    this.attempts = options.attempts ?? ATTEMPTS;
    this.now = options.now ?? (() => Date.now());
    this.wait = options.wait ?? ((ms) => new Promise((resume) => setTimeout(resume, ms)));
    this.#random = options.random ?? Math.random;
    this.#nonce = options.nonce ?? randomNonce;
  }

  /** The time of the gateway in Unix seconds, as far as it is known. */
  get now_s() {
    return this.now() / 1000 + this.#clockOffset_s;
  }

  /** @param {string} path */
  url(path) {
    return new URL(this.#base.pathname.replace(/\/$/, "") + path, this.#base);
  }

  /**
   * Sends a request and returns the JSON object of its answer, which has these members.
   * @param {string} method
   * @param {string} path
   * @param {{headers?: Record<string, string>, body?: Uint8Array, isRepeatable?: boolean, attempts?: number,
   *   has?: string[]}} [request]
   * @returns {Promise<Document>}
   */
  async call(method, path, { headers = {}, body, isRepeatable = true, attempts, has = [] } = {}) {
    const request = { method, url: this.url(path).href, headers, body, timeoutMs: ATTEMPT_MS };
    const exchange = async () => documentOf(await this.#exchange(request), has, this.now_s);
    return this.#untilAnswered(exchange, { isRepeatable, attempts });
  }

  /**
   * Sends a JSON text that a run's key signs. Signs anew if the clock was off, and if a signature runs out.
   * @param {string} path
   * @param {string} text
   * @param {RunKey} run
   * @param {string[]} has
   * @param {number} [attempts]
   * @returns {Promise<Document>}
   */
  async callSigned(path, text, run, has, attempts) {
    const url = this.url(path), body = utf8(text);
    let headers = await this.#signed(url, body, run), expires_s = this.now_s + SIGNATURE_LIFE_S, isSetRight = false;
    const exchange = async () => {
      if (this.now_s > expires_s - TO_ARRIVE_S) await signAgain();
      const request = { method: "POST", url: url.href, headers, body, timeoutMs: ATTEMPT_MS };
      return documentOf(await this.#exchange(request), has, this.now_s);
    };
    const signAgain = async () => {
      headers = await this.#signed(url, body, run);
      expires_s = this.now_s + SIGNATURE_LIFE_S;
    };
    for (;;) {
      try {
        return await this.#untilAnswered(exchange, { attempts });
      } catch (error) {
        if (isSetRight || !this.#setClock(error)) throw error;
        isSetRight = true;
        await signAgain();
      }
    }
  }

  /**
   * Downloads a file that has this SHA-256, again if it does not arrive whole.
   * @param {string} path
   * @param {string} digest 64 hexadecimal digits
   * @returns {Promise<Bytes>}
   */
  download(path, digest) {
    const request = { method: "GET", url: this.url(path).href, headers: {}, timeoutMs: DOWNLOAD_MS };
    return this.#untilAnswered(async () => {
      const answer = await this.#exchange(request);
      if (answer.status !== 200) throw refusalOf(answer, this.now_s);
      if (toHex(await sha256(answer.body)) === digest) return answer.body;
      throw new ScoregateError(0, { title: "damaged file", detail: "The file did not arrive whole." });
    });
  }

  /** Returns the milliseconds to wait after so many failures: they double, and are never the same for two clients. */
  backOff_ms(/** @type {number} */ failures, longest_ms = LONGEST_WAIT_MS) {
    return Math.min(FIRST_WAIT_MS * 2 ** (failures - 1), longest_ms) * (0.5 + this.#random() / 2);
  }

  /**
   * @param {import("./transport.js").Request} request
   * @returns {Promise<Answer>}
   */
  async #exchange(request) {
    try {
      return await this.transport.send(request);
    } catch (error) {
      throw unreached(error);
    }
  }

  /**
   * @template Result
   * @param {() => Promise<Result>} exchange
   * @param {{isRepeatable?: boolean, attempts?: number}} [how]
   * @returns {Promise<Result>}
   */
  async #untilAnswered(exchange, { isRepeatable = true, attempts = this.attempts } = {}) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await exchange();
      } catch (error) {
        if (!(error instanceof ScoregateError)) throw error;
        const isTooLong = (error.retryAfter ?? 0) > LONGEST_ASKED_S;
        if (attempt >= attempts || isTooLong || !isWorthRepeating(error, isRepeatable)) throw error;
        await this.wait(error.retryAfter === null ? this.backOff_ms(attempt) : error.retryAfter * 1000);
      }
    }
  }

  /** @param {unknown} error */
  #setClock(error) {
    if (!(error instanceof ScoregateError) || error.reason !== "signature-expired") return false;
    if (!error.isFromGateway || error.status !== 401 || error.serverTime === null) return false;
    this.#clockOffset_s = error.serverTime - this.now() / 1000;
    return true;
  }

  /**
   * @param {URL} url
   * @param {Uint8Array} body
   * @param {RunKey} run
   */
  #signed(url, body, { key, ticket }) {
    refuseInsecure("Signing");
    const created = Math.floor(this.now_s);
    return sign({
      method: "POST",
      authority: url.host,
      path: url.pathname,
      query: url.search.slice(1),
      body,
      key,
      created,
      expires: created + SIGNATURE_LIFE_S,
      nonce: this.#nonce(),
      keyid: ticket,
    });
  }
}

/**
 * Returns the address of a gateway. Throws a TypeError for what is none.
 * @param {string} baseUrl
 */
function addressOf(baseUrl) {
  let address = null;
  try {
    address = new URL(baseUrl);
  } catch {
    // No address at all is refused like one of something else.
  }
  if (address && /^https?:$/.test(address.protocol)) return address;
  throw new TypeError(`baseUrl: expected an address that begins with http:// or https:// (given: ${baseUrl})`);
}

/**
 * Returns the error that stands for no answer.
 * @param {unknown} error
 */
export function unreached(error) {
  if (!(error instanceof NoAnswer)) throw error;
  const detail = `The leaderboard cannot be reached (${error.message}).`;
  return new ScoregateError(0, { title: "no answer", detail }, { wasSent: error.wasSent });
}

/**
 * Returns the error that stands for a refusal, or for an answer of something else.
 * @param {{status: number, headers: Record<string, string>, body: Uint8Array}} answer
 * @param {number} now_s
 */
export function refusalOf({ status, headers, body }, now_s) {
  const problem = /** @type {Problem} */ (parsed(body) ?? {});
  const isProblem = /^application\/problem\+json\s*(;|$)/i.test(headers["content-type"] ?? "");
  return new ScoregateError(status, problem, { retryAfter: retryAfter_s(headers["retry-after"], now_s), isProblem });
}

/**
 * Returns the JSON object of an answer, if it has these members.
 * @param {Answer} answer
 * @param {string[]} has
 * @param {number} now_s
 * @returns {Document}
 */
function documentOf(answer, has, now_s) {
  if (answer.status < 200 || answer.status >= 300) throw refusalOf(answer, now_s);
  const document = parsed(answer.body);
  if (document !== null && has.every((member) => isMember(document, member))) return document;
  const detail = "The answer is not one of a leaderboard. Something between may have answered, such as a login page.";
  throw new ScoregateError(answer.status, { title: "no answer of a gateway", detail });
}

/**
 * @param {Document} document
 * @param {string} member "name" for a text, "name[member]" for a list of objects that have this text
 */
function isMember(document, member) {
  const [name, ofEach] = member.split(/[[\]]/);
  if (ofEach === undefined) return typeof document[name] === "string";
  return Array.isArray(document[name]) && document[name].every((each) => typeof each?.[ofEach] === "string");
}

/**
 * @param {Uint8Array} body
 * @returns {Document | null}
 */
function parsed(body) {
  try {
    const document = JSON.parse(new TextDecoder().decode(body));
    return document !== null && typeof document === "object" && !Array.isArray(document) ? document : null;
  } catch {
    return null;
  }
}

/**
 * @param {ScoregateError} error
 * @param {boolean} isRepeatable
 */
function isWorthRepeating({ status, wasSent }, isRepeatable) {
  if (status === 0) return isRepeatable || !wasSent;
  return (isRepeatable ? REPEATED : REFUSED_BEFORE_ANYTHING_HAPPENED).has(status);
}

/**
 * Retry-After is a number of seconds or a date (RFC 9110, section 10.2.3).
 * @param {string | undefined} value
 * @param {number} now_s
 */
function retryAfter_s(value, now_s) {
  if (!value) return null;
  if (/^\d{1,9}$/.test(value)) return Number(value);
  const at_ms = Date.parse(value);
  return Number.isNaN(at_ms) ? null : Math.max(at_ms / 1000 - now_s, 0);
}

function randomNonce() {
  const bytes = crypto.getRandomValues(new Uint8Array(18));
  return toBase64(bytes).replaceAll("+", "-").replaceAll("/", "_");
}
