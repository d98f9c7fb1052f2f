/**
 * The run that parts of a page show together: its recording, loaded once, and the moment that they look at.
 *
 * An element, or one around it, has
 *   data-recording   the address of the recording's bytes
 *   data-playback    `playback` of the case file, as JSON
 *   data-claim       what the player claims: {"board", "score", "ticks", "stats"}, as JSON
 */

import { MOST_TICKS, decodeRecording } from "./recording.js";

const runs = new WeakMap();

/** Returns the run of an element. */
export function runOf(element) {
  const holder = element.closest("[data-recording]");
  if (!runs.has(holder)) runs.set(holder, new Run(holder.dataset));
  return runs.get(holder);
}

/** A run, and the moment that is looked at; it says `moment` when that moves. */
export class Run extends EventTarget {
  #address;
  #content = null;
  tick = 0;

  constructor({ recording, playback, claim }) {
    super();
    this.#address = recording;
    this.playback = JSON.parse(playback);
    this.claim = JSON.parse(claim);
  }

  /** The ticks of the run: those that are claimed, until a recording says otherwise. */
  get ticks() {
    return this.recording?.ticks ?? this.claim.ticks;
  }

  /** Loads once. Then `bytes` and `recording` are there, or `error` says why not; a game's own format has no recording. */
  load() {
    this.#content ??= this.#read();
    return this.#content;
  }

  async #read() {
    try {
      this.bytes = await bytesAt(this.#address);
    } catch (error) {
      this.error = error.message;
      return this;
    }
    if (this.playback.recording === "raw") return this;
    const { recording, error } = decodeRecording(this.bytes, this.playback.maximum_ticks ?? MOST_TICKS);
    this.recording = recording ?? null;
    if (error) this.error = `The recording cannot be read: ${error}.`;
    return this;
  }

  /** Moves to the moment after a tick. `by` is who moves, so that it does not follow itself. */
  look(tick, by = null) {
    this.tick = Math.max(0, Math.min(this.ticks, Math.round(tick)));
    this.dispatchEvent(new CustomEvent("moment", { detail: { by } }));
  }

  /** Returns a tick as minutes and seconds of play: `1:02.5`. */
  time(tick) {
    const tenths = Math.floor((tick * 10) / this.playback.ticks_per_second);
    return `${Math.floor(tenths / 600)}:${String(Math.floor(tenths / 10) % 60).padStart(2, "0")}.${tenths % 10}`;
  }

  /** Returns the name of a bit of the input word. */
  nameOf(bit) {
    return this.playback.buttons[bit] ?? `bit ${bit}`;
  }
}

/** Returns the bytes at an address of this edge. Raises an error that can be shown. */
export async function bytesAt(address) {
  const response = await fetch(address, { credentials: "same-origin" }).catch(() => null);
  if (!response) throw new Error("The gateway does not answer.");
  if (response.ok) return response.arrayBuffer();
  const problem = await response.json().catch(() => ({}));
  throw new Error(`It cannot be loaded: ${String(problem.detail ?? `HTTP status ${response.status}`).slice(0, 200)}.`);
}

/** Returns a new element with these properties, attributes (`aria-…`, `data-…`, and others in quotes) and children. */
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in element && !key.includes("-")) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}
