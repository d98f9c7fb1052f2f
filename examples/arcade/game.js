/** The game's module for the page: start, tick, and everything to draw. */

export const LEFT = 1, RIGHT = 2, OUTWARD = 4, INWARD = 8, NOVA = 16;
export const LAST_TICK = 7200, FULL_ENERGY = 6, FULL_HULL = 3, FLARE_BLAST = 26;
export const RINGS = [120, 190, 260];

// Offsets in the record behind view(), in 32-bit words after the random state and the score: struct State in
// arcade.c has the same order.
const WORDS = { tick: 0, isOver: 1, angle: 2, radius: 3, speed: 4, ring: 5, hull: 6, shield: 7, combo: 9, comboTicks: 10,
  energy: 12, motesTaken: 13, nearMisses: 14, bestCombo: 15, multiplier: 20, shardCount: 21 };
const WAVE_AT = 22, MOTES_AT = 26, FLARES_AT = 35, SHARDS_AT = 44;
const RADIANS = (2 * Math.PI) / 65536;
const PIXEL = 256;

export class Game {
  #module;
  #words;

  /** Loads the game from a URL. */
  static async load(url) {
    const response = await fetch(url);
    if (!response.ok) throw new Error(`The game cannot be loaded (HTTP status ${response.status}).`);
    const { instance } = await WebAssembly.instantiate(await response.arrayBuffer(), {});
    return new Game(instance.exports);
  }

  constructor(module) {
    this.#module = module;
    // The module's memory never grows, so this view of it stays valid.
    this.#words = new Int32Array(module.memory.buffer, module.view() + 16, SHARDS_AT + 240);
  }

  /** Begins the run of a seed, given as a decimal string, on a board with these parameters (text, null for none). */
  start(seed, parameters = null) {
    const bytes = new TextEncoder().encode(parameters ?? "");
    new Uint8Array(this.#module.memory.buffer, this.#module.parameters(bytes.length), bytes.length).set(bytes);
    this.#module.start(BigInt.asIntN(64, BigInt(seed)));
  }

  /** Plays one tick and returns whether the run goes on. */
  tick(word) {
    return this.#module.tick(word) === 1;
  }

  /** Returns the unsigned hash of the whole state. */
  stateHash() {
    return BigInt.asUintN(64, this.#module.state_hash());
  }

  /** Returns the whole memory of the module, which `restore` brings back: the run as it stands. */
  save() {
    return new Uint8Array(this.#module.memory.buffer).slice();
  }

  restore(saved) {
    new Uint8Array(this.#module.memory.buffer).set(saved);
  }

  get score() {
    return Number(this.#module.score());
  }

  /** Returns the statistics of a submission. */
  get stats() {
    const view = this.view();
    return { motes: view.motesTaken, near_misses: view.nearMisses, best_combo: view.bestCombo };
  }

  /** Returns everything to draw: angles in radians, lengths in pixels. */
  view() {
    const view = { score: this.score };
    for (const [name, at] of Object.entries(WORDS)) view[name] = this.#words[at];
    view.angle *= RADIANS;
    view.radius /= PIXEL;
    view.wave = this.#wave();
    view.motes = this.#slots(MOTES_AT, 3, 3).map(([left, angle, ring], slot) => ({ slot, left, angle: angle * RADIANS, ring }));
    view.flares = this.#slots(FLARES_AT, 3, 3).map(([left, angle, half], slot) => ({ slot, left, angle: angle * RADIANS, half: half * RADIANS }));
    view.shards = this.#slots(SHARDS_AT, view.shardCount, 6).map(([angle, radius, fall, drift, size]) => ({
      angle: angle * RADIANS, radius: radius / PIXEL, fall: fall / PIXEL, drift: drift * RADIANS, size: size / PIXEL,
    }));
    return view;
  }

  #wave() {
    const [warning, radius, gap, half] = this.#words.subarray(WAVE_AT, WAVE_AT + 4);
    return { warning, radius: radius / PIXEL, gap: gap * RADIANS, half: half * RADIANS };
  }

  #slots(at, count, size) {
    return Array.from({ length: count }, (_, i) => this.#words.subarray(at + i * size, at + (i + 1) * size));
  }
}
