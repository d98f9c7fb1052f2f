/** The live feed of a board, over as many connections as it takes. */
import type { Connection } from "./connection.js";
export type FeedEvent = {
    event: string;
    id: string | null;
    data: any;
};
export type FeedHandlers = {
    onEvent: (event: FeedEvent) => void;
    /**
     * called when the feed opens and when it is lost
     */
    onConnection?: (isOpen: boolean) => void;
};
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
export declare class Feed {
    #private;
    /**
     * @param {Connection} connection
     * @param {{path: string, query: Record<string, string>, headers: Record<string, string>, after?: string | null}} target
     * @param {FeedHandlers} handlers
     */
    constructor(connection: Connection, { path, query, headers, after }: {
        path: string;
        query: Record<string, string>;
        headers: Record<string, string>;
        after?: string | null;
    }, handlers: FeedHandlers);
    close(): void;
}
