/**
 * Decodes a recording (docs/reference/recording.md) as `replay/recording.py` does: the same bytes are taken, and the
 * others are refused for the same reason. Whatever the bytes, nothing is thrown: an error is an object.
 */

const MAGIC = [0x53, 0x47, 0x52, 0x31];
const WORD_LIMIT = 2 ** 32;
const VARINT_BYTES = 5;
const CHECKPOINT_BYTES = 8;

/** The most ticks whose words are listed one by one (64 MiB); a policy allows fewer. */
export const MOST_TICKS = 2 ** 24;

/** With more different words than this they are numbers, as of a stick, and no buttons (`replay/forensics/inputs.py`). */
const MOST_WORDS = 64;
const ALL_BITS = WORD_LIMIT - 1;

/** The bytes are not a recording; this never leaves the module. */
class Refusal extends Error {}

/**
 * Decodes bytes (ArrayBuffer or Uint8Array) into `{ recording: Recording }` or `{ error: text }`.
 * Memory is bounded by the size of the bytes: what they claim allocates nothing.
 */
export function decodeRecording(bytes, maximumTicks = MOST_TICKS) {
  try {
    return { recording: decoded(new Uint8Array(bytes.buffer ?? bytes, bytes.byteOffset ?? 0, bytes.byteLength), maximumTicks) };
  } catch (error) {
    return { error: error instanceof Refusal ? error.message : "it cannot be read" };
  }
}

function decoded(data, maximumTicks) {
  if (MAGIC.some((byte, at) => data[at] !== byte)) throw new Refusal("it does not begin with SGR1");
  const reader = { data, at: MAGIC.length };
  const ticks = readVarint(reader, "ticks");
  const checkpointTicks = readVarint(reader, "the checkpoint interval");
  const count = readVarint(reader, "the number of runs");
  if (ticks < 1 || ticks > maximumTicks) throw new Refusal(`it has ${ticks} ticks where 1 to ${maximumTicks} are allowed`);
  if (count < 1 || count > ticks) throw new Refusal(`it has ${count} runs for ${ticks} ticks`);
  const end = data.length - CHECKPOINT_BYTES * (checkpointTicks ? Math.floor(ticks / checkpointTicks) : 0);
  const size = end - reader.at;
  if (size < 2 * count || size > 2 * count * VARINT_BYTES) throw new Refusal("its length does not fit its ticks, runs and checkpoints");
  const numbers = varints(data.subarray(reader.at, end));
  const { words, begins } = runsOf(numbers, ticks, count);
  return new Recording(ticks, checkpointTicks, words, begins, hashes(data.subarray(end)));
}

function readVarint(reader, name) {
  const begin = reader.at;
  let end = begin;
  while (end < begin + VARINT_BYTES && reader.data[end] >= 0x80) end += 1;
  if (end >= reader.data.length || end >= begin + VARINT_BYTES) throw new Refusal(`${name} is cut short or longer than ${VARINT_BYTES} bytes`);
  reader.at = end + 1;
  const number = numberIn(reader.data, begin, end);
  if (number >= WORD_LIMIT) throw new Refusal("a number is larger than 32 bits");
  if (end > begin && reader.data[end] === 0) throw new Refusal("a number is not in its shortest form");
  return number;
}

/** Returns the number whose bytes are at `begin` to `end`. No shifts: those of JavaScript have 32 bits and a sign. */
function numberIn(data, begin, end) {
  let number = 0;
  for (let at = end; at >= begin; at -= 1) number = number * 128 + (data[at] & 0x7f);
  return number;
}

/** Returns all numbers in the bytes. One that is too large is told before one that is too long, wherever they are. */
function varints(data) {
  if (data[data.length - 1] >= 0x80) throw new Refusal("its last run is cut short");
  let count = 0;
  for (const byte of data) if (byte < 0x80) count += 1;
  const numbers = new Uint32Array(count);
  let begin = 0, at = 0, isShortest = true;
  for (let end = 0; end < data.length; end += 1) {
    if (data[end] >= 0x80) continue;
    const number = end - begin < VARINT_BYTES ? numberIn(data, begin, end) : WORD_LIMIT;
    if (number >= WORD_LIMIT) throw new Refusal("a number is larger than 32 bits");
    if (end > begin && data[end] === 0) isShortest = false;
    numbers[at] = number;
    at += 1;
    begin = end + 1;
  }
  if (!isShortest) throw new Refusal("a number is not in its shortest form");
  return numbers;
}

/** Returns the words of the runs, and the tick before each, closed by the run's last tick. */
function runsOf(numbers, ticks, count) {
  if (numbers.length !== 2 * count) throw new Refusal(`it announces ${count} runs and holds ${numbers.length / 2}`);
  const words = new Uint32Array(count), begins = new Float64Array(count + 1);
  let hasEmpty = false;
  for (let run = 0; run < count; run += 1) {
    hasEmpty ||= numbers[2 * run] < 1;
    begins[run + 1] = begins[run] + numbers[2 * run];
    words[run] = numbers[2 * run + 1];
  }
  if (hasEmpty) throw new Refusal("a run is empty");
  if (begins[count] !== ticks) throw new Refusal(`its runs last ${begins[count]} ticks and it announces ${ticks}`);
  if (words.some((word, run) => run > 0 && word === words[run - 1])) throw new Refusal("two runs in a row have the same input");
  return { words, begins };
}

