/** Recordings, container version 1: see docs/reference/recording.md. */
import type { Bytes } from "./encoding.js";
/** Records a run tick by tick. */
export declare class Recorder {
    #private;
    /** @param {number} checkpointTicks `checkpoint_ticks` of the opened run; 0 for no checkpoints */
    constructor(checkpointTicks: number);
    /** The ticks so far. */
    get ticks(): number;
    /** Whether a checkpoint is due after the last tick. */
    get isCheckpointDue(): boolean;
    /**
     * Records a tick, and returns whether a checkpoint is due after it.
     * @param {number} word the input, 0 to 2³²−1
     */
    tick(word: number): false;
    /**
     * Records the hash of the game's state after the last tick.
     * @param {bigint} hash 64 bits, as a number with or without a sign
     */
    checkpoint(hash: bigint): void;
    /**
     * Returns the recording.
     * @returns {Bytes}
     */
    finish(): Bytes;
}
/**
 * Encodes a recording that was kept as lists.
 * @param {number[]} inputs one word of 32 bits for each tick
 * @param {bigint[]} checkpoints the state hash after every `checkpointTicks` ticks
 * @param {number} checkpointTicks 0 for no checkpoints
 * @returns {Bytes}
 */
export declare function encodeRecording(inputs: number[], checkpoints: bigint[], checkpointTicks: number): Bytes;
/**
 * Returns the digest of a recording as a commitment names it: `sha256:` and 64 hexadecimal digits.
 * @param {Uint8Array} recording
 */
export declare function recordingDigest(recording: Uint8Array): Promise<string>;
