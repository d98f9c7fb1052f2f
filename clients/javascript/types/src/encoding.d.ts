/** Bytes, base64, hexadecimal and digests. */
export type Bytes = Uint8Array<ArrayBuffer>;
/** Bytes whose buffer is their own, as WebCrypto and fetch take them. @typedef {Uint8Array<ArrayBuffer>} Bytes */
/**
 * Throws on a page that may not use WebCrypto: a browser offers it on https and on localhost only.
 * @param {string} task
 */
export declare function refuseInsecure(task: string): void;
/**
 * Returns a text in UTF-8.
 * @param {string} text
 * @returns {Bytes}
 */
export declare function utf8(text: string): Bytes;
/**
 * Returns the SHA-256 of bytes.
 * @param {Uint8Array} bytes
 * @returns {Promise<Bytes>}
 */
export declare function sha256(bytes: Uint8Array): Promise<Bytes>;
/**
 * Returns bytes as hexadecimal digits in lower case.
 * @param {Uint8Array} bytes
 * @returns {string}
 */
export declare function toHex(bytes: Uint8Array): string;
/**
 * Returns bytes in base64, padded.
 * @param {Uint8Array} bytes
 * @returns {string}
 */
export declare function toBase64(bytes: Uint8Array): string;
/**
 * Returns the bytes of a text in base64. Throws if it is none.
 * @param {string} text
 * @returns {Bytes}
 */
export declare function fromBase64(text: string): Bytes;
