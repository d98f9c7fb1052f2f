/** What anyone may read of a gateway: boards, families, assets, live feeds. */
import { Connection } from "./connection.js";
import { Feed } from "./live.js";
import type { ConnectionOptions, Document } from "./connection.js";
import type { Bytes } from "./encoding.js";
import type { FeedEvent } from "./live.js";
import type { Entry, EntryPage, Family, Standing } from "./documents.js";
export type FeedFilter = {
    window?: string;
    players?: string[];
    friends?: boolean;
    events?: string[];
    mode?: "all" | "newest";
    after?: string | null;
};
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
export declare class BoardReads {
    /** @protected */
    connection: Connection;
    /** The player's token. @type {string | null} */
    token: string | null;
    /**
     * @param {string} baseUrl the URL of the gateway, without "/v1"
     * @param {{token?: string | null} & ConnectionOptions} [options]
     */
    constructor(baseUrl: string, { token, ...options }?: {
        token?: string | null;
    } & ConnectionOptions);
    /**
     * Reads a page of the boards, by name.
     * @param {{limit?: number, cursor?: string | null}} [page]
     * @returns {Promise<{boards: Document[], next: string | null}>}
     */
    boards({ limit, cursor }?: {
        limit?: number;
        cursor?: string | null;
    }): Promise<{
        boards: Document[];
        next: string | null;
    }>;
    /**
     * Describes a board.
     * @param {string} board
     * @returns {Promise<Document>}
     */
    board(board: string): Promise<Document>;
    /**
     * Reads a page of a board, best first. Pass `next` or `previous` as `cursor` for the page after or before it;
     * it is null where there is none. `friends` needs the player's token.
     * @param {string} board
     * @param {{window?: string, offset?: number, limit?: number, cursor?: string | null, ranks?: string,
     *   friends?: boolean, players?: string[], segment?: string}} [page]
     * @returns {Promise<EntryPage>}
     */
    entries(board: string, { window, offset, limit, cursor, ranks, friends, players, segment }?: {
        window?: string;
        offset?: number;
        limit?: number;
        cursor?: string | null;
        ranks?: string;
        friends?: boolean;
        players?: string[];
        segment?: string;
    }): Promise<EntryPage>;
    /**
     * Reads the entry of a player, null if there is none.
     * @param {string} board
     * @param {string} player
     * @param {{window?: string, ranks?: string}} [options]
     * @returns {Promise<Entry | null>}
     */
    entry(board: string, player: string, { window, ranks }?: {
        window?: string;
        ranks?: string;
    }): Promise<Entry | null>;
    /**
     * Reads the entries around a player, best first.
     * @param {string} board
     * @param {string} player
     * @param {{radius?: number, window?: string, ranks?: string, friends?: boolean, segment?: string}} [options]
     * @returns {Promise<EntryPage>}
     */
    around(board: string, player: string, { radius, window, ranks, friends, segment }?: {
        radius?: number;
        window?: string;
        ranks?: string;
        friends?: boolean;
        segment?: string;
    }): Promise<EntryPage>;
    /**
     * Lists the families of boards, all pages.
     * @returns {Promise<Family[]>}
     */
    families(): Promise<Family[]>;
    /**
     * Reads a page of a family's boards. A filtered page may be short, or even empty.
     * @param {string} family
     * @param {{order?: "name" | "newest" | "played", limit?: number, cursor?: string | null,
     *   metadata?: Record<string, string | number | boolean>}} [page] `metadata` are the values to filter by
     * @returns {Promise<{boards: Document[], next: string | null}>}
     */
    familyBoards(family: string, { order, limit, cursor, metadata }?: {
        order?: "name" | "newest" | "played";
        limit?: number;
        cursor?: string | null;
        metadata?: Record<string, string | number | boolean>;
    }): Promise<{
        boards: Document[];
        next: string | null;
    }>;
    /**
     * Reads a page of the boards of a family on which a player stands, by name of the board.
     * @param {string} family
     * @param {string} player
     * @param {{window?: string, limit?: number, cursor?: string | null}} [page]
     * @returns {Promise<{window: string, standings: Standing[], next: string | null}>}
     */
    standings(family: string, player: string, { window, limit, cursor }?: {
        window?: string;
        limit?: number;
        cursor?: string | null;
    }): Promise<{
        window: string;
        standings: Standing[];
        next: string | null;
    }>;
    /**
     * Reads the entries of a player on up to 100 boards, in their order. `status` is `ranked`, `unranked`, `no-board`,
     * `no-window` or `rebuilding`; `standing` is null unless it is `ranked`.
     * @param {string} player
     * @param {string[]} boards
     * @param {{window?: string}} [options]
     * @returns {Promise<{board: string, status: string, window: string | null, standing: Standing | null}[]>}
     */
    entriesOn(player: string, boards: string[], { window }?: {
        window?: string;
    }): Promise<{
        board: string;
        status: string;
        window: string | null;
        standing: Standing | null;
    }[]>;
    /**
     * Downloads the asset of a board, such as its map, and compares its digest. Keep it: it never changes.
     * @param {string} board
     * @param {string} digest `asset` of the board or the run: "sha256:" and 64 hexadecimal digits
     * @returns {Promise<Bytes>}
     */
    asset(board: string, digest: string): Promise<Bytes>;
    /**
     * Yields the events of a board's live feed, until the loop ends or the signal aborts. It reconnects after the last
     * id. Read the board at each `begin` and `reset`. `friends` needs the player's token.
     * @param {string} board
     * @param {FeedFilter & {signal?: AbortSignal, onConnection?: (isOpen: boolean) => void}} [options]
     * @returns {AsyncGenerator<FeedEvent, void>}
     */
    watch(board: string, { signal, onConnection, ...filter }?: FeedFilter & {
        signal?: AbortSignal;
        onConnection?: (isOpen: boolean) => void;
    }): AsyncGenerator<FeedEvent, void>;
    /**
     * Calls `onStanding` with each change of the board as it happens, until the returned function is called.
     * @param {string} board
     * @param {(standing: Document) => void} onStanding
     * @param {(isOpen: boolean) => void} [onConnection] is called when the feed opens and when it is lost, after which
     *   it reconnects by itself, with what has changed meanwhile
     * @returns {() => void}
     */
    live(board: string, onStanding: (standing: Document) => void, onConnection?: (isOpen: boolean) => void): () => void;
    /**
     * @protected
     * @param {string} board
     * @param {FeedFilter} filter
     * @param {import("./live.js").FeedHandlers} handlers
     */
    protected feed(board: string, { window, players, friends, events, mode, after }: FeedFilter, handlers: import("./live.js").FeedHandlers): Feed;
    /**
     * @protected
     * @param {string} path
     * @param {string[]} has
     * @param {"anyone" | "viewer" | "player"} [as] whether the token is sent: never, so that caches can help; if there
     *   is one, where what is seen may differ by who looks; or always
     */
    protected read(path: string, has: string[], as?: "anyone" | "viewer" | "player"): Promise<Document>;
    /** @protected */
    protected bearer(): {
        Authorization: string;
    };
}
