/** The page: plays and records the game, submits the score and shows its rank. */

import { Announcer } from "./announcer.js";
import { Courses } from "./courses.js";
import { FULL_ENERGY, FULL_HULL, Game, INWARD, LAST_TICK, LEFT, NOVA, OUTWARD, RIGHT } from "./game.js";
import { Outbox } from "./outbox.js";
import { Scene } from "./scene.js";
import { Recorder, Scoregate } from "./scoregate/index.js";

const MAIN_BOARD = "arcade";
const BUILD = "arcade-1";
const TICK_MS = 1000 / 60;
const LONGEST_FRAME_MS = 250;
const COMBO_TICKS = 150;
const TOP = 10;
const POLL_MS = 1000, HELD_POLL_MS = 10_000, BOARD_POLL_MS = 20_000, WAKE_MS = 800;
const STORED_PLAYER = "scoregate.arcade.player", STORED_RUNS = "scoregate.arcade.runs";
const LONGEST_RUN_MS = (1000 * LAST_TICK) / 60, SPARE_MS = 60_000;
const REASONS = { rejected: "rejected", held: "held", revoked: "rejected", superseded: "rejected" };
const FATES = {
  held: "Held: a moderator will look at your run",
  moderation: "Rejected by a moderator",
  replay: "Rejected: playing your run again gave another score",
  implausible: "Rejected: no such score can be played",
  rejected: "Rejected",
};

// A word with any other bit ends the run, so the recording also contains the giving up.
const GIVE_UP = 32;
const KEYS = {
  ArrowLeft: LEFT, KeyA: LEFT, ArrowRight: RIGHT, KeyD: RIGHT, ArrowUp: OUTWARD, KeyW: OUTWARD,
  ArrowDown: INWARD, KeyS: INWARD, Space: NOVA, Escape: GIVE_UP,
};

const page = Object.fromEntries([...document.querySelectorAll("[id]")].map((element) => [element.id, element]));
// One attempt: what the page shows, it reads again by itself, and what is played waits in the outbox.
const gateway = new Scoregate(location.origin, { attempts: 1 });
const outbox = new Outbox(gateway, showSent);
const announcer = new Announcer(page.announcer);
const courses = new Courses(gateway, page.courses, choose, renew);

// The board that is shown and played. The address names another than the main one: ?board=arcade-course.narrows
let board = new URLSearchParams(location.search).get("board") ?? MAIN_BOARD;

// ---- the player ----

/** Returns what this browser stores under a name, or null. */
function stored(name) {
  try {
    return JSON.parse(localStorage.getItem(name));
  } catch {
    return null;
  }
}

function store(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
  } catch {
    // Private windows may refuse storage; the player then lasts as long as the page.
  }
}

let player = stored(STORED_PLAYER);
gateway.token = player?.token ?? null;

/** Creates a player of this name, unless there is one; another name means another player. */
async function becomePlayer(name) {
  if (player?.name === name || (player && player.wish === name)) return;
  gateway.token = null;
  player = { ...(await gateway.createPlayer(name)), wish: name };
  store(STORED_PLAYER, player);
  courses.forget();
}

/** Opens a run. With too many open runs it begins an abandoned one again, with the same seed. */
async function openRun(name) {
  try {
    const run = await openFreshRun(name);
    store(STORED_RUNS, [...openRuns(), run]);
    return run;
  } catch (error) {
    const left = error.status === 429 && openRuns().find((run) => run.player === player.player && run.board === board);
    if (left) return left;
    throw error;
  }
}

/** Returns this browser's runs that are not submitted and will not expire before they can be. */
function openRuns() {
  const soon = Date.now() + LONGEST_RUN_MS + SPARE_MS;
  return (stored(STORED_RUNS) ?? []).filter((run) => Date.parse(run.expires_at) > soon);
}

function closeRun(closed) {
  store(STORED_RUNS, openRuns().filter(({ run }) => run !== closed.run));
}

/** Opens a run. If the gateway no longer knows the token, a new player is created, once. */
async function openFreshRun(name) {
  await becomePlayer(name);
  try {
    return await gateway.openRun(board, BUILD);
  } catch (error) {
    if (error.status !== 401) throw error;
    player = null;
    await becomePlayer(name);
    return gateway.openRun(board, BUILD);
  }
}

