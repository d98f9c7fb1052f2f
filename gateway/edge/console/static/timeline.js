/**
 * The input timeline of a run: its buttons over time, the pace of presses, the checkpoints, and where claim and replay part.
 *
 * `mountTimeline(element)` fills an element that has, or is within one that has, the attributes of `run.js`. The drawing is
 * a slider to keyboards and screen readers; a sentence and a table say the same.
 */

import { make, runOf } from "./run.js";
import { histogram } from "./recording.js";

const LABELS_PX = 88, ROW_PX = 20, PACE_PX = 34, AXIS_PX = 22, GAP_PX = 6;
const LEAST_TICKS = 60, ZOOM = 2;
const TABLE_ROWS = 60;
const STEPS_S = [0.1, 0.25, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600];
const LEAST_STEP_PX = 56;
const BINS = 24, BINS_MS = [10, 25, 50, 100, 250, 500, 1000], SHOWN_SHARE = 0.9;
const COLOURS = ["--ink", "--dim", "--line", "--edge", "--spark", "--mote", "--shard", "--gap", "--panel", "--raised"];

export function mountTimeline(element) {
  return new Timeline(element, runOf(element));
}

class Timeline {
  #run;
  #root;
  #parts = {};
  #rows = [];
  #pace = [];
  #from = 0;
  #span = 1;
  #page = 0;
  #isDue = false;

