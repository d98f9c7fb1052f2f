/** The boards of the game to choose from: the open course, today's challenge, and the courses of a family. */

const MAIN = "arcade", COURSES = "arcade-course", DAILY = "daily";
const COURSES_SHOWN = 50, HARDEST = 5;
const TICK_MS = 20_000, MINUTE_MS = 60_000, HOUR_MS = 60 * MINUTE_MS, LONGEST_TIMEOUT_MS = 24 * HOUR_MS;
const WINDOWS = new Map([[DAILY, ["alltime"]], [COURSES, ["alltime", "weekly"]]]);
const OPEN_COURSE = {
  board: MAIN,
  kicker: "Open course",
  title: "Perihelion",
  mark: "The classic",
  about: "Two minutes until the star bursts. Gather motes, shave past shards, keep the combo alive.",
  windows: ["alltime", "weekly", "daily"],
};

export class Courses {
  #gateway;
  #list;
  #onChoose;
  #onRenew;
  #courses = [OPEN_COURSE];
  #chosen = MAIN;
  #daily = null;
  #timer = 0;
  #formerPlayers = 0;
  #cards = new Map();
  #entries = new Map();

  /**
   * `list` gets a card for each course; `onChoose` is called with the course of a chosen card, `onRenew` with
   * today's challenge if yesterday's is chosen.
   */
  constructor(gateway, list, onChoose, onRenew) {
    this.#gateway = gateway;
    this.#list = list;
    this.#onChoose = onChoose;
    this.#onRenew = onRenew;
    setInterval(() => this.#showTime(), TICK_MS);
    list.addEventListener("scroll", () => this.#showEdges(), { passive: true });
    new ResizeObserver(() => this.#showEdges()).observe(list);
  }

  /** Returns a course by its board; a board that is not on the list is a course of its own. */
  of(board) {
    const windows = WINDOWS.get(board.split(".")[0]) ?? OPEN_COURSE.windows;
    return this.#courses.find((course) => course.board === board) ?? { ...OPEN_COURSE, board, title: board, kicker: "", windows };
  }

  /** Returns the player's entry on a board as last read, or null. */
  entryOn(board) {
    return this.#entries.get(board) ?? null;
  }

  /** Reads which courses there are, and again when today's challenge is over, or in a minute if it is not open yet. */
  async read() {
    const families = (await this.#gateway.families()).map(({ family }) => family);
    const [daily, courses] = await Promise.all([
      families.includes(DAILY) ? this.#today() : null,
      families.includes(COURSES) ? this.#levels() : [],
    ]);
    this.#courses = [OPEN_COURSE, ...(daily ? [daily] : []), ...courses];
    this.#daily = daily?.board ?? this.#daily;
    this.#draw();
    const left_ms = daily ? daily.ends_ms - Date.now() + 1000 : MINUTE_MS;
    if (families.includes(DAILY)) this.#renewAfter(Math.min(left_ms, LONGEST_TIMEOUT_MS));
  }

  /** Reads the ranks of a player on all courses, and on the chosen board, in one request. */
  async readRanks(player) {
    if (!player) return;
    const boards = new Set([...this.#courses.map(({ board }) => board), this.#chosen]), asked = this.#formerPlayers;
    const entries = await this.#gateway.entriesOn(player, [...boards]);
    if (asked !== this.#formerPlayers) return; // another player has come since
    for (const { board, standing } of entries) this.note(board, standing);
  }

  /** Notes the player's entry on a board, null for none. */
  note(board, entry) {
    this.#entries.set(board, entry);
    const standing = this.#cards.get(board)?.querySelector(".standing");
    if (standing) showStanding(standing, entry, this.of(board));
  }

  /** Forgets the entries of a player who is replaced by another. */
  forget() {
    this.#formerPlayers += 1;
    for (const board of this.#entries.keys()) this.note(board, null);
  }

  mark(board) {
    this.#chosen = board;
    for (const [name, card] of this.#cards) card.setAttribute("aria-pressed", String(name === board));
  }

  async #today() {
    const { boards } = await this.#gateway.familyBoards(DAILY, { order: "newest", limit: 5 });
    const now = Date.now();
    const today = boards.find(({ opens_at, closes_at }) => closes_at && Date.parse(opens_at ?? 0) <= now && now < Date.parse(closes_at));
    if (!today) return null;
    return {
      board: today.board,
      kicker: "Today",
      title: "Daily challenge",
      mark: "One sky for all",
      about: "One sky for everybody, until midnight UTC. Fly it as often as you like.",
      windows: WINDOWS.get(DAILY),
      ends_ms: Date.parse(today.closes_at),
    };
  }

  async #levels() {
    const { boards } = await this.#gateway.familyBoards(COURSES, { limit: COURSES_SHOWN });
    const open = boards.filter(({ state }) => state === "open");
    open.sort((a, b) => (a.metadata.level ?? Infinity) - (b.metadata.level ?? Infinity));
    return open.map(({ board, title, metadata }, at) => ({
      board,
      kicker: `Course ${metadata.level ?? at + 1}`,
      title,
      level: metadata.level,
      about: metadata.about ?? "",
      windows: WINDOWS.get(COURSES),
    }));
  }

  #renewAfter(wait_ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#renew(), wait_ms);
  }

  async #renew() {
    const before = this.#daily;
    try {
      await this.read();
    } catch {
      this.#renewAfter(MINUTE_MS);
      return;
    }
    const now = this.#courses.find(({ ends_ms }) => ends_ms);
    if (now && now.board !== before && this.#chosen === before) this.#onRenew(now);
  }

  #draw() {
    this.#cards = new Map(this.#courses.map((course) => [course.board, this.#card(course)]));
    this.#list.replaceChildren(...[...this.#cards.values()].map(listed));
    for (const { board } of this.#courses) this.note(board, this.entryOn(board));
    this.mark(this.#chosen);
    this.#showTime();
    this.#showEdges();
  }

  // An edge beyond which there are more cards fades.
  #showEdges() {
    const { scrollLeft, clientWidth, scrollWidth } = this.#list;
    this.#list.toggleAttribute("data-before", scrollLeft > 1);
    this.#list.toggleAttribute("data-after", scrollLeft + clientWidth < scrollWidth - 1);
  }

  // Titles are other people's text, so only textContent may show them.
  #card(course) {
    const card = document.createElement("button");
    card.type = "button";
    card.dataset.board = course.board;
    card.toggleAttribute("data-daily", Boolean(course.ends_ms));
    card.append(part("kicker", course.kicker), part("title", course.title), part("standing", ""));
    card.addEventListener("click", () => this.#onChoose(course));
    return card;
  }

  #showTime() {
    for (const { board, kicker, ends_ms } of this.#courses) {
      if (ends_ms) this.#cards.get(board).querySelector(".kicker").textContent = `${kicker} · ${timeLeft(ends_ms - Date.now())}`;
    }
  }
}

function listed(card) {
  const item = document.createElement("li");
  item.append(card);
  return item;
}

function part(kind, text) {
  const element = document.createElement("span");
  element.className = kind;
  element.textContent = text;
  return element;
}

/** Shows the player's rank, or how hard the course is until it is flown. */
function showStanding(element, entry, { level, mark = "" }) {
  const isLevel = !entry && level >= 1 && level <= HARDEST;
  element.toggleAttribute("data-level", isLevel);
  if (isLevel) {
    element.setAttribute("role", "img");
    element.setAttribute("aria-label", `difficulty ${level} of ${HARDEST}`);
    element.textContent = "◆".repeat(level) + "◇".repeat(HARDEST - level);
    return;
  }
  element.removeAttribute("role");
  element.removeAttribute("aria-label");
  element.textContent = entry ? `Rank ${entry.rank} of ${entry.total}` : mark;
}

function timeLeft(left_ms) {
  if (left_ms < MINUTE_MS) return "ends now";
  if (left_ms < HOUR_MS) return `${Math.floor(left_ms / MINUTE_MS)} min left`;
  return `${Math.floor(left_ms / HOUR_MS)} h left`;
}
