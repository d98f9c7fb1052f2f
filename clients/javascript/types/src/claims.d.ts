/** The bodies of submissions, whose bytes are made once and never again. */
export type Claim = {
    score: number;
    ticks: number;
    stats: Record<string, number>;
    recording?: Uint8Array;
};
/**
 * What a player claims. A board that replays its runs needs the recording.
 * @typedef {{score: number, ticks: number, stats: Record<string, number>, recording?: Uint8Array}} Claim
 */
/**
 * Returns the text of a submission.
 * @param {Claim} claim
 * @returns {string}
 */
export declare function claimText({ score, ticks, stats, recording }: Claim): string;
/**
 * Returns the text of a submission with only the digest of its recording.
 * @param {Claim} claim
 * @returns {Promise<string>}
 */
export declare function commitmentText({ score, ticks, stats, recording }: Claim): Promise<string>;
