/**
 * The player of a run: the studio's page in a frame, with the controls outside of it, and the results beside each other.
 *
 * `mountPlayback(element)` fills an element that has, or is within one that has, the attributes of `run.js`.
 */

import { bytesAt, make, runOf } from "./run.js";
import { hashText } from "./recording.js";
import { PlayerFrame } from "./player_frame.js";

const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];
const DRIFT_TICKS = 20;
const HASHES_AROUND = 2;

export function mountPlayback(element) {
  return new Playback(element, runOf(element));
}

class Playback {
  #run;
  #root;
  #parts = {};
  #right = null;
  #left = null;
  #divergence;
  #state = { tick: 0, score: 0, over: false, playing: false };
  #result = null;
  #hashes = null;
  #isParked = false;
  #speed = 1;

  constructor(root, run) {
    this.#root = root;
    this.#run = run;
    this.#divergence = run.playback.divergence;
    root.classList.add("playback");
    root.replaceChildren(make("p", { className: "playback-note", role: "status", textContent: "Loading the recording…" }));
    this.#open();
  }

  async #open() {
    const run = await this.#run.load();
    if (run.error) return this.#note(run.error, "bad");
    if (!run.playback.page) return this.#note("This game has no player page. The timeline shows the inputs.");
    try {
      run.asset ??= run.playback.asset_url ? await bytesAt(run.playback.asset_url) : null;
    } catch (error) {
      return this.#note(`The board's asset: ${error.message}`, "bad");
    }
    this.#build();
    this.#right = this.#frame("right", "The run as the player page plays it");
    this.#right.addEventListener("loaded", ({ detail }) => this.#loaded(detail));
    this.#right.addEventListener("state", ({ detail }) => this.#follow(detail));
    run.addEventListener("moment", ({ detail }) => detail.by !== this && this.#seek(run.tick));
  }