// ---- the controls ----

/** Keyboard and touch as one word. A tap between two ticks still counts for one tick. */
class Controls {
  #held = new Map();
  #tapped = 0;

  constructor(isPlaying) {
    addEventListener("keydown", (event) => {
      const isShortcut = event.ctrlKey || event.altKey || event.metaKey;
      if (!(event.code in KEYS) || isShortcut || !isPlaying()) return;
      event.preventDefault();
      if (!event.repeat) this.#press(event.code, KEYS[event.code]);
    });
    addEventListener("keyup", (event) => this.#held.delete(event.code));
    addEventListener("blur", () => this.#held.clear());
    for (const button of page.touch.querySelectorAll("[data-button]")) this.#watch(button);
  }

  /** Returns the word for the next tick. */
  word() {
    let word = this.#tapped;
    for (const bit of this.#held.values()) word |= bit;
    this.#tapped = 0;
    return word;
  }

  release() {
    this.#held.clear();
    this.#tapped = 0;
  }

  #press(source, bit) {
    this.#held.set(source, bit);
    this.#tapped |= bit;
  }

  #watch(button) {
    button.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      button.setPointerCapture(event.pointerId);
      button.toggleAttribute("data-held", true);
      this.#press(button, Number(button.dataset.button));
    });
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
      button.addEventListener(end, () => {
        button.toggleAttribute("data-held", false);
        this.#held.delete(button);
      });
    }
    button.addEventListener("contextmenu", (event) => event.preventDefault());
  }
}

// ---- the play ----

/** A run in progress, and its recording. */
class Session {
  word = 0;

  constructor(game, run) {
    this.game = game;
    this.run = run;
    this.recorder = new Recorder(run.checkpoint_ticks);
    game.start(run.seed, run.parameters);
  }

  /** Plays one tick and returns whether the run goes on. */
  tick(word) {
    const goesOn = this.game.tick(word);
    if (this.recorder.tick(word)) this.recorder.checkpoint(this.game.stateHash());
    this.word = word;
    return goesOn;
  }

  /** Returns what a client submits. */
  claim() {
    const { score, stats } = this.game;
    return { score, ticks: this.recorder.ticks, stats, recording: this.recorder.finish() };
  }
}

/** The clock of the page: ticks at 60 Hz on any display, and draws each frame. */
class Stage {
  #last = 0;
  #due_ms = 0;
  #demoTick = 0;
  session = null;
  isPaused = false;

  constructor(game, scene, onOver) {
    this.game = game;
    this.scene = scene;
    this.onOver = onOver;
    this.controls = new Controls(() => this.session !== null);
    this.isShowing = true;
    document.addEventListener("visibilitychange", () => this.#sleepOrWake());
  }

  begin(run) {
    this.scene.reset();
    this.controls.release();
    this.isShowing = false;
    this.#due_ms = 0;
    this.session = new Session(this.game, run);
  }

  frame = (now) => {
    requestAnimationFrame(this.frame);
    const elapsed_ms = Math.min(now - this.#last, LONGEST_FRAME_MS);
    this.#last = now;
    if (!this.isPaused) this.#advance(steadied(elapsed_ms));
    const view = this.game.view();
    this.scene.draw(view, elapsed_ms);
    showInstruments(view, this.session !== null);
    if (this.session) announcer.look(view);
  };

  #advance(elapsed_ms) {
    this.#due_ms += elapsed_ms;
    for (; this.#due_ms >= TICK_MS; this.#due_ms -= TICK_MS) {
      if (this.session) this.#play();
      else if (this.isShowing) this.#show();
    }
  }

  #play() {
    if (this.session.tick(this.controls.word())) return;
    const over = this.session;
    this.session = null;
    this.onOver(over);
  }

