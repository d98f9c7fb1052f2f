/** Recordings, container version 1: see docs/reference/recording.md. */

import { refuseInsecure, sha256, toHex } from "./encoding.js";

/** @import { Bytes } from "./encoding.js" */

const MAGIC = [0x53, 0x47, 0x52, 0x31]; // "SGR1"
const LARGEST_WORD = 0xffffffff;

/** Records a run tick by tick. */
export class Recorder {
  /** @type {[number, number][]} */
  #runs = [];
  /** @type {bigint[]} */
  #checkpoints = [];
  #ticks = 0;
  #every;

  /** @param {number} checkpointTicks `checkpoint_ticks` of the opened run; 0 for no checkpoints */
  constructor(checkpointTicks) {
    refuseOtherThanWord(checkpointTicks);
    this.#every = checkpointTicks;
  }

  /** The ticks so far. */
  get ticks() {
    return this.#ticks;
  }

  /** Whether a checkpoint is due after the last tick. */
  get isCheckpointDue() {
    return this.#every > 0 && Math.floor(this.#ticks / this.#every) > this.#checkpoints.length;
  }

  /**
   * Records a tick, and returns whether a checkpoint is due after it.
   * @param {number} word the input, 0 to 2³²−1
   */
  tick(word) {
    refuseOtherThanWord(word);
    if (this.isCheckpointDue) throw new RangeError(`the checkpoint after tick ${this.#ticks} is missing`);
    const last = this.#runs.at(-1);
    if (last && last[1] === word) last[0] += 1;
    else this.#runs.push([1, word]);
    this.#ticks += 1;
    return this.isCheckpointDue;
  }

  /**
   * Records the hash of the game's state after the last tick.
   * @param {bigint} hash 64 bits, as a number with or without a sign
   */
  checkpoint(hash) {
    if (!this.isCheckpointDue) throw new RangeError(`no checkpoint is due after tick ${this.#ticks}`);
    if (BigInt.asUintN(64, hash) !== hash && BigInt.asIntN(64, hash) !== hash) throw new RangeError("no 64-bit hash");
    this.#checkpoints.push(hash);
  }

  /**
   * Returns the recording.
   * @returns {Bytes}
   */
  finish() {
    if (this.#ticks === 0) throw new RangeError("a recording has at least one tick");
    if (this.isCheckpointDue) throw new RangeError(`the checkpoint after tick ${this.#ticks} is missing`);
    const bytes = [...MAGIC];
    const numbers = [this.#ticks, this.#every, this.#runs.length, ...this.#runs.flat()];
    for (const number of numbers) pushVarint(bytes, number);
    for (const hash of this.#checkpoints) pushLittleEndian64(bytes, hash);
    return Uint8Array.from(bytes);
  }
}

/**
 * Encodes a recording that was kept as lists.
 * @param {number[]} inputs one word of 32 bits for each tick
 * @param {bigint[]} checkpoints the state hash after every `checkpointTicks` ticks
 * @param {number} checkpointTicks 0 for no checkpoints
 * @returns {Bytes}
 */
export function encodeRecording(inputs, checkpoints, checkpointTicks) {
  const recorder = new Recorder(checkpointTicks);
  let taken = 0;
  for (const word of inputs) {
    if (!recorder.tick(word)) continue;
    if (taken === checkpoints.length) break;
    recorder.checkpoint(checkpoints[taken]);
    taken += 1;
  }
  if (taken < checkpoints.length) throw new RangeError(`${taken} checkpoints expected, got ${checkpoints.length}`);
  return recorder.finish();
}

/**
 * Returns the digest of a recording as a commitment names it: `sha256:` and 64 hexadecimal digits.
 * @param {Uint8Array} recording
 */
export async function recordingDigest(recording) {
  refuseInsecure("Committing");
  return `sha256:${toHex(await sha256(recording))}`;
}

/** @param {number} number */
function refuseOtherThanWord(number) {
  const isWord = Number.isInteger(number) && number >= 0 && number <= LARGEST_WORD;
  if (!isWord) throw new RangeError(`no 32-bit word: ${number}`);
}

/**
 * Division instead of shifts, since JavaScript's bit operators take a word of 32 bits as signed.
 * @param {number[]} bytes
 * @param {number} number
 */
function pushVarint(bytes, number) {
  let rest = number;
  while (rest >= 128) {
    bytes.push((rest % 128) + 128);
    rest = Math.floor(rest / 128);
  }
  bytes.push(rest);
}

/**
 * @param {number[]} bytes
 * @param {bigint} hash
 */
function pushLittleEndian64(bytes, hash) {
  const word = BigInt.asUintN(64, hash);
  for (let shift = 0n; shift < 64n; shift += 8n) bytes.push(Number((word >> shift) & 255n));
}
