/** What anyone may read of a gateway: boards, families, assets, live feeds. */

import { Connection } from "./connection.js";
import { refuseInsecure } from "./encoding.js";
import { ScoregateError } from "./errors.js";
import { Feed } from "./live.js";
import { boardPath, entryPath, queryOf, segmentOf, withoutNone } from "./paths.js";

/** @import { ConnectionOptions, Document } from "./connection.js" */
/** @import { Bytes } from "./encoding.js" */
/** @import { FeedEvent } from "./live.js" */
/** @import { Entry, EntryPage, Family, Standing } from "./documents.js" */

/**
 * Which events of a board: of these windows, players or friends; `mode` and `after` as in the HTTP reference.
 * @typedef {object} FeedFilter
 * @property {string} [window]
 * @property {string[]} [players]
 * @property {boolean} [friends]
 * @property {string[]} [events]
 * @property {"all" | "newest"} [mode]
 * @property {string | null} [after]
 */

/** The reads of one gateway, as a player where a token is needed. */
export class BoardReads {
  /**
   * @param {string} baseUrl the URL of the gateway, without "/v1"
   * @param {{token?: string | null} & ConnectionOptions} [options]
   */
  constructor(baseUrl, { token = null, ...options } = {}) {
    /** @protected */
    this.connection = new Connection(baseUrl, options);
    /** The player's token. @type {string | null} */
    this.token = token;
  }

  // ---- reading boards ----

  /**
   * Reads a page of the boards, by name.
   * @param {{limit?: number, cursor?: string | null}} [page]
   * @returns {Promise<{boards: Document[], next: string | null}>}
   */
  async boards({ limit, cursor } = {}) {
    return /** @type {any} */ (await this.read(`/v1/boards${queryOf({ limit, cursor })}`, ["boards[board]"]));
  }

  /**
   * Describes a board.
   * @param {string} board
   * @returns {Promise<Document>}
   */
  board(board) {
    return this.read(boardPath(board), ["board"]);
  }

  /**
   * Reads a page of a board, best first. Pass `next` or `previous` as `cursor` for the page after or before it;
   * it is null where there is none. `friends` needs the player's token.
   * @param {string} board
   * @param {{window?: string, offset?: number, limit?: number, cursor?: string | null, ranks?: string,
   *   friends?: boolean, players?: string[], segment?: string}} [page]
   * @returns {Promise<EntryPage>}
   */
  async entries(board, { window, offset, limit = 25, cursor, ranks, friends, players, segment } = {}) {
    const listed = players && players.join(",");
    const query = queryOf({ window, offset, limit, cursor, ranks, friends: friends || null, players: listed, segment });
    const path = `${boardPath(board)}/entries${query}`;
    return /** @type {EntryPage} */ (await this.read(path, ["entries[player]"], friends ? "player" : "viewer"));
  }

  /**
   * Reads the entry of a player, null if there is none.
   * @param {string} board
   * @param {string} player
   * @param {{window?: string, ranks?: string}} [options]
   * @returns {Promise<Entry | null>}
   */
  async entry(board, player, { window, ranks } = {}) {
    try {
      const path = `${entryPath(board, player)}${queryOf({ window, ranks })}`;
      return /** @type {Entry} */ (await this.read(path, ["player"], "viewer"));
    } catch (error) {
      if (error instanceof ScoregateError && error.status === 404 && error.problem.ranked === false) return null;
      throw error;
    }
  }

  /**
   * Reads the entries around a player, best first.
   * @param {string} board
   * @param {string} player
   * @param {{radius?: number, window?: string, ranks?: string, friends?: boolean, segment?: string}} [options]
   * @returns {Promise<EntryPage>}
   */
  async around(board, player, { radius, window, ranks, friends, segment } = {}) {
    const query = queryOf({ radius, window, ranks, friends: friends || null, segment });
    const path = `${entryPath(board, player)}/around${query}`;
    return /** @type {EntryPage} */ (await this.read(path, ["entries[player]"], friends ? "player" : "viewer"));
  }

  // ---- families, and one player on many boards ----

  /**
   * Lists the families of boards, all pages.
   * @returns {Promise<Family[]>}
   */
  async families() {
    const families = [];
    let cursor = null;
    do {
      /** @type {Document} */
      const page = await this.read(`/v1/families${queryOf({ cursor })}`, ["families[family]"]);
      families.push(...page.families);
      cursor = page.next;
    } while (cursor);
    return families;
  }

  /**
   * Reads a page of a family's boards. A filtered page may be short, or even empty.
   * @param {string} family
   * @param {{order?: "name" | "newest" | "played", limit?: number, cursor?: string | null,
   *   metadata?: Record<string, string | number | boolean>}} [page] `metadata` are the values to filter by
   * @returns {Promise<{boards: Document[], next: string | null}>}
   */
  async familyBoards(family, { order = "name", limit = 25, cursor = null, metadata = {} } = {}) {
    const filters = Object.entries(metadata).map(([field, value]) => [`metadata.${field}`, value]);
    const query = queryOf({ order, limit, cursor, ...Object.fromEntries(filters) });
    return /** @type {any} */ (await this.read(`/v1/families/${segmentOf(family)}/boards${query}`, ["boards[board]"]));
  }

