/** Requests to one gateway: signed or not, sent again where that is safe, on the gateway's clock. */
import { ScoregateError } from "./errors.js";
import type { Bytes } from "./encoding.js";
import type { Transport } from "./transport.js";
export type ConnectionOptions = {
    transport?: Transport;
    attempts?: number;
    now?: () => number;
    wait?: (ms: number) => Promise<void>;
    random?: () => number;
    nonce?: () => string;
};
export type RunKey = {
    ticket: string;
    key: string;
};
export type Document = {
    [member: string]: any;
};
/**
 * `transport` sends the requests. A request that is safe to repeat is tried `attempts` times (6). The others replace
 * the environment in tests: `now` in milliseconds, `wait` for milliseconds, `random` from 0 to 1, `nonce`.
 * @typedef {object} ConnectionOptions
 * @property {Transport} [transport]
 * @property {number} [attempts]
 * @property {() => number} [now]
 * @property {(ms: number) => Promise<void>} [wait]
 * @property {() => number} [random]
 * @property {() => string} [nonce]
 */
/** Which key signs, as an opened run has it. @typedef {{ticket: string, key: string}} RunKey */
/** @typedef {{[member: string]: any}} Document the JSON object of an answer */
export declare class Connection {
    #private;
    transport: Transport;
    attempts: number;
    now: () => number;
    wait: (ms: number) => Promise<void>;
    /**
     * @param {string} baseUrl the URL of the gateway, without "/v1"
     * @param {ConnectionOptions} options
     */
    constructor(baseUrl: string, options: ConnectionOptions);
    /** The time of the gateway in Unix seconds, as far as it is known. */
    get now_s(): number;
    /** @param {string} path */
    url(path: string): URL;
    /**
     * Sends a request and returns the JSON object of its answer, which has these members.
     * @param {string} method
     * @param {string} path
     * @param {{headers?: Record<string, string>, body?: Uint8Array, isRepeatable?: boolean, attempts?: number,
     *   has?: string[]}} [request]
     * @returns {Promise<Document>}
     */
    call(method: string, path: string, { headers, body, isRepeatable, attempts, has }?: {
        headers?: Record<string, string>;
        body?: Uint8Array;
        isRepeatable?: boolean;
        attempts?: number;
        has?: string[];
    }): Promise<Document>;
    /**
     * Sends a JSON text that a run's key signs. Signs anew if the clock was off, and if a signature runs out.
     * @param {string} path
     * @param {string} text
     * @param {RunKey} run
     * @param {string[]} has
     * @param {number} [attempts]
     * @returns {Promise<Document>}
     */
    callSigned(path: string, text: string, run: RunKey, has: string[], attempts?: number): Promise<Document>;
    /**
     * Downloads a file that has this SHA-256, again if it does not arrive whole.
     * @param {string} path
     * @param {string} digest 64 hexadecimal digits
     * @returns {Promise<Bytes>}
     */
    download(path: string, digest: string): Promise<Bytes>;
    /** Returns the milliseconds to wait after so many failures: they double, and are never the same for two clients. */
    backOff_ms(/** @type {number} */ failures: number, longest_ms?: number): number;
}
/**
 * Returns the error that stands for no answer.
 * @param {unknown} error
 */
export declare function unreached(error: unknown): ScoregateError;
/**
 * Returns the error that stands for a refusal, or for an answer of something else.
 * @param {{status: number, headers: Record<string, string>, body: Uint8Array}} answer
 * @param {number} now_s
 */
export declare function refusalOf({ status, headers, body }: {
    status: number;
    headers: Record<string, string>;
    body: Uint8Array;
}, now_s: number): ScoregateError;