  #note(text, tone = "") {
    this.#root.replaceChildren(make("p", { className: "playback-note", "data-tone": tone, role: tone ? "alert" : "status", textContent: text }));
  }

  // ---- the frames ----

  #frame(side, title) {
    const { playback, claim, recording, bytes, asset } = this.#run;
    const load = {
      type: "load",
      run: {
        board: claim.board, build: playback.build, simulator: playback.simulator, seed: playback.seed, parameters: playback.parameters,
        ticks: this.#run.ticks, ticks_per_second: playback.ticks_per_second, checkpoint_ticks: recording?.checkpointTicks ?? 0,
        buttons: playback.buttons,
      },
      recording: bytes.slice(0),
      inputs: recording?.inputs()?.buffer ?? null,
      asset: asset?.slice(0) ?? null,
    };
    const limits = { ticks: this.#run.ticks, checkpoints: recording?.checkpoints.length ?? 0 };
    const frame = new PlayerFrame(this.#parts[side].place, playback.page, title, load, limits);
    frame.addEventListener("failed", ({ detail }) => this.#failed(side, detail));
    return frame;
  }

  #failed(side, message) {
    this.#parts[side].place.replaceChildren(make("p", { className: "playback-note", "data-tone": "bad", role: "alert", textContent: message }));
    if (side === "left") this.#left = null;
    else for (const control of this.#parts.controls.querySelectorAll("button, input, select")) control.disabled = true;
  }

  #loaded({ result, checkpoints }) {
    this.#result = result;
    this.#hashes = checkpoints;
    this.#divergence ??= this.#ownDivergence();
    for (const control of this.#parts.controls.querySelectorAll("button, input, select")) control.disabled = false;
    this.#parts.jump.hidden = this.#parts.sides.hidden = !this.#divergence;
    this.#showResults();
    this.#showHashes();
    if (this.#divergence) this.#showSides(true);
    this.#seek(this.#run.tick);
  }

  /** Returns where the page's own hashes leave the recording's: the first checkpoint that differs. */
  #ownDivergence() {
    const at = this.#firstDifference();
    if (at < 0) return null;
    const { recording } = this.#run;
    const every = recording.checkpointTicks;
    return { after_tick: at * every, at_tick: (at + 1) * every, claimed: hashText(recording.checkpoints[at]), simulated: hashText(this.#hashes[at]) };
  }

  #firstDifference() {
    return this.#hashes ? this.#hashes.findIndex((hash, at) => hash !== this.#run.recording.checkpoints[at]) : -1;
  }

  // ---- what the controls do ----

  #send(message) {
    this.#right.send(message);
    if (!this.#isParked) this.#left?.send(message);
  }

  #play() {
    const isAtEnd = this.#state.over || this.#state.tick === this.#run.ticks;
    if (!this.#state.playing && isAtEnd) this.#seek(0);
    this.#send({ type: this.#state.playing ? "pause" : "play" });
  }

  #step(ticks) {
    if (ticks > 0) return this.#send({ type: "step", ticks });
    this.#send({ type: "pause" });
    return this.#seek(Math.max(0, this.#state.tick + ticks));
  }

  #seek(tick) {
    this.#right.send({ type: "seek", tick });
  }

  #jump() {
    this.#send({ type: "pause" });
    this.#seek(this.#divergence.after_tick);
  }

  #setSpeed(speed) {
    this.#speed = speed;
    this.#parts.speed.value = String(speed);
    this.#right.send({ type: "speed", speed });
    this.#left?.send({ type: "speed", speed });
  }

  #toggleOverlay() {
    const on = this.#parts.overlay.getAttribute("aria-pressed") !== "true";
    this.#parts.overlay.setAttribute("aria-pressed", String(on));
    this.#right.send({ type: "overlay", on });
    this.#left?.send({ type: "overlay", on });
  }

  #showSides(on) {
    this.#parts.sides.setAttribute("aria-pressed", String(on));
    this.#parts.left.side.hidden = !on;
    this.#parts.stage.dataset.sides = on ? "2" : "1";
    this.#left?.close();
    this.#left = on ? this.#frame("left", "The run as claimed, as far as its hashes are known") : null;
    this.#left?.addEventListener("loaded", () => {
      this.#isParked = false;
      this.#left.send({ type: "speed", speed: this.#speed });
      this.#left.send({ type: "overlay", on: this.#parts.overlay.getAttribute("aria-pressed") === "true" });
      this.#keepUp(true);
    });
    this.#left?.addEventListener("state", ({ detail }) => {
      this.#parts.left.tick = detail.tick;
      this.#parts.left.says.textContent = `tick ${detail.tick}, score ${points(detail.score)}`;
    });
  }

  // ---- what the page says ----

  #follow(state) {
    this.#state = state;
    this.#run.look(state.tick, this);
    const { play, seek, time, right, lamps } = this.#parts;
    play.textContent = state.playing ? "Pause" : "Play";
    seek.value = String(state.tick);
    seek.setAttribute("aria-valuetext", `${this.#run.time(state.tick)} of ${this.#run.time(this.#run.ticks)}, tick ${state.tick}`);
    time.textContent = `${this.#run.time(state.tick)} / ${this.#run.time(this.#run.ticks)}`;
    right.says.textContent = `tick ${state.tick}, score ${points(state.score)}${state.over ? ", over" : ""}`;
    const word = this.#run.recording?.wordAt(state.tick) ?? 0;
    for (const lamp of lamps.children) lamp.toggleAttribute("data-on", (word >>> Number(lamp.dataset.bit)) & 1);
    this.#keepUp();
  }

  /** Keeps the left picture at the same moment, and at the last one that both share once the right is beyond it. */
  #keepUp(anew = false) {
    if (!this.#left?.isLoaded) return;
    const { tick, playing } = this.#state;
    const shared = this.#divergence.after_tick;
    const isBeyond = tick > shared;
    this.#parts.left.veil.hidden = !isBeyond;
    if (isBeyond && (!this.#isParked || anew)) {
      this.#left.send({ type: "pause" });
      this.#left.send({ type: "seek", tick: shared });
    }
    const isAstray = !playing || Math.abs((this.#parts.left.tick ?? 0) - tick) > DRIFT_TICKS * Math.max(1, this.#speed);
    if (!isBeyond && (this.#isParked || isAstray || anew)) {
      this.#left.send({ type: "seek", tick });
      this.#left.send({ type: playing ? "play" : "pause" });
    }
    this.#isParked = isBeyond;
  }

  // ---- the parts ----

  #build() {
    const { playback } = this.#run;
    const parts = this.#parts;
    const host = playback.page.startsWith("/") ? "this gateway" : new URL(playback.page).host;
    parts.left = this.#side("Claimed");
    parts.right = this.#side("Re-simulated");
    parts.left.side.hidden = true;
    parts.left.veil.textContent = "Beyond this moment the claim is only hashes and a result.";
    parts.stage = make("div", { className: "playback-stage", "data-sides": "1" }, parts.left.side, parts.right.side);
    parts.controls = this.#controls();
    parts.lamps = make("ul", { className: "playback-lamps", "aria-label": "Buttons that are held" }, ...this.#lamps());
    parts.results = make("div", { className: "playback-results" });
    parts.hashes = make("div", { className: "playback-results" });
    const origin = make("p", { className: "playback-origin" }, "Drawn by a page of ", make("strong", { className: "foreign", textContent: host }), " in a sandbox. It shows; the worker's replay decides.");
    this.#root.replaceChildren(origin, parts.stage, parts.controls, parts.lamps, parts.results, parts.hashes);
    this.#root.addEventListener("keydown", (event) => this.#press(event));
  }

  #side(name) {
    const place = make("div", { className: "playback-place" });
    const says = make("span", { className: "playback-says", textContent: "loading…" });
    const veil = make("p", { className: "playback-veil", hidden: true });
    const side = make("figure", { className: "playback-side" }, make("figcaption", {}, make("strong", { textContent: name }), " ", says), place, veil);
    return { side, place, says, veil };
  }

  #controls() {
    const parts = this.#parts;
    const button = (text, title, does, keys) => make("button", { type: "button", textContent: text, disabled: true, onclick: does, "aria-keyshortcuts": keys, title: `${title} (${keys})` });
    const back = button("‹", "One tick back", () => this.#step(-1), ","), on = button("›", "One tick on", () => this.#step(1), ".");
    back.ariaLabel = "One tick back";
    on.ariaLabel = "One tick on";
    parts.play = button("Play", "Play or pause", () => this.#play(), "Space");
    parts.seek = make("input", { type: "range", className: "playback-seek", min: "0", max: String(this.#run.ticks), value: "0", disabled: true, "aria-label": "Moment of the run", oninput: () => this.#seek(Number(parts.seek.value)) });
    parts.speed = make("select", { disabled: true, "aria-label": "Speed", onchange: () => this.#setSpeed(Number(parts.speed.value)) }, ...SPEEDS.map((speed) => make("option", { value: String(speed), textContent: `${speed}×`, selected: speed === 1 })));
    parts.time = make("output", { className: "playback-time", textContent: `${this.#run.time(0)} / ${this.#run.time(this.#run.ticks)}` });
    parts.jump = button("To the divergence", "Go to the last moment before claim and replay part", () => this.#jump(), "d");
    parts.overlay = button("Inputs", "Show the inputs in the picture", () => this.#toggleOverlay(), "o");
    parts.sides = button("Side by side", "Show the claim beside the replay", () => this.#showSides(parts.sides.getAttribute("aria-pressed") !== "true"), "b");
    parts.overlay.setAttribute("aria-pressed", "false");
    return make("div", { className: "playback-controls", role: "group", "aria-label": "Playback" },
      parts.play, back, on, parts.seek, parts.time, parts.speed, parts.jump, parts.overlay, parts.sides);
  }

  #lamps() {
    const { recording, playback } = this.#run;
    const named = playback.buttons.map((_, bit) => bit);
    const bits = [...new Set([...named, ...(recording?.usedBits(playback.button_mask) ?? [])])].sort((a, b) => a - b);
    return recording?.isAnalog(playback.button_mask) ? [] : bits.map((bit) => make("li", { className: "foreign", "data-bit": String(bit), textContent: this.#run.nameOf(bit) }));
  }

  /** The keys of the controls, wherever the focus is within them. The console's own keys do not see them. */
  #press(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || this.#parts.play.disabled) return;
    const isOnButton = event.target.closest("button, select, summary");
    const speed = SPEEDS.indexOf(this.#speed);
    const does = {
      " ": isOnButton ? null : () => this.#play(),
      ",": () => this.#step(-1),
      ".": () => this.#step(1),
      "[": () => this.#setSpeed(SPEEDS[Math.max(0, speed - 1)]),
      "]": () => this.#setSpeed(SPEEDS[Math.min(SPEEDS.length - 1, speed + 1)]),
      d: this.#divergence ? () => this.#jump() : null,
      o: () => this.#toggleOverlay(),
      b: this.#divergence ? () => this.#parts.sides.click() : null,
    }[event.key];
    if (!does) return;
    event.preventDefault();
    event.stopPropagation();
    does();
  }

  // ---- the results ----

  #showResults() {
    const { claim, playback } = this.#run;
    const columns = [["Claimed", claim], ["By the worker", playback.simulated], ["By this page", this.#result]];
    const rows = [["Score", (each) => each.score], ["Ticks", (each) => each.ticks], ...Object.keys(claim.stats).map((name) => [name.replaceAll("_", " "), (each) => each.stats[name]])];
    const cells = (value) => columns.map(([, each]) => {
      const shown = each ? value(each) : undefined;
      const differs = shown !== undefined && shown !== value(claim);
      return make("td", { className: "num", ...(differs && { "data-differs": "" }) }, shown === undefined ? "—" : points(shown), ...(differs ? [make("span", { className: "sr", textContent: " differs" })] : []));
    });
    const body = rows.map(([name, value]) => make("tr", {}, make("th", { scope: "row", className: "foreign", textContent: name }), ...cells(value)));
    this.#parts.results.replaceChildren(table("Results", ["", ...columns.map(([name]) => name)], body));
  }

  /** Shows the hashes around the divergence, and whether this page sees it as the worker did. */
  #showHashes() {
    const { recording } = this.#run;
    if (!recording?.checkpoints.length) return;
    const own = this.#firstDifference(), every = recording.checkpointTicks;
    const worker = this.#run.playback.divergence;
    const says = !this.#hashes ? "This page tells no state hashes."
      : own < 0 ? `This page agrees with all ${this.#hashes.length} checkpoints that it reached${worker ? ": it does not play what the worker plays" : ""}.`
        : `Parted after tick ${own * every}, and no later than tick ${(own + 1) * every}${worker && worker.at_tick !== (own + 1) * every ? `; for the worker no later than tick ${worker.at_tick}` : ""}.`;
    const summary = make("p", { className: "playback-parted", textContent: says, ...(own >= 0 && { "data-tone": "bad" }) });
    this.#parts.hashes.replaceChildren(summary, ...(this.#divergence ? [this.#hashTable()] : []));
  }

  #hashTable() {
    const { recording } = this.#run;
    const at = Math.max(0, Math.floor(this.#divergence.at_tick / recording.checkpointTicks) - 1);
    const first = Math.max(0, at - HASHES_AROUND);
    const rows = recording.checkpointList(first, 2 * HASHES_AROUND + 1).map(({ tick, hash }, index) => {
      const here = this.#hashes && first + index < this.#hashes.length ? hashText(this.#hashes[first + index]) : null;
      const differs = here !== null && here !== hash;
      return make("tr", {}, make("th", { scope: "row", textContent: String(tick) }), make("td", { className: "mono", textContent: hash }),
        make("td", { className: "mono", ...(differs && { "data-differs": "" }) }, here ?? "—", ...(differs ? [make("span", { className: "sr", textContent: " differs" })] : [])));
    });
    return table("State hashes around the divergence", ["After tick", "Claimed", "By this page"], rows);
  }
}

function table(caption, heads, rows) {
  const head = make("tr", {}, ...heads.map((text) => (text ? make("th", { scope: "col", textContent: text }) : make("td", {}))));
  return make("div", { className: "table-box", tabIndex: 0, role: "region", "aria-label": caption },
    make("table", {}, make("caption", { className: "sr", textContent: caption }), make("thead", {}, head), make("tbody", {}, ...rows)));
}

function points(number) {
  return number.toLocaleString("en");
}
