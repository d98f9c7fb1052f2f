/** Paths and queries of the HTTP interface. */
/** @param {string} text */
export declare function segmentOf(text: string): string;
/** @param {string} board */
export declare function boardPath(board: string): string;
/** @param {string} submission */
export declare function submissionPath(submission: string): string;
/**
 * @param {string} board
 * @param {string} player
 */
export declare function entryPath(board: string, player: string): string;
/** @param {Record<string, unknown>} parameters */
export declare function withoutNone(parameters: Record<string, unknown>): {
    [k: string]: unknown;
};
/**
 * Returns the query of those parameters that have a value, with its question mark.
 * @param {Record<string, unknown>} parameters
 */
export declare function queryOf(parameters: Record<string, unknown>): string;
