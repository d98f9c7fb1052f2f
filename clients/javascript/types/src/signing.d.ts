/** HTTP message signatures (RFC 9421) in the gateway's profile: no clock, no randomness, no requests. */
export type SignedRequest = {
    method: string;
    authority: string;
    path: string;
    query?: string;
    contentType?: string;
    body: Uint8Array;
    key: string;
    algorithm?: "hmac-sha256" | "ed25519";
    created: number;
    expires: number;
    nonce: string;
    keyid: string;
    tag?: string;
    alg?: string | null;
};
/**
 * What is signed, and how. `authority` is the host in lower case, with its port unless that is the scheme's own;
 * `query` has no question mark. `key` is base64: the run's, or the 32 bytes of an Ed25519 key. `created` and
 * `expires` are Unix seconds. With null for `alg` the signature does not name its algorithm.
 * @typedef {object} SignedRequest
 * @property {string} method
 * @property {string} authority
 * @property {string} path
 * @property {string} [query]
 * @property {string} [contentType]
 * @property {Uint8Array} body
 * @property {string} key
 * @property {"hmac-sha256" | "ed25519"} [algorithm]
 * @property {number} created
 * @property {number} expires
 * @property {string} nonce
 * @property {string} keyid
 * @property {string} [tag]
 * @property {string | null} [alg]
 */
/**
 * Returns the header fields that sign a request.
 * @param {SignedRequest} request
 * @returns {Promise<Record<string, string>>}
 */
export declare function sign(request: SignedRequest): Promise<Record<string, string>>;
/**
 * Returns the text to sign (RFC 9421, section 2.5).
 * @param {SignedRequest} request
 * @param {string} digest the Content-Digest field of the body
 * @returns {string}
 */
export declare function signatureBase(request: SignedRequest, digest: string): string;
/**
 * Returns the Content-Digest field of a body (RFC 9530).
 * @param {Uint8Array} body
 * @returns {Promise<string>}
 */
export declare function contentDigest(body: Uint8Array): Promise<string>;
