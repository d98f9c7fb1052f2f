/** Plays a recording of the game in a frame of the moderators' console: docs/reference/playback.md. */

import { Game } from "./game.js";
import { Scene } from "./scene.js";

const BUILD = "arcade-1";
const VERSION = 1;
const LONGEST_FRAME_MS = 250;
const SAVED_RUNS = 64, LEAST_TICKS_APART = 600;

const page = Object.fromEntries([...document.querySelectorAll("[id]")].map((element) => [element.id, element]));

/** A whole run of input words, which can go to any of its ticks. */
class Replay {
  #game;
  #words;
  #apart;
  #saved = [];
  tick = 0;
  isOver = false;

  /** Plays the run once to its end. `result` and `checkpoints` are then what this game makes of the words. */
  constructor(game, words, run) {
    this.#game = game;
    this.#words = words;
    this.#apart = Math.max(LEAST_TICKS_APART, Math.ceil(words.length / SAVED_RUNS));
    game.start(run.seed, run.parameters);
    this.#saved.push(game.save());
    const hashes = [];
    while (this.advance()) {
      if (!this.isOver && this.tick % this.#apart === 0) this.#saved.push(game.save());
      if (run.checkpoint_ticks && this.tick % run.checkpoint_ticks === 0) hashes.push(game.stateHash());
    }
    this.end = this.tick;
    this.checkpoints = hashes;
    this.result = { score: game.score, ticks: this.end, over: this.isOver, stats: game.stats };
    this.seek(0);
  }

  /** Plays the next tick and returns whether there was one. */
  advance() {
    if (this.isOver || this.tick === this.#words.length) return false;
    this.isOver = !this.#game.tick(this.#words[this.tick]);
    this.tick += 1;
    return true;
  }

  /** Goes to the moment after a tick: from the last saved one before it, and on from there. */
  seek(tick) {
    const saved = Math.min(Math.floor(tick / this.#apart), this.#saved.length - 1);
    this.#game.restore(this.#saved[saved]);
    this.tick = saved * this.#apart;
    this.isOver = false;
    while (this.tick < tick && this.advance());
  }

  /** The word that was played last. */
  get word() {
    return this.tick ? this.#words[this.tick - 1] : 0;
  }
}

/** What the console drives through its port. */
class Player {
  #port;
  #game;
  #scene;
  #replay = null;
  #isPlaying = false;
  #speed = 1;
  #tick_ms = 1000 / 60;
  #due_ms = 0;
  #last = 0;
  #told = "";

  constructor(port, game, scene) {
    this.#port = port;
    this.#game = game;
    this.#scene = scene;
    port.onmessage = ({ data }) => this.#take(data);
    requestAnimationFrame(this.#frame);
  }

  #take(message) {
    try {
      if (message.type === "load") this.#load(message);
      else if (this.#replay) this.#obey(message);
    } catch (error) {
      this.#port.postMessage({ type: "error", message: String(error.message) });
    }
  }

  #load({ run, inputs }) {
    if (run.build !== BUILD) throw new Error(`This page plays ${BUILD}; the run was played on ${run.build}.`);
    if (!inputs) throw new Error("The recording cannot be read.");
    this.#tick_ms = 1000 / run.ticks_per_second;
    this.#replay = new Replay(this.#game, new Uint32Array(inputs), run);
    const checkpoints = BigUint64Array.from(this.#replay.checkpoints).buffer;
    this.#port.postMessage({ type: "loaded", result: this.#replay.result, checkpoints }, [checkpoints]);
  }

  #obey({ type, speed, tick, ticks, on }) {
    if (type === "play") this.#isPlaying = true;
    if (type === "pause") this.#isPlaying = false;
    if (type === "speed") this.#speed = speed;
    if (type === "seek") this.#seek(tick);
    if (type === "step") {
      this.#isPlaying = false;
      for (let left = ticks; left > 0 && this.#replay.advance(); left -= 1);
    }
    if (type === "overlay") page.overlay.hidden = !on;
    this.#due_ms = 0;
    this.#tell();
  }

  #seek(tick) {
    this.#replay.seek(tick);
    this.#scene.reset();
  }

  #frame = (now) => {
    requestAnimationFrame(this.#frame);
    const elapsed_ms = Math.min(now - this.#last, LONGEST_FRAME_MS);
    this.#last = now;
    if (!this.#replay) return;
    if (this.#isPlaying) this.#play(elapsed_ms);
    const view = this.#game.view();
    this.#scene.draw(view, elapsed_ms);
    page.score.textContent = view.score.toLocaleString("en");
    page.multiplier.textContent = `×${view.multiplier}`;
    for (const key of page.overlay.children) key.toggleAttribute("data-on", (this.#replay.word & Number(key.dataset.button)) !== 0);
    this.#tell();
  };

  #play(elapsed_ms) {
    this.#due_ms += elapsed_ms * this.#speed;
    for (; this.#due_ms >= this.#tick_ms; this.#due_ms -= this.#tick_ms) this.#isPlaying &&= this.#replay.advance();
    this.#isPlaying &&= this.#replay.tick < this.#replay.end;
  }

  /** Tells the console where the run is, unless it knows. */
  #tell() {
    const state = { type: "state", tick: this.#replay.tick, score: this.#game.score, over: this.#replay.isOver, playing: this.#isPlaying };
    const told = JSON.stringify(state);
    if (told === this.#told) return;
    this.#told = told;
    this.#port.postMessage(state);
  }
}

/** Offers itself to the page around, which answers with a port. */
async function open() {
  const game = await Game.load("arcade.wasm");
  const scene = new Scene(page.canvas);
  addEventListener("message", function welcome({ source, data, ports: [port] }) {
    if (source !== parent || data?.scoregate !== "welcome" || data.version !== VERSION || !port) return;
    removeEventListener("message", welcome);
    new Player(port, game, scene);
  });
  parent.postMessage({ scoregate: "hello", versions: [VERSION] }, "*");
}

if (parent !== window) open();