function hashes(data) {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  return BigUint64Array.from({ length: data.length / CHECKPOINT_BYTES }, (_, at) => view.getBigUint64(at * CHECKPOINT_BYTES, true));
}

/** A state hash as everybody writes it: 16 hexadecimal digits. */
export function hashText(hash) {
  return hash.toString(16).padStart(16, "0");
}

/** The inputs of a run. Ticks count from 1; `tick` 0 is the moment before the first. */
export class Recording {
  /** `words` of the input runs, and in `begins` the ticks before each, closed by `ticks`. */
  constructor(ticks, checkpointTicks, words, begins, checkpoints) {
    Object.assign(this, { ticks, checkpointTicks, words, begins, checkpoints });
  }

  /** Returns the number of the input run that holds a tick, from 0. */
  runAt(tick) {
    let low = 0, high = this.words.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (tick <= this.begins[middle + 1]) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  /** Returns the input word of a tick; 0 before the first and after the last. */
  wordAt(tick) {
    return tick < 1 || tick > this.ticks ? 0 : this.words[this.runAt(tick)];
  }

  /** Returns one word for each tick. Above `MOST_TICKS` there is no such list, and the answer is null. */
  inputs() {
    if (this.ticks > MOST_TICKS) return null;
    const inputs = new Uint32Array(this.ticks);
    this.words.forEach((word, run) => inputs.fill(word, this.begins[run], this.begins[run + 1]));
    return inputs;
  }

  /** Returns whether the words are numbers rather than buttons. Where the board names its buttons they are none. */
  isAnalog(buttons = ALL_BITS) {
    // The word before the first press is none that somebody chose.
    const chosen = this.words[0] === 0 ? this.words.subarray(1) : this.words;
    return buttons === ALL_BITS && new Set(chosen).size > MOST_WORDS;
  }

  /** Returns the bits of the mask that are ever set, lowest first. */
  usedBits(buttons = ALL_BITS) {
    const used = (this.words.reduce((all, word) => all | word, 0) & buttons) >>> 0;
    return Array.from({ length: 32 }, (_, bit) => bit).filter((bit) => (used >>> bit) & 1);
  }

  /** Returns each press of a bit as `{ from, to }`: its first tick, and its last. */
  presses(bit) {
    const presses = [];
    let from = 0;
    this.words.forEach((word, run) => {
      const isDown = (word >>> bit) & 1;
      if (isDown && !from) from = this.begins[run] + 1;
      if (!isDown && from) {
        presses.push({ from, to: this.begins[run] });
        from = 0;
      }
    });
    if (from) presses.push({ from, to: this.ticks });
    return presses;
  }

  /** Returns the ticks at which any button of the mask goes down, one for each button, in order. */
  pressTicks(buttons = ALL_BITS) {
    return this.usedBits(buttons).flatMap((bit) => this.presses(bit).map(({ from }) => from)).sort((a, b) => a - b);
  }

  /** Returns the presses and releases of the mask in order, as `{ tick, bit, isDown }`: a release is the first tick without. */
  events(buttons = ALL_BITS) {
    const changes = this.usedBits(buttons).flatMap((bit) =>
      this.presses(bit).flatMap(({ from, to }) => [{ tick: from, bit, isDown: true }, { tick: to + 1, bit, isDown: false }]));
    return changes.filter(({ tick }) => tick <= this.ticks).sort((a, b) => a.tick - b.tick || a.bit - b.bit);
  }

  /** Returns the checkpoints as `{ tick, hash }`, the hash as 16 hexadecimal digits. */
  checkpointList(from = 0, count = this.checkpoints.length) {
    return Array.from(this.checkpoints.slice(from, from + count), (hash, at) =>
      ({ tick: (from + at + 1) * this.checkpointTicks, hash: hashText(hash) }));
  }

  /** Returns the milliseconds between neighbouring presses of one button, for all buttons of the mask. */
  pressIntervals(ticksPerSecond, buttons = ALL_BITS) {
    return this.usedBits(buttons).flatMap((bit) => {
      const presses = this.presses(bit);
      return presses.slice(1).map(({ from }, at) => ((from - presses[at].from) * 1000) / ticksPerSecond);
    });
  }

  /** Returns presses in each stretch of `spanTicks`, for a plot of the pace. */
  pace(spanTicks, buttons = ALL_BITS) {
    const counts = new Uint32Array(Math.ceil(this.ticks / Math.max(1, spanTicks)));
    for (const tick of this.pressTicks(buttons)) counts[Math.floor((tick - 1) / Math.max(1, spanTicks))] += 1;
    return counts;
  }
}

/** Returns a histogram of numbers as `{ edges, counts }` in `bins` bins of equal width from 0; the last takes what is above. */
export function histogram(numbers, bins = 24, width = 25) {
  const counts = new Uint32Array(bins);
  for (const number of numbers) counts[Math.min(bins - 1, Math.floor(number / width))] += 1;
  return { edges: Array.from({ length: bins }, (_, at) => at * width), counts };
}