  constructor(root, run) {
    this.#run = run;
    this.#root = root;
    root.classList.add("timeline");
    root.replaceChildren(make("p", { className: "playback-note", role: "status", textContent: "Loading the recording…" }));
    run.load().then(() => this.#open());
  }

  #open() {
    const { recording, error } = this.#run;
    if (!recording) {
      const text = error ?? "The recording has the game's own form, which has no timeline.";
      this.#root.replaceChildren(make("p", { className: "playback-note", role: error ? "alert" : "status", "data-tone": error ? "bad" : "", textContent: text }));
      return;
    }
    const mask = this.#run.playback.button_mask;
    this.#rows = recording.isAnalog(mask) ? [] : recording.usedBits(mask).map((bit) => ({ name: this.#run.nameOf(bit), presses: recording.presses(bit) }));
    this.#pace = recording.pace(this.#run.playback.ticks_per_second, mask);
    this.#span = recording.ticks;
    this.#build();
    this.#run.addEventListener("moment", () => this.#moved());
    new ResizeObserver(() => this.#draw()).observe(this.#parts.canvas);
    document.addEventListener("scoregate:colours", () => this.#draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
    this.#moved();
  }

  // ---- the parts ----

  #build() {
    const parts = this.#parts;
    const button = (text, does, title) => make("button", { type: "button", className: "tiny", textContent: text, onclick: does, title });
    parts.canvas = make("canvas", { className: "timeline-canvas", tabIndex: 0, role: "slider", "aria-label": "Moment of the run", "aria-valuemin": "0", "aria-valuemax": String(this.#run.ticks), "aria-keyshortcuts": "ArrowLeft ArrowRight PageUp PageDown Home End + -" });
    const rows = Math.max(1, this.#rows.length);
    parts.canvas.dataset.rows = String(rows);
    parts.canvas.style.height = `${AXIS_PX + rows * ROW_PX + GAP_PX + PACE_PX}px`;
    parts.canvas.addEventListener("keydown", (event) => this.#press(event));
    parts.canvas.addEventListener("pointerdown", (event) => this.#point(event));
    parts.canvas.addEventListener("pointermove", (event) => event.buttons && this.#point(event));
    parts.canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    const tools = make("div", { className: "timeline-tools", role: "group", "aria-label": "Zoom" },
      button("Closer", () => this.#zoom(1 / ZOOM), "Show a shorter stretch (+)"), button("Wider", () => this.#zoom(ZOOM), "Show a longer stretch (-)"),
      button("Whole run", () => this.#show(0, this.#run.ticks)));
    const parted = this.#run.playback.divergence;
    if (parted) tools.append(button("To the divergence", () => this.#jump(parted)));
    parts.summary = make("p", { className: "timeline-summary", textContent: this.#summary() });
    parts.table = make("details", { className: "as-table", ontoggle: () => this.#fill() }, make("summary", { textContent: "Inputs as a table" }));
    this.#root.replaceChildren(parts.summary, parts.canvas, tools, this.#intervals(), parts.table);
  }

  #summary() {
    const { recording, playback } = this.#run;
    const seconds = recording.ticks / playback.ticks_per_second;
    const presses = this.#rows.reduce((sum, row) => sum + row.presses.length, 0);
    const made = this.#rows.length
      ? `${count(presses, "press", "presses")} of ${count(this.#rows.length, "button", "buttons")}, ${(presses / seconds).toFixed(1)} a second`
      : recording.isAnalog(playback.button_mask) ? "inputs that are numbers, as of a stick" : "no button pressed";
    const parted = playback.divergence ? ` Claim and replay part after tick ${playback.divergence.after_tick}, and no later than tick ${playback.divergence.at_tick}.` : "";
    return `${count(recording.ticks, "tick", "ticks")} in ${this.#run.time(recording.ticks)}: ${made}; ${count(recording.checkpoints.length, "checkpoint", "checkpoints")}.${parted}`;
  }

  /** The distribution of the times between presses of one button. */
  #intervals() {
    const { recording, playback } = this.#run;
    const intervals = this.#rows.length ? recording.pressIntervals(playback.ticks_per_second, playback.button_mask) : [];
    if (intervals.length < 2) return "";
    const shown = intervals.toSorted((a, b) => a - b)[Math.floor(intervals.length * SHOWN_SHARE)];
    const width = BINS_MS.find((each) => each * (BINS - 1) > shown) ?? BINS_MS.at(-1);
    const { edges, counts } = histogram(intervals, BINS, width);
    const most = Math.max(...counts);
    const name = (at) => (at === BINS - 1 ? `${edges[at]} ms and more` : `${edges[at]} to ${edges[at] + width} ms`);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${BINS * 10} 60`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    counts.forEach((height, at) => {
      const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      const size = (58 * height) / most;
      for (const [key, value] of Object.entries({ x: at * 10 + 1, width: 8, y: 60 - size, height: size })) bar.setAttribute(key, value);
      svg.append(bar);
    });
    const rows = [...counts].flatMap((each, at) => (each ? [make("tr", {}, make("th", { scope: "row", textContent: name(at) }), make("td", { className: "num", textContent: String(each) }))] : []));
    const table = make("details", { className: "as-table" }, make("summary", { textContent: "Intervals as a table" }), boxed("Time between presses", ["Interval", "Presses"], rows));
    return make("figure", { className: "timeline-intervals" }, make("figcaption", { textContent: `Time between presses of one button, 0 to ${(BINS - 1) * width} ms and more` }), svg, table);
  }

  // ---- moving ----

  #press(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const second = this.#run.playback.ticks_per_second, { ticks, tick } = this.#run;
    const step = event.shiftKey ? second : 1;
    const does = {
      ArrowLeft: () => this.#look(tick - step), ArrowRight: () => this.#look(tick + step), ArrowDown: () => this.#look(tick - step), ArrowUp: () => this.#look(tick + step),
      PageDown: () => this.#look(tick - this.#span / 10), PageUp: () => this.#look(tick + this.#span / 10),
      Home: () => this.#look(0), End: () => this.#look(ticks),
      "+": () => this.#zoom(1 / ZOOM), "=": () => this.#zoom(1 / ZOOM), "-": () => this.#zoom(ZOOM),
    }[event.key];
    if (!does) return;
    event.preventDefault();
    event.stopPropagation();
    does();
  }

  #look(tick) {
    this.#run.look(tick, this);
  }

  #point(event) {
    const x = event.offsetX - LABELS_PX;
    if (x >= 0 || event.buttons) this.#look(this.#from + (x / this.#width) * this.#span);
    this.#parts.canvas.focus({ preventScroll: true });
  }

  // With a modifier, as maps do: the wheel alone scrolls the page.
  #wheel(event) {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    if (event.ctrlKey) this.#zoom(event.deltaY > 0 ? ZOOM : 1 / ZOOM);
    else this.#show(this.#from + (Math.sign(event.deltaY || event.deltaX) * this.#span) / 10, this.#span);
  }

  #zoom(factor) {
    const span = this.#span * factor;
    this.#show(this.#run.tick - (this.#run.tick - this.#from) * factor, span);
  }

  #show(from, span) {
    const { ticks } = this.#run;
    this.#span = Math.min(ticks, Math.max(Math.min(LEAST_TICKS, ticks), span));
    this.#from = Math.max(0, Math.min(ticks - this.#span, from));
    this.#draw();
  }

  #jump({ after_tick, at_tick }) {
    this.#look(after_tick);
    this.#show(after_tick - LEAST_TICKS, at_tick - after_tick + 2 * LEAST_TICKS);
  }

  #moved() {
    const { tick, ticks } = this.#run;
    const { canvas } = this.#parts;
    canvas.setAttribute("aria-valuenow", String(tick));
    canvas.setAttribute("aria-valuetext", `${this.#run.time(tick)} of ${this.#run.time(ticks)}, tick ${tick}: ${this.#held(tick)}`);
    if (tick < this.#from || tick > this.#from + this.#span) this.#show(tick - this.#span / 4, this.#span);
    this.#draw();
  }

  /** Returns the buttons that are held in a tick, in words. */
  #held(tick) {
    const word = this.#run.recording.wordAt(tick);
    if (!word) return "nothing";
    if (!this.#rows.length) return String(word);
    return Array.from({ length: 32 }, (_, bit) => bit).filter((bit) => (word >>> bit) & 1).map((bit) => this.#run.nameOf(bit)).join(" + ");
  }

  // ---- the table ----

  #fill() {
    const { table } = this.#parts;
    if (!table.open) return;
    this.#page = Math.floor(this.#run.recording.runAt(Math.max(1, this.#run.tick)) / TABLE_ROWS);
    this.#showPage();
  }

  #showPage() {
    const { recording } = this.#run;
    const first = this.#page * TABLE_ROWS, last = Math.min(recording.words.length, first + TABLE_ROWS);
    const rows = Array.from({ length: last - first }, (_, at) => first + at).map((run) => {
      const from = recording.begins[run] + 1, to = recording.begins[run + 1];
      return make("tr", {}, make("th", { scope: "row", className: "num", textContent: from === to ? String(from) : `${from} – ${to}` }),
        make("td", { className: "num", textContent: this.#run.time(from - 1) }), make("td", { className: "foreign", textContent: this.#held(from) }));
    });
    const turn = (by, text, isLast) => make("button", { type: "button", className: "tiny", textContent: text, disabled: isLast, onclick: () => { this.#page += by; this.#showPage(); } });
    const turns = make("div", { className: "timeline-tools" }, turn(-1, "Earlier", first === 0), turn(1, "Later", last === recording.words.length));
    const [summary] = this.#parts.table.children;
    this.#parts.table.replaceChildren(summary, boxed("Inputs of the run", ["Ticks", "Time", "Held"], rows), turns);
  }

  // ---- the drawing ----

  get #width() {
    return Math.max(1, this.#parts.canvas.clientWidth - LABELS_PX - GAP_PX);
  }

  #x(tick) {
    return LABELS_PX + ((tick - this.#from) / this.#span) * this.#width;
  }

  /** Draws with the next frame, once for all that has changed. */
  #draw() {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      this.#paint();
    });
  }

  #paint() {
    const { canvas } = this.#parts;
    const ratio = Math.min(devicePixelRatio || 1, 3), width = canvas.clientWidth, height = canvas.clientHeight;
    if (!width) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const pen = canvas.getContext("2d");
    const colours = this.#colours();
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const inside = () => { pen.save(); pen.beginPath(); pen.rect(LABELS_PX, 0, this.#width + GAP_PX, height); pen.clip(); };
    inside();
    this.#paintDivergence(pen, colours, height);
    this.#paintAxis(pen, colours, height);
    this.#rows.forEach((row, at) => this.#paintPresses(pen, colours, row.presses, AXIS_PX + at * ROW_PX));
    if (!this.#rows.length) this.#paintWords(pen, colours, AXIS_PX);
    this.#paintPace(pen, colours, height);
    this.#paintCursor(pen, colours, height);
    pen.restore();
    pen.fillStyle = colours["--dim"];
    const names = this.#rows.length ? this.#rows.map((row) => row.name) : ["input"];
    names.forEach((name, at) => pen.fillText(name, 0, AXIS_PX + (at + 0.5) * ROW_PX, LABELS_PX - GAP_PX));
    pen.fillText("presses / s", 0, height - PACE_PX / 2, LABELS_PX - GAP_PX);
  }

  // Colours of the page's own variables, resolved: a canvas knows no variables.
  #colours() {
    const { canvas } = this.#parts;
    return Object.fromEntries(COLOURS.map((name) => {
      canvas.style.color = `var(${name})`;
      return [name, getComputedStyle(canvas).color];
    }));
  }

  #paintDivergence(pen, colours, height) {
    const parted = this.#run.playback.divergence;
    if (!parted) return;
    const from = this.#x(parted.after_tick), to = Math.max(from + 2, this.#x(parted.at_tick));
    pen.fillStyle = colours["--shard"];
    pen.globalAlpha = 0.09;
    pen.fillRect(to, AXIS_PX, this.#x(this.#run.ticks) - to, height);
    pen.globalAlpha = 0.3;
    pen.fillRect(from, AXIS_PX, to - from, height);
    pen.globalAlpha = 1;
    pen.fillRect(from, 0, 2, height);
  }

  #paintAxis(pen, colours, height) {
    const second = this.#run.playback.ticks_per_second, perPixel = this.#span / this.#width;
    const step = STEPS_S.find((each) => (each * second) / perPixel >= LEAST_STEP_PX) ?? STEPS_S.at(-1);
    pen.strokeStyle = colours["--line"];
    pen.fillStyle = colours["--dim"];
    pen.beginPath();
    for (let at = Math.floor(this.#from / second / step) * step; at * second <= this.#from + this.#span; at += step) {
      const x = this.#x(at * second);
      pen.moveTo(x, AXIS_PX);
      pen.lineTo(x, height);
      pen.fillText(this.#run.time(at * second).replace(step < 1 ? /$^/ : /\.0$/, ""), x + 3, 7);
    }
    pen.stroke();
    this.#paintCheckpoints(pen, colours);
  }

  #paintCheckpoints(pen, colours) {
    const { recording, playback } = this.#run;
    const every = recording.checkpointTicks;
    if (!every || (every / this.#span) * this.#width < 3) return;
    const first = Math.max(1, Math.ceil(this.#from / every)), last = Math.min(recording.checkpoints.length, Math.floor((this.#from + this.#span) / every));
    for (let at = first; at <= last; at += 1) {
      const isParted = playback.divergence && at * every >= playback.divergence.at_tick;
      pen.fillStyle = colours[isParted ? "--shard" : "--gap"];
      pen.fillRect(this.#x(at * every) - 1, AXIS_PX - 6, 2, 6);
    }
  }

  #paintPresses(pen, colours, presses, y) {
    pen.fillStyle = colours["--raised"];
    pen.fillRect(LABELS_PX, y + 2, this.#width, ROW_PX - 4);
    pen.fillStyle = colours["--spark"];
    for (let at = firstAfter(presses, this.#from); at < presses.length && presses[at].from <= this.#from + this.#span; at += 1) {
      const x = this.#x(presses[at].from - 1);
      pen.fillRect(x, y + 3, Math.max(1, this.#x(presses[at].to) - x), ROW_PX - 6);
    }
  }

  /** Numbers instead of buttons: how high each is, among all of them. */
  #paintWords(pen, colours, y) {
    const { recording } = this.#run;
    const most = recording.words.reduce((a, b) => Math.max(a, b), 1);
    pen.fillStyle = colours["--spark"];
    for (let run = recording.runAt(Math.max(1, this.#from)); run < recording.words.length && recording.begins[run] <= this.#from + this.#span; run += 1) {
      const x = this.#x(recording.begins[run]), high = ((ROW_PX - 2) * recording.words[run]) / most;
      pen.fillRect(x, y + ROW_PX - high, Math.max(1, this.#x(recording.begins[run + 1]) - x), high);
    }
  }

  #paintPace(pen, colours, height) {
    const second = this.#run.playback.ticks_per_second, most = this.#pace.reduce((a, b) => Math.max(a, b), 1);
    pen.fillStyle = colours["--mote"];
    for (let at = Math.floor(this.#from / second); at < this.#pace.length && at * second <= this.#from + this.#span; at += 1) {
      const x = this.#x(at * second), high = (PACE_PX * this.#pace[at]) / most;
      pen.fillRect(x, height - high, Math.max(1, this.#x((at + 1) * second) - x - 1), high);
    }
  }

  #paintCursor(pen, colours, height) {
    pen.fillStyle = colours["--ink"];
    pen.fillRect(this.#x(this.#run.tick) - 1, 0, 2, height);
  }
}

/** Returns the first press that ends after a tick. They are in order, and do not overlap. */
function firstAfter(presses, tick) {
  let low = 0, high = presses.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (presses[middle].to > tick) high = middle;
    else low = middle + 1;
  }
  return low;
}

function boxed(caption, heads, rows) {
  const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col", textContent: text })));
  return make("div", { className: "table-box", tabIndex: 0, role: "region", "aria-label": caption },
    make("table", {}, make("caption", { className: "sr", textContent: caption }), make("thead", {}, head), make("tbody", {}, ...rows)));
}

function count(number, one, many) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}
