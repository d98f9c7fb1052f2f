/** The bodies of submissions, whose bytes are made once and never again. */

import { toBase64 } from "./encoding.js";
import { recordingDigest } from "./recording.js";

/**
 * What a player claims. A board that replays its runs needs the recording.
 * @typedef {{score: number, ticks: number, stats: Record<string, number>, recording?: Uint8Array}} Claim
 */

/**
 * Returns the text of a submission.
 * @param {Claim} claim
 * @returns {string}
 */
export function claimText({ score, ticks, stats, recording }) {
  return JSON.stringify({ score, ticks, stats, ...(recording && { recording: toBase64(recording) }) });
}

/**
 * Returns the text of a submission with only the digest of its recording.
 * @param {Claim} claim
 * @returns {Promise<string>}
 */
export async function commitmentText({ score, ticks, stats, recording }) {
  if (!recording) throw new TypeError("a commitment needs the recording");
  const recording_digest = await recordingDigest(recording);
  return JSON.stringify({ score, ticks, stats, recording_digest, recording_bytes: recording.length });
}