  // Behind the title the game plays by itself, badly.
  #show() {
    if (this.#demoTick % 1500 === 0) this.game.start(String(Math.floor(Math.random() * 1e9)));
    this.#demoTick += 1;
    const hop = this.#demoTick % 140 === 0 ? OUTWARD : this.#demoTick % 140 === 70 ? INWARD : 0;
    const goesOn = this.game.tick((this.#demoTick % 420 < 250 ? RIGHT : LEFT) | hop);
    if (!goesOn) this.#demoTick = 0;
  }

  #sleepOrWake() {
    this.controls.release();
    if (document.hidden) this.isPaused = true;
    page.pause.hidden = !(this.isPaused && this.session);
    if (!document.hidden) setTimeout(() => this.#wake(), this.session ? WAKE_MS : 0);
  }

  #wake() {
    if (document.hidden) return;
    this.isPaused = false;
    this.#due_ms = 0;
    page.pause.hidden = true;
  }
}

// The frames of a 60 Hz display vary a little around 16.7 ms; without this, some frames would tick twice.
function steadied(elapsed_ms) {
  return Math.abs(elapsed_ms - TICK_MS) < 1 ? TICK_MS : elapsed_ms;
}

// ---- the instruments ----

function showInstruments(view, isPlaying) {
  if (isPlaying) setText(page.score, points(view.score));
  setText(page.multiplier, `×${view.multiplier}`);
  page.multiplier.toggleAttribute("data-hot", view.multiplier > 1);
  page.combo.style.width = `${Math.round((100 * view.comboTicks) / COMBO_TICKS)}%`;
  showPips(page.hull, view.hull, FULL_HULL);
  showPips(page.energy, view.energy, FULL_ENERGY);
}

function showPips(element, count, full) {
  while (element.children.length < full) element.append(document.createElement("i"));
  for (const [at, pip] of [...element.children].entries()) pip.toggleAttribute("data-on", at < count);
}

function points(score) {
  return score.toLocaleString("en");
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// ---- the fate of a score ----

let followed = null, landed = null;
let pollTimer = 0;

function showStatus(state, text) {
  page.status.hidden = false;
  page.status.dataset.state = state;
  setText(page.status, text);
}

/** Stores the run, so that nothing can lose it any more, and sends it. */
async function submitScore({ run, claim }) {
  followed = run.run; // which is the submission's id too
  clearTimeout(pollTimer);
  page.retry.hidden = true;
  showStatus("pending", "Pending: sending your run");
  try {
    await outbox.add(run, claim);
    closeRun(run);
    outbox.send();
  } catch (error) {
    showStatus("error", `Not submitted: ${error.message}`);
    page.retry.hidden = false;
    page.retry.onclick = () => submitScore({ run, claim });
  }
}

/** Shows what became of the latest run, now or when the network is back. */
function showSent({ outcome, submission, board: on, player: owner, problem }) {
  page.retry.hidden = outcome !== "kept";
  page.retry.onclick = () => outbox.send();
  if (outcome === "accepted") {
    if (submission === landed || owner !== player?.player) return;
    followed = submission;
    showStatus("pending", "Pending: the server plays your run again");
    pollTimer = setTimeout(() => follow(submission, on), POLL_MS);
  } else if (outcome === "kept") {
    showStatus("waiting", "Saved: your run is sent as soon as the leaderboard can be reached");
  } else {
    showStatus("error", `Not submitted: ${problem?.message ?? "it waited for too long"}`);
  }
}

/** Reads the state each second, in case the live event does not arrive. */
async function follow(submission, on) {
  if (followed !== submission) return;
  try {
    const state = await gateway.submission(submission);
    if (followed !== submission) return;
    await showFate(state, on);
    if (state.state !== "pending" && state.state !== "received" && state.state !== "held") return;
    pollTimer = setTimeout(() => follow(submission, on), state.state === "held" ? HELD_POLL_MS : POLL_MS);
  } catch {
    pollTimer = setTimeout(() => follow(submission, on), 2 * POLL_MS);
  }
}

async function showFate({ state, reason, rank, score }, on) {
  if (state === "promoted") {
    const own = rank ? { rank, score } : await gateway.entry(on, player.player);
    if (own) showRank(own.rank, own.score > score ? `, with your best of ${points(own.score)}` : "");
    boardSoon();
  } else if (state in REASONS) {
    showStatus(REASONS[state], FATES[state === "held" ? state : reason] ?? FATES.rejected);
  }
}

function showRank(rank, addition) {
  readRanks();
  showStatus("rank", `Rank ${rank}${addition || (rank === 1 ? ", the best there is" : "")}`);
}

// ---- the leaderboard ----

let boardTimer = 0, boardDue_ms = Infinity, isReadingBoard = false;
let freshPlayer = null;
let boardWindow = "alltime";
let stopWatching = () => {};

/** Reads the board after `wait_ms`, or sooner if a read is due sooner: a series of changes cannot postpone it. */
function boardSoon(wait_ms = 150) {
  boardDue_ms = Math.min(boardDue_ms, performance.now() + wait_ms);
  if (isReadingBoard) return;
  clearTimeout(boardTimer);
  boardTimer = setTimeout(readBoard, boardDue_ms - performance.now());
}

/** Reads one at a time, so that no old answer replaces a newer one, and then again if a read became due. */
async function readBoard() {
  boardDue_ms = Infinity;
  isReadingBoard = true;
  await showBoard();
  isReadingBoard = false;
  boardSoon(BOARD_POLL_MS);
}

async function showBoard() {
  try {
    const shown = boardWindow, on = board;
    const { entries, total } = await gateway.entries(on, { window: shown, limit: TOP });
    if (shown !== boardWindow || on !== board) return;
    // A player without a rank is not requested: the browser would log the 404 as an error.
    const isOut = courses.entryOn(on) && shown === "alltime" && entries.length === TOP && !entries.some((entry) => entry.player === player.player);
    const own = isOut ? await gateway.entry(on, player.player) : null;
    if (shown !== boardWindow || on !== board) return;
    page.board.replaceChildren(...entries.map(row), ...(own ? [row({ ...own, isApart: true })] : []));
    page.empty.hidden = entries.length > 0;
    setText(page.total, total ? `${total} ${total === 1 ? "player" : "players"}` : "");
    freshPlayer = null;
  } catch (error) {
    if (!page.board.children.length) setText(page.total, error.message);
  }
}

function row({ rank, player: id, name, score, isApart }) {
  const item = document.createElement("li");
  Object.assign(item.dataset, { player: id, rank, score });
  item.toggleAttribute("data-own", id === player?.player);
  item.toggleAttribute("data-apart", Boolean(isApart));
  item.toggleAttribute("data-fresh", id === freshPlayer);
  item.append(cell("rank", rank), cell("who", name), cell("points", points(score)));
  return item;
}

// Names are other people's text, so only textContent may show them.
function cell(kind, text) {
  const element = document.createElement("span");
  element.className = kind;
  element.textContent = String(text);
  return element;
}

function watchBoard() {
  const showConnection = (isOpen) => (page.live.dataset.state = isOpen ? "on" : "waiting");
  const take = (standing) => {
    if (standing.window !== "alltime") return;
    freshPlayer = standing.player;
    if (standing.submission === followed && standing.rank !== null) {
      followed = null;
      landed = standing.submission;
      clearTimeout(pollTimer);
      showRank(standing.rank, "");
    }
    boardSoon();
  };
  stopWatching();
  stopWatching = gateway.live(board, take, showConnection);
}

function chooseWindow(event) {
  const chosen = event.target.closest("[data-window]");
  if (!chosen) return;
  showWindow(chosen.dataset.window);
  boardSoon(0);
}

function showWindow(name) {
  boardWindow = name;
  for (const button of page.windows.children) button.setAttribute("aria-pressed", String(button.dataset.window === name));
}

// ---- the courses ----

let renewed = null;

/** Shows a course's board, and has the next run on it. A run in progress is left alone. */
function choose(course) {
  if (isBusy()) return;
  moveTo(course);
  showTitle(course);
}

/** Has the next run on today's challenge instead of yesterday's, which is over. A run in progress ends first. */
function renew(course) {
  renewed = isBusy() ? course : null;
  if (renewed) return;
  moveTo(course);
  if (page.result.hidden) showTitle(course);
}

function isBusy() {
  return page.panel.hidden || page.play.disabled;
}

function moveTo(course) {
  if (course.board !== board) {
    board = course.board;
    history.replaceState(null, "", board === MAIN_BOARD ? location.pathname : `?${new URLSearchParams({ board })}`);
    page.board.replaceChildren();
    page.empty.hidden = true;
    setText(page.total, "");
    watchBoard();
    boardSoon(0);
  }
  showCourse(course);
}

/** Shows whose board stands beside the game, with the windows that it has. */
function showCourse(course) {
  courses.mark(course.board);
  setText(page.course, course.title);
  page.course.hidden = course.board === MAIN_BOARD;
  for (const button of page.windows.children) button.hidden = !course.windows.includes(button.dataset.window);
  page.windows.hidden = course.windows.length === 1;
  if (!course.windows.includes(boardWindow)) showWindow("alltime");
}

async function readRanks() {
  try {
    await courses.readRanks(player?.player);
  } catch {
    // The cards then show the ranks that they had.
  }
}

async function showCourses() {
  try {
    await courses.read();
  } catch {
    return; // The open course can be played without the others.
  }
  const course = courses.of(board);
  showCourse(course);
  if (page.result.hidden) showTitle(course);
  await readRanks();
  boardSoon();
}

// ---- from title to title ----

function showTitle({ title, about }) {
  setText(page.headline, title);
  setText(page.lead, about);
  setText(page.play, "Play");
  page.lead.hidden = page.keys.hidden = false;
  page.result.hidden = page.message.hidden = true;
  page.status.hidden ||= !["pending", "waiting"].includes(page.status.dataset.state);
}

function showOver(session) {
  const { motes, near_misses, best_combo } = session.game.stats;
  setText(page.score, points(session.game.score));
  setText(page.headline, headline(session));
  announcer.end(headline(session), session.game.score);
  setText(page.final, points(session.game.score));
  setText(page.stats, `${Math.floor(session.recorder.ticks / 60)} s · ${counted(motes, "mote", "motes")} · ${counted(near_misses, "near miss", "near misses")} · best combo ${best_combo}`);
  setText(page.play, "Play again");
  page.lead.hidden = page.keys.hidden = true;
  page.hint.hidden = true;
  page.result.hidden = false;
  page.message.hidden = true;
  page.touch.hidden = true;
  setTimeout(() => showPanel(), 900);
  submitScore({ run: session.run, claim: session.claim() });
}

function headline({ word, recorder }) {
  if (word >= GIVE_UP) return "Adrift";
  return recorder.ticks === LAST_TICK ? "Supernova" : "Burnt out";
}

function counted(count, one, many) {
  return `${count} ${count === 1 ? one : many}`;
}

// The button gets no focus: a late press of the space bar would start the next run.
function showPanel() {
  page.panel.hidden = false;
  page.play.disabled = false;
  page.courses.inert = false;
  if (renewed) renew(renewed);
}

function playOnEnter(event) {
  if (event.key === "Enter" && document.activeElement === document.body && !page.panel.hidden && !page.play.disabled) page.form.requestSubmit();
}

async function play(stage) {
  const name = page.name.value.normalize("NFC").trim() || page.name.placeholder;
  page.play.disabled = true;
  page.message.hidden = true;
  try {
    const run = await openRun(name);
    followed = null;
    page.panel.hidden = true;
    page.courses.inert = true;
    page.status.hidden = true;
    page.retry.hidden = true;
    page.touch.hidden = !matchMedia("(pointer: coarse)").matches;
    page.hint.hidden = false;
    page.play.blur();
    stage.begin(run);
    announcer.begin();
    boardSoon();
  } catch (error) {
    fail(error);
    page.play.disabled = false;
    if (renewed) renew(renewed);
  }
}

function fail(error) {
  page.message.hidden = false;
  setText(page.message, error.message);
}

async function open() {
  page.name.value = player?.wish ?? player?.name ?? "";
  page.windows.addEventListener("click", chooseWindow);
  showBoard();
  watchBoard();
  showCourses();
  outbox.send();
  try {
    const stage = new Stage(await Game.load("arcade.wasm"), new Scene(page.canvas), showOver);
    requestAnimationFrame(stage.frame);
    page.form.addEventListener("submit", (event) => {
      event.preventDefault();
      play(stage);
    });
    addEventListener("keydown", playOnEnter);
    page.play.disabled = false;
  } catch (error) {
    fail(error);
  }
}

open();
