/** Bytes, base64, hexadecimal and digests. */

/** Bytes whose buffer is their own, as WebCrypto and fetch take them. @typedef {Uint8Array<ArrayBuffer>} Bytes */

/**
 * Throws on a page that may not use WebCrypto: a browser offers it on https and on localhost only.
 * @param {string} task
 */
export function refuseInsecure(task) {
  if (!globalThis.crypto?.subtle) throw new Error(`${task} needs a secure page: use https or localhost.`);
}

/**
 * Returns a text in UTF-8.
 * @param {string} text
 * @returns {Bytes}
 */
export function utf8(text) {
  return new TextEncoder().encode(text);
}

/**
 * Returns the SHA-256 of bytes.
 * @param {Uint8Array} bytes
 * @returns {Promise<Bytes>}
 */
export async function sha256(bytes) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", /** @type {Bytes} */ (bytes)));
}

/**
 * Returns bytes as hexadecimal digits in lower case.
 * @param {Uint8Array} bytes
 * @returns {string}
 */
export function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Returns bytes in base64, padded.
 * @param {Uint8Array} bytes
 * @returns {string}
 */
export function toBase64(bytes) {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary);
}

/**
 * Returns the bytes of a text in base64. Throws if it is none.
 * @param {string} text
 * @returns {Bytes}
 */
export function fromBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
