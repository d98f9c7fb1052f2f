/** HTTP message signatures (RFC 9421) in the gateway's profile: no clock, no randomness, no requests. */

import { fromBase64, refuseInsecure, sha256, toBase64, utf8 } from "./encoding.js";

/** @import { Bytes } from "./encoding.js" */

const COMPONENTS = '("@method" "@authority" "@path" "@query" "content-type" "content-digest")';

// What stands before the 32 bytes of an Ed25519 key in PKCS #8 (RFC 8410, section 7).
const ED25519_PKCS8 = [48, 46, 2, 1, 0, 48, 5, 6, 3, 43, 101, 112, 4, 34, 4, 32];

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
export async function sign(request) {
  refuseInsecure("Signing");
  const digest = await contentDigest(request.body);
  const signature = await signatureOf(request, signatureBase(request, digest));
  return {
    "Content-Type": contentTypeOf(request),
    "Content-Digest": digest,
    "Signature-Input": `sg=${signatureParams(request)}`,
    Signature: `sg=:${toBase64(signature)}:`,
  };
}

/**
 * Returns the text to sign (RFC 9421, section 2.5).
 * @param {SignedRequest} request
 * @param {string} digest the Content-Digest field of the body
 * @returns {string}
 */
export function signatureBase(request, digest) {
  return [
    `"@method": ${request.method}`,
    `"@authority": ${request.authority}`,
    `"@path": ${request.path}`,
    `"@query": ?${request.query ?? ""}`,
    `"content-type": ${contentTypeOf(request)}`,
    `"content-digest": ${digest}`,
    `"@signature-params": ${signatureParams(request)}`,
  ].join("\n");
}

/**
 * Returns the Content-Digest field of a body (RFC 9530).
 * @param {Uint8Array} body
 * @returns {Promise<string>}
 */
export async function contentDigest(body) {
  return `sha-256=:${toBase64(await sha256(body))}:`;
}

/** @param {SignedRequest} request */
function signatureParams({ created, expires, nonce, keyid, algorithm = "hmac-sha256", alg = algorithm, tag = "scoregate-run" }) {
  const named = alg === null ? "" : `;alg="${alg}"`;
  return `${COMPONENTS};created=${created};expires=${expires};nonce="${nonce}";keyid="${keyid}"${named};tag="${tag}"`;
}

/** @param {SignedRequest} request */
function contentTypeOf({ contentType = "application/json" }) {
  return contentType;
}

/**
 * @param {SignedRequest} request
 * @param {string} base
 */
async function signatureOf({ algorithm = "hmac-sha256", key }, base) {
  const own = algorithm === "ed25519" ? await ed25519Key(key) : await hmacKey(key);
  return new Uint8Array(await crypto.subtle.sign(own.algorithm.name, own, utf8(base)));
}

/** @param {string} key */
function hmacKey(key) {
  return crypto.subtle.importKey("raw", fromBase64(key), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
}

/** @param {string} key */
function ed25519Key(key) {
  const pkcs8 = Uint8Array.from([...ED25519_PKCS8, ...fromBase64(key)]);
  return crypto.subtle.importKey("pkcs8", pkcs8, { name: "Ed25519" }, false, ["sign"]);
}