  /**
   * Reads a page of the boards of a family on which a player stands, by name of the board.
   * @param {string} family
   * @param {string} player
   * @param {{window?: string, limit?: number, cursor?: string | null}} [page]
   * @returns {Promise<{window: string, standings: Standing[], next: string | null}>}
   */
  async standings(family, player, { window, limit = 100, cursor = null } = {}) {
    const path = `/v1/families/${segmentOf(family)}/players/${segmentOf(player)}/standings`;
    const page = await this.read(path + queryOf({ window, limit, cursor }), ["standings[board]"], "viewer");
    return /** @type {any} */ (page);
  }

  /**
   * Reads the entries of a player on up to 100 boards, in their order. `status` is `ranked`, `unranked`, `no-board`,
   * `no-window` or `rebuilding`; `standing` is null unless it is `ranked`.
   * @param {string} player
   * @param {string[]} boards
   * @param {{window?: string}} [options]
   * @returns {Promise<{board: string, status: string, window: string | null, standing: Standing | null}[]>}
   */
  async entriesOn(player, boards, { window = "alltime" } = {}) {
    const query = queryOf({ boards: boards.join(","), window });
    return (await this.read(`/v1/players/${segmentOf(player)}/entries${query}`, ["entries[board]"], "viewer")).entries;
  }

  /**
   * Downloads the asset of a board, such as its map, and compares its digest. Keep it: it never changes.
   * @param {string} board
   * @param {string} digest `asset` of the board or the run: "sha256:" and 64 hexadecimal digits
   * @returns {Promise<Bytes>}
   */
  async asset(board, digest) {
    refuseInsecure("Comparing a file with its digest");
    const name = digest.replace(/^sha256:/, "");
    return this.connection.download(`${boardPath(board)}/assets/${segmentOf(name)}`, name);
  }

  // ---- the live feed ----

  /**
   * Yields the events of a board's live feed, until the loop ends or the signal aborts. It reconnects after the last
   * id. Read the board at each `begin` and `reset`. `friends` needs the player's token.
   * @param {string} board
   * @param {FeedFilter & {signal?: AbortSignal, onConnection?: (isOpen: boolean) => void}} [options]
   * @returns {AsyncGenerator<FeedEvent, void>}
   */
  async *watch(board, { signal, onConnection, ...filter } = {}) {
    /** @type {FeedEvent[]} */
    const events = [];
    let wake = () => {};
    const onEvent = (/** @type {FeedEvent} */ event) => {
      events.push(event);
      wake();
    };
    const end = () => wake();
    const feed = this.feed(board, filter, { onEvent, onConnection });
    signal?.addEventListener("abort", end);
    try {
      while (!signal?.aborted) {
        const event = events.shift();
        if (event) yield event;
        else await new Promise((resume) => (wake = () => resume(undefined)));
      }
    } finally {
      feed.close();
      signal?.removeEventListener("abort", end);
    }
  }

  /**
   * Calls `onStanding` with each change of the board as it happens, until the returned function is called.
   * @param {string} board
   * @param {(standing: Document) => void} onStanding
   * @param {(isOpen: boolean) => void} [onConnection] is called when the feed opens and when it is lost, after which
   *   it reconnects by itself, with what has changed meanwhile
   * @returns {() => void}
   */
  live(board, onStanding, onConnection = () => {}) {
    const onEvent = (/** @type {FeedEvent} */ { event, data }) => event === "standing" && onStanding(data);
    const feed = this.feed(board, {}, { onEvent, onConnection });
    return () => feed.close();
  }

  /**
   * @protected
   * @param {string} board
   * @param {FeedFilter} filter
   * @param {import("./live.js").FeedHandlers} handlers
   */
  feed(board, { window, players, friends, events, mode, after }, handlers) {
    const given = { window, players: players?.join(","), friends: friends ? "true" : undefined, events: events?.join(","), mode };
    const query = /** @type {Record<string, string>} */ (withoutNone(given));
    return new Feed(this.connection, { path: `${boardPath(board)}/live`, query, headers: friends ? this.bearer() : {}, after }, handlers);
  }

  /**
   * @protected
   * @param {string} path
   * @param {string[]} has
   * @param {"anyone" | "viewer" | "player"} [as] whether the token is sent: never, so that caches can help; if there
   *   is one, where what is seen may differ by who looks; or always
   */
  read(path, has, as = "anyone") {
    const isSent = as === "player" || (as === "viewer" && this.token !== null);
    return this.connection.call("GET", path, { headers: isSent ? this.bearer() : {}, has });
  }

  /** @protected */
  bearer() {
    if (this.token === null) throw new Error("A token is needed: pass one, or call createPlayer first.");
    return { Authorization: `Bearer ${this.token}` };
  }
}
