/** Paths and queries of the HTTP interface. */

/** @param {string} text */
export function segmentOf(text) {
  return encodeURIComponent(text);
}

/** @param {string} board */
export function boardPath(board) {
  return `/v1/boards/${segmentOf(board)}`;
}

/** @param {string} submission */
export function submissionPath(submission) {
  return `/v1/submissions/${segmentOf(submission)}`;
}

/**
 * @param {string} board
 * @param {string} player
 */
export function entryPath(board, player) {
  return `${boardPath(board)}/entries/${segmentOf(player)}`;
}

/** @param {Record<string, unknown>} parameters */
export function withoutNone(parameters) {
  return Object.fromEntries(Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null));
}

/**
 * Returns the query of those parameters that have a value, with its question mark.
 * @param {Record<string, unknown>} parameters
 */
export function queryOf(parameters) {
  const query = String(new URLSearchParams(/** @type {Record<string, string>} */ (withoutNone(parameters))));
  return query && `?${query}`;
}
