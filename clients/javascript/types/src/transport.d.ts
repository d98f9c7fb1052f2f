/** How requests reach a gateway. Engines and tests may bring a transport of their own. */
import type { Bytes } from "./encoding.js";
export type Request = {
    method: string;
    url: string;
    headers: Record<string, string>;
    body?: Uint8Array;
    timeoutMs: number;
};
export type Answer = {
    status: number;
    headers: Record<string, string>;
    body: Bytes;
};
export type Transport = {
    send: (request: Request) => Promise<Answer>;
    stream?: (request: StreamRequest) => Promise<Stream>;
};
export type StreamRequest = {
    url: string;
    headers: Record<string, string>;
    signal: AbortSignal;
};
export type Stream = {
    status: number;
    headers: Record<string, string>;
    chunks: AsyncIterable<Uint8Array>;
};
/** @import { Bytes } from "./encoding.js" */
/**
 * A request; `timeoutMs` is the time for the whole exchange.
 * @typedef {{method: string, url: string, headers: Record<string, string>, body?: Uint8Array, timeoutMs: number}} Request
 */
/**
 * An answer; `headers` have names in lower case.
 * @typedef {{status: number, headers: Record<string, string>, body: Bytes}} Answer
 */
/**
 * Sends requests. `send` throws `NoAnswer` if there was no whole answer. `stream` begins a feed; without it, feeds
 * need an `EventSource`.
 * @typedef {object} Transport
 * @property {(request: Request) => Promise<Answer>} send
 * @property {(request: StreamRequest) => Promise<Stream>} [stream]
 */
/** @typedef {{url: string, headers: Record<string, string>, signal: AbortSignal}} StreamRequest */
/** @typedef {{status: number, headers: Record<string, string>, chunks: AsyncIterable<Uint8Array>}} Stream */
/** No whole answer came. */
export declare class NoAnswer extends Error {
    wasSent: boolean;
    /**
     * @param {string} message
     * @param {boolean} wasSent false only if the request certainly did not reach anybody
     */
    constructor(message: string, wasSent?: boolean);
}
/** Sends by `fetch`, as browsers and Node have it. @implements {Transport} */
export declare class FetchTransport implements Transport {
    /**
     * @param {Request} request
     * @returns {Promise<Answer>}
     */
    send({ method, url, headers, body, timeoutMs }: Request): Promise<Answer>;
    /**
     * @param {StreamRequest} request
     * @returns {Promise<Stream>}
     */
    stream({ url, headers, signal }: StreamRequest): Promise<Stream>;
}
