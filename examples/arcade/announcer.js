/** Announces the game to players who cannot see the canvas: one short sentence in a polite live region. */

import { FULL_ENERGY, LAST_TICK } from "./game.js";

const TICKS_PER_SECOND = 60, EVERY_TICKS = 15 * TICKS_PER_SECOND;

export class Announcer {
  #region;
  #last = null;

  constructor(region) {
    this.#region = region;
  }

  begin() {
    this.#last = null;
    this.#say(`The run begins. ${Math.round(LAST_TICK / TICKS_PER_SECOND)} seconds.`);
  }

  /** Announces changes since the last frame: a hit, a ready nova, and the score every 15 seconds. */
  look(view) {
    const last = this.#last;
    const now = { hull: view.hull, energy: view.energy, quarter: Math.floor(view.tick / EVERY_TICKS) };
    this.#last = now;
    if (!last) return;
    const seconds = Math.ceil((LAST_TICK - view.tick) / TICKS_PER_SECOND);
    if (now.hull < last.hull) this.#say(`Hit. Hull ${now.hull}.`);
    else if (now.energy === FULL_ENERGY && last.energy < FULL_ENERGY) this.#say("Nova ready.");
    else if (now.quarter > last.quarter) this.#say(`${view.score} points, ${seconds} seconds left.`);
  }

  end(headline, score) {
    this.#say(`${headline}. ${score} points.`);
  }

  #say(text) {
    this.#region.textContent = text;
  }
}
