/**
 * A studio's player page in a sandboxed frame, and the conversation with it: docs/reference/playback.md.
 *
 * Nothing that comes from the page is believed: what is malformed, or too much, ends it. It says `loaded`, `state` and
 * `failed`, each with its content as `detail`.
 */

import { make } from "./run.js";

const VERSION = 1;
const PATIENCE_MS = 20_000;
const MOST_MESSAGES = 300, COUNTED_MS = 1000;
const MOST_TEXT = 200, MOST_STATS = 16, STAT_NAME = /^[a-z][a-z0-9_]{0,31}$/;

/** What the page said breaks the protocol. */
class Breach extends Error {}

export class PlayerFrame extends EventTarget {
  #frame;
  #port = null;
  #load;
  #limits;
  #patience;
  #counted = 0;
  #since = 0;
  isLoaded = false;

  /** Opens the page in `place`. `load` is the first message; `limits` has the run's `ticks` and `checkpoints` (numbers). */
  constructor(place, page, title, load, limits) {
    super();
    this.#load = load;
    this.#limits = limits;
    // Opaque origin, no clicks, no keys, no permission, no cookie, and no word of where it is shown.
    this.#frame = make("iframe", {
      sandbox: "allow-scripts", inert: true, title, tabIndex: -1, allow: "", referrerPolicy: "no-referrer", src: page,
    });
    addEventListener("message", this.#welcome);
    this.#await("The player page does not answer.");
    place.append(this.#frame);
  }

  /** Sends a command. Before the run is loaded, and after the end, nobody takes one. */
  send(message) {
    if (this.isLoaded) this.#port?.postMessage(message);
  }

  /** Ends the page. */
  close() {
    clearTimeout(this.#patience);
    removeEventListener("message", this.#welcome);
    this.#port?.close();
    this.#port = null;
    this.#frame.remove();
  }

  // The first hello of this very frame gets the port; whoever comes after it has nobody to talk to.
  #welcome = ({ source, data }) => {
    if (source !== this.#frame.contentWindow || data?.scoregate !== "hello") return;
    removeEventListener("message", this.#welcome);
    if (!Array.isArray(data.versions) || !data.versions.includes(VERSION)) {
      this.#fail("The player page speaks no version of the protocol that this console does.");
      return;
    }
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    port1.onmessage = ({ data: message }) => this.#take(message);
    port1.onmessageerror = () => this.#fail("The player page sent something unreadable.");
    source.postMessage({ scoregate: "welcome", version: VERSION }, "*", [port2]);
    this.#await("The player page does not load the run.");
    const buffers = [this.#load.recording, this.#load.inputs, this.#load.asset].filter(Boolean);
    port1.postMessage(this.#load, buffers);
    this.#load = null;
  };

  #await(complaint) {
    clearTimeout(this.#patience);
    this.#patience = setTimeout(() => this.#fail(complaint), PATIENCE_MS);
  }

  #take(message) {
    try {
      this.#count();
      const { type } = object(message);
      if (type === "error") throw new Breach(`The player page: ${text(message.message)}`);
      if (type === "loaded" && !this.isLoaded) this.#loaded(message);
      else if (type === "state" && this.isLoaded) this.#say("state", this.#state(message));
      else throw new Breach("The player page breaks the protocol.");
    } catch (error) {
      this.#fail(error instanceof Breach ? error.message : "The player page breaks the protocol.");
    }
  }

  #count() {
    const now = performance.now();
    if (now - this.#since > COUNTED_MS) [this.#since, this.#counted] = [now, 0];
    this.#counted += 1;
    if (this.#counted > MOST_MESSAGES) throw new Breach("The player page sends too much and was stopped.");
  }

  #loaded({ result, checkpoints }) {
    const detail = { result: result ? this.#result(result) : null, checkpoints: this.#hashes(checkpoints) };
    clearTimeout(this.#patience);
    this.isLoaded = true;
    this.#say("loaded", detail);
  }

  #result({ score, ticks, over, stats }) {
    return { score: whole(score), ticks: this.#tick(ticks), over: over === true, stats: numbers(stats) };
  }

  #state({ tick, score, over, playing }) {
    return { tick: this.#tick(tick), score: whole(score), over: over === true, playing: playing === true };
  }

  #tick(tick) {
    if (!Number.isInteger(tick) || tick < 0 || tick > this.#limits.ticks) throw new Breach("The player page is at a tick that the run does not have.");
    return tick;
  }

  #hashes(buffer) {
    if (buffer === null || buffer === undefined) return null;
    if (!(buffer instanceof ArrayBuffer) || buffer.byteLength % 8 || buffer.byteLength / 8 > this.#limits.checkpoints) throw new Breach("The player page has checkpoints that the run does not have.");
    const view = new DataView(buffer);
    return BigUint64Array.from({ length: buffer.byteLength / 8 }, (_, at) => view.getBigUint64(at * 8, true));
  }

  #fail(message) {
    this.close();
    this.#say("failed", message);
  }

  #say(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}

function object(value) {
  if (typeof value !== "object" || value === null) throw new Breach("The player page breaks the protocol.");
  return value;
}

function whole(value) {
  if (!Number.isSafeInteger(value)) throw new Breach("The player page has a score or a statistic that is no whole number.");
  return value;
}

function numbers(value) {
  const stats = {};
  let count = 0;
  for (const name in object(value ?? {})) {
    if ((count += 1) > MOST_STATS || !STAT_NAME.test(name)) throw new Breach("The player page has statistics that no board has.");
    stats[name] = whole(value[name]);
  }
  return stats;
}

function text(value) {
  const line = typeof value === "string" ? value : "it gives no reason";
  return line.length > MOST_TEXT ? `${line.slice(0, MOST_TEXT)}…` : line;
}
