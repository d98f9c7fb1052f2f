/** The live feed of a board, over as many connections as it takes. */

import { refusalOf } from "./connection.js";

/** @import { Connection } from "./connection.js" */

const KINDS = ["begin", "reset", "standing", "rank", "overtaken"];
const LONGEST_WAIT_MS = 60_000;

/** A connection that is silent for longer is lost: the gateway sends something every 15 seconds. */
const SILENCE_MS = 45_000;

/** An event has about half a kilobyte. */
const LONGEST_LINE = 2 ** 18;

/**
 * An event: `begin` or `reset` (read the board now), `standing`, `rank` or `overtaken`. Resume from `id` once
 * everything up to this event is handled; it is null if the change has more events.
 * @typedef {{event: string, id: string | null, data: any}} FeedEvent
 */

/**
 * @typedef {object} FeedHandlers
 * @property {(event: FeedEvent) => void} onEvent
 * @property {(isOpen: boolean) => void} [onConnection] called when the feed opens and when it is lost
 */

/** A feed of a board, which reconnects after the last id until it is closed. */
export class Feed {
  #connection;
  #path;
  #headers;
  #handlers;
  /** @type {string | null} */
  #last;
  #failures = 0;
  #isClosed = false;
  #disconnect = () => {};

  /**
   * @param {Connection} connection
   * @param {{path: string, query: Record<string, string>, headers: Record<string, string>, after?: string | null}} target
   * @param {FeedHandlers} handlers
   */
  constructor(connection, { path, query, headers, after = null }, handlers) {
    this.#connection = connection;
    this.#path = (/** @type {string | null} */ last) =>
      `${path}?${new URLSearchParams({ ...query, ...(last && { after: last }) })}`.replace(/\?$/, "");
    this.#headers = headers;
    this.#handlers = handlers;
    this.#last = after;
    this.#connect();
  }

  close() {
    this.#isClosed = true;
    this.#disconnect();
  }

  #connect() {
    if (this.#isClosed) return;
    const needsHeaders = Object.keys(this.#headers).length > 0;
    if (globalThis.EventSource && !needsHeaders) this.#listen(this.#connection.url(this.#path(this.#last)));
    else void this.#read(this.#connection.url(this.#path(this.#last)));
  }

  /** @param {URL} url */
  #listen(url) {
    const source = new EventSource(url);
    this.#disconnect = () => source.close();
    source.addEventListener("open", () => this.#opened());
    source.addEventListener("error", () => {
      this.#handlers.onConnection?.(false);
      // A browser connects again after a lost connection, but not after an answer such as 503 (HTML, 9.2.3).
      if (source.readyState === EventSource.CLOSED) this.#connectLater();
    });
    for (const kind of KINDS) {
      source.addEventListener(kind, ({ data, lastEventId }) => this.#take(kind, lastEventId || null, data));
    }
  }

  /** @param {URL} url */
  async #read(url) {
    const { transport } = this.#connection;
    if (!transport.stream) throw new Error("This transport has no streams, and there is no EventSource.");
    const ending = new AbortController();
    this.#disconnect = () => ending.abort();
    let silence = setTimeout(this.#disconnect, SILENCE_MS);
    try {
      const headers = { Accept: "text/event-stream", ...this.#headers };
      const { status, headers: answered, chunks } = await transport.stream({ url: url.href, headers, signal: ending.signal });
      if (status !== 200 || !answered["content-type"]?.startsWith("text/event-stream")) {
        throw refusalOf({ status, headers: answered, body: new Uint8Array() }, this.#connection.now_s);
      }
      this.#opened();
      const parser = new EventParser((kind, id, data) => this.#take(kind, id, data));
      for await (const chunk of chunks) {
        clearTimeout(silence);
        if (this.#isClosed) break;
        silence = setTimeout(this.#disconnect, SILENCE_MS);
        parser.feed(chunk);
      }
    } catch {
      // Refused, lost or junk: it is tried again, and the caller hears that it is not open.
    }
    clearTimeout(silence);
    ending.abort();
    if (this.#isClosed) return;
    this.#handlers.onConnection?.(false);
    this.#connectLater();
  }

  #opened() {
    this.#failures = 0;
    this.#handlers.onConnection?.(true);
  }

  #connectLater() {
    if (this.#isClosed) return;
    this.#failures += 1;
    this.#connection.wait(this.#connection.backOff_ms(this.#failures, LONGEST_WAIT_MS)).then(() => this.#connect());
  }

  /**
   * @param {string} kind "" for an id without an event
   * @param {string | null} id
   * @param {string} data
   */
  #take(kind, id, data) {
    if (this.#isClosed) return;
    if (id) this.#last = id;
    if (KINDS.includes(kind)) this.#handlers.onEvent({ event: kind, id, data: JSON.parse(data) });
  }
}

/** Takes events out of a stream (HTML, 9.2.6), as far as the gateway writes them. */
class EventParser {
  #decoder = new TextDecoder();
  #rest = "";
  #kind = "";
  #data = "{}";
  /** @type {string | null} */
  #id = null;
  #onEvent;

  /** @param {(kind: string, id: string | null, data: string) => void} onEvent */
  constructor(onEvent) {
    this.#onEvent = onEvent;
  }

  /** @param {Uint8Array} chunk */
  feed(chunk) {
    const lines = (this.#rest + this.#decoder.decode(chunk, { stream: true })).split("\n");
    this.#rest = lines.pop() ?? "";
    if (this.#rest.length > LONGEST_LINE) throw new Error("a line of the feed is too long");
    for (const line of lines) this.#line(line.replace(/\r$/, ""));
  }

  /** @param {string} line */
  #line(line) {
    const at = line.indexOf(":");
    const field = at < 0 ? line : line.slice(0, at), value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
    if (field === "event") this.#kind = value;
    else if (field === "id") this.#id = value;
    else if (field === "data") this.#data = value;
    else if (line === "") {
      if (this.#kind || this.#id !== null) this.#onEvent(this.#kind, this.#id, this.#data);
      this.#kind = "";
      this.#data = "{}";
      this.#id = null;
    }
  }
}
