/** How requests reach a gateway. Engines and tests may bring a transport of their own. */

/** @import { Bytes } from "./encoding.js" */

/**
 * A request; `timeoutMs` is the time for the whole exchange.
 * @typedef {{method: string, url: string, headers: Record<string, string>, body?: Uint8Array, timeoutMs: number}} Request
 */

/**
 * An answer; `headers` have names in lower case.
 * @typedef {{status: number, headers: Record<string, string>, body: Bytes}} Answer
 */

/**
 * Sends requests. `send` throws `NoAnswer` if there was no whole answer. `stream` begins a feed; without it, feeds
 * need an `EventSource`.
 * @typedef {object} Transport
 * @property {(request: Request) => Promise<Answer>} send
 * @property {(request: StreamRequest) => Promise<Stream>} [stream]
 */

/** @typedef {{url: string, headers: Record<string, string>, signal: AbortSignal}} StreamRequest */
/** @typedef {{status: number, headers: Record<string, string>, chunks: AsyncIterable<Uint8Array>}} Stream */

/** No whole answer came. */
export class NoAnswer extends Error {
  /**
   * @param {string} message
   * @param {boolean} wasSent false only if the request certainly did not reach anybody
   */
  constructor(message, wasSent = true) {
    super(message);
    this.name = "NoAnswer";
    this.wasSent = wasSent;
  }
}

/** More than any answer of a gateway has: an asset has up to 8 MiB. */
const LONGEST_ANSWER_BYTES = 16 * 2 ** 20;

// A browser does not tell them apart, so there a request that failed may always have been sent.
const NOT_CONNECTED = new Set([
  "ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT",
]);

/** What a redirect is reported as where its status is hidden, which it is in browsers. */
const REDIRECT = 302;

/** Sends by `fetch`, as browsers and Node have it. @implements {Transport} */
export class FetchTransport {
  /**
   * @param {Request} request
   * @returns {Promise<Answer>}
   */
  async send({ method, url, headers, body, timeoutMs }) {
    const signal = AbortSignal.timeout(timeoutMs);
    try {
      const response = await fetch(url, { ...FETCHED, method, headers, body: /** @type {Bytes} */ (body), signal });
      return { status: statusOf(response), headers: headersOf(response), body: await bodyOf(response) };
    } catch (error) {
      throw noAnswer(error);
    }
  }

  /**
   * @param {StreamRequest} request
   * @returns {Promise<Stream>}
   */
  async stream({ url, headers, signal }) {
    try {
      const response = await fetch(url, { ...FETCHED, headers, signal });
      return { status: statusOf(response), headers: headersOf(response), chunks: chunksOf(response) };
    } catch (error) {
      throw noAnswer(error);
    }
  }
}

// A redirect is not followed: a signature is for one address. A page's cookies are of no use to a gateway.
const FETCHED = /** @type {const} */ ({ credentials: "omit", redirect: "manual" });

/** @param {Response} response */
function statusOf(response) {
  return response.type === "opaqueredirect" ? REDIRECT : response.status;
}

/** @param {Response} response */
function headersOf(response) {
  return Object.fromEntries(response.headers);
}

/**
 * @param {Response} response
 * @returns {Promise<Bytes>}
 */
async function bodyOf(response) {
  const parts = [];
  let length = 0;
  for await (const part of chunksOf(response)) {
    length += part.length;
    if (length > LONGEST_ANSWER_BYTES) throw new NoAnswer("the answer is too long");
    parts.push(part);
  }
  const body = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    body.set(part, at);
    at += part.length;
  }
  return body;
}

/**
 * Yields the parts of a body; browsers cannot all iterate over one.
 * @param {Response} response
 */
async function* chunksOf(response) {
  const reader = response.body?.getReader();
  if (!reader) return;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** @param {unknown} error */
function noAnswer(error) {
  if (error instanceof NoAnswer) return error;
  const { message, cause } = /** @type {Error & {cause?: {code?: string}}} */ (error);
  return new NoAnswer(message, !NOT_CONNECTED.has(cause?.code ?? ""));
}
