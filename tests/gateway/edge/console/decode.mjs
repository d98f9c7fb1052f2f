/** Decodes recordings with the console's module: one in hex a line comes in, what it says of it goes out as JSON. */

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [file, maximumTicks, buttons] = process.argv.slice(2);
const { decodeRecording, hashText, histogram } = await import(pathToFileURL(file));
const mask = Number(buttons);

function said(hex) {
  const { recording, error } = decodeRecording(Buffer.from(hex, "hex"), Number(maximumTicks));
  if (error !== undefined) return { error };
  return {
    ticks: recording.ticks,
    checkpoint_ticks: recording.checkpointTicks,
    inputs: Buffer.from(recording.inputs().buffer).toString("hex"),
    checkpoints: recording.checkpointList(),
    last_hash: recording.checkpoints.length ? hashText(recording.checkpoints.at(-1)) : null,
    is_analog: recording.isAnalog(),
    presses: recording.usedBits(mask).map((bit) => [bit, recording.presses(bit).map(({ from, to }) => [from, to])]),
    events: recording.events(mask).map(({ tick, bit, isDown }) => [tick, bit, isDown]),
    intervals_ms: recording.pressIntervals(1000, mask),
    pace: [...recording.pace(60, mask)],
    words: [0, 1, 2, recording.ticks, recording.ticks + 1].map((tick) => recording.wordAt(tick)),
    histogram: [...histogram(recording.pressIntervals(1000, mask), 4, 2).counts],
  };
}

for (const hex of readFileSync(0, "utf8").slice(0, -1).split("\n")) console.log(JSON.stringify(said(hex)));
