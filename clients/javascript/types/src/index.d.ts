/** The Scoregate client for browsers and Node 20 or later, without dependencies. */
export { claimText, commitmentText } from "./claims.js";
export { Scoregate } from "./client.js";
export { ScoregateError } from "./errors.js";
export { IndexedDbStore } from "./indexed-db-store.js";
export { MemoryStore } from "./memory-store.js";
export { OfflineQueue } from "./queue.js";
export { Recorder, encodeRecording, recordingDigest } from "./recording.js";
export { contentDigest, sign, signatureBase } from "./signing.js";
export { FetchTransport, NoAnswer } from "./transport.js";
export type Claim = import("./claims.js").Claim;
export type Entry = import("./documents.js").Entry;
export type EntryPage = import("./documents.js").EntryPage;
export type Player = import("./documents.js").Player;
export type Receipt = import("./documents.js").Receipt;
export type Reveal = import("./documents.js").Reveal;
export type Run = import("./documents.js").Run;
export type Standing = import("./documents.js").Standing;
export type Submission = import("./documents.js").Submission;
export type FeedEvent = import("./live.js").FeedEvent;
export type FlushOutcome = import("./queue.js").FlushOutcome;
export type QueueStore = import("./queue.js").QueueStore;
export type SignedRequest = import("./signing.js").SignedRequest;
export type Transport = import("./transport.js").Transport;
/** @typedef {import("./claims.js").Claim} Claim */
/** @typedef {import("./documents.js").Entry} Entry */
/** @typedef {import("./documents.js").EntryPage} EntryPage */
/** @typedef {import("./documents.js").Player} Player */
/** @typedef {import("./documents.js").Receipt} Receipt */
/** @typedef {import("./documents.js").Reveal} Reveal */
/** @typedef {import("./documents.js").Run} Run */
/** @typedef {import("./documents.js").Standing} Standing */
/** @typedef {import("./documents.js").Submission} Submission */
/** @typedef {import("./live.js").FeedEvent} FeedEvent */
/** @typedef {import("./queue.js").FlushOutcome} FlushOutcome */
/** @typedef {import("./queue.js").QueueStore} QueueStore */
/** @typedef {import("./signing.js").SignedRequest} SignedRequest */
/** @typedef {import("./transport.js").Transport} Transport */
