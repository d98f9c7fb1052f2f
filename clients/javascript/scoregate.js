/**
 * The Scoregate client for browsers and Node 20 or later: players, runs, scores, boards, live standings.
 *
 * It has no dependencies. Signing uses WebCrypto, which browsers offer on https and on localhost only.
 */

const ATTEMPTS = 6;
const ATTEMPT_MS = 15_000;
const DOWNLOAD_MS = 120_000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 60_000;
const SIGNATURE_LIFE_S = 120;
const COMPONENTS = '("@method" "@authority" "@path" "@query" "content-type" "content-digest")';
const MAGIC = [0x53, 0x47, 0x52, 0x31]; // "SGR1"

/** A refusal by the gateway, with its problem document (RFC 9457), or a failure to reach it (`status` 0). */
export class ScoregateError extends Error {
  /**
   * @param {number} status HTTP status, 0 without an answer
   * @param {{type?: string, title?: string, detail?: string}} problem the problem document
   */
  constructor(status, problem) {
    super(problem.detail || problem.title || `HTTP status ${status}`);
    this.name = "ScoregateError";
    this.status = status;
    this.problem = problem;
  }

  /** The stable name of the problem: the last segment of its type, "" without one. */
  get reason() {
    return String(this.problem.type ?? "").split(/[/#:]/).pop();
  }
}

/** A client of one gateway for one player. Set `token` to continue as an earlier player. */
export class Scoregate {
  #base;
  #fetch;
  #now;
  #wait;
  #clockOffset_s = 0;

  /**
   * @param {string} baseUrl the URL of the gateway, without "/v1"
   * @param {{token?: string, fetch?: typeof fetch, now?: () => number,
   *   wait?: (ms: number) => Promise<void>}} [options]
   *   the player's token; the others replace the environment in tests (`now` in milliseconds)
   */
  constructor(baseUrl, options = {}) {
    this.#base = new URL(baseUrl);
    this.token = options.token ?? null;
    this.#fetch = options.fetch ?? ((...request) => globalThis.fetch(...request));
    this.#now = options.now ?? (() => Date.now());
    this.#wait = options.wait ?? ((ms) => new Promise((resume) => setTimeout(resume, ms)));
  }

  /**
   * Creates an anonymous player, as whom this client acts from now on.
   * @param {string} name display name
   * @returns {Promise<{player: string, name: string, token: string}>}
   */
  async createPlayer(name) {
    const player = await this.#call("POST", "/v1/players", { name });
    this.token = player.token;
    return player;
  }

  /**
   * Opens a run, which has a ticket, a signing key, a seed and an interval for checkpoints.
   * @param {string} board
   * @param {string} build the game's build, as the board's policy names it
   * @param {string} [nameSignature] the studio's signature of the board's name, if the run may open the board
   */
  openRun(board, build, nameSignature) {
    const run = { build, ...(nameSignature && { name_signature: nameSignature }) };
    return this.#call("POST", `/v1/boards/${encodeURIComponent(board)}/runs`, run);
  }

  /**
   * Submits a score and returns its receipt, `{submission, state, ...}`. It is then durable.
   * Sends the same bytes again after a network error or a 503, and signs once more if the clock was off.
   * @param {object} run what `openRun` returned
   * @param {{score: number, ticks: number, stats: Record<string, number>, recording?: Uint8Array}} claim
   *   a board that replays its runs needs the recording
   * @throws {ScoregateError}
   */
  async submit(run, { score, ticks, stats, recording }) {
    return this.#sendClaim(run, { score, ticks, stats, ...(recording && { recording: toBase64(recording) }) });
  }

  /**
   * Submits a score with only the digest of its recording, on a board that offers this (`reveal_s`). Keep the
   * recording while the run is pending, or counts without being verified, and send it with `reveal` once
   * `reveals` lists it.
   * @param {object} run what `openRun` returned
   * @param {{score: number, ticks: number, stats: Record<string, number>, recording: Uint8Array}} claim
   * @throws {ScoregateError}
   */
  async commit(run, { score, ticks, stats, recording }) {
    refuseInsecure("Signing");
    const recording_digest = `sha256:${toHex(await sha256(recording))}`;
    return this.#sendClaim(run, { score, ticks, stats, recording_digest, recording_bytes: recording.length });
  }

  /**
   * Lists the recordings that the player is asked to send, the next deadline first:
   * `[{submission, reveal_by, ...}]`.
   */
  async reveals() {
    return (await this.#call("GET", "/v1/reveals")).reveals;
  }

  /**
   * Sends a requested recording, again after a network error or a 503, which is safe.
   * @param {string} id the submission
   * @param {Uint8Array} recording
   */
  reveal(id, recording) {
    const headers = { Authorization: `Bearer ${this.token}`, "Content-Type": "application/octet-stream" };
    const url = this.#url(`/v1/submissions/${encodeURIComponent(id)}/recording`);
    return this.#sendUntilAnswered(url, { method: "PUT", headers, body: recording });
  }

  async #sendClaim(run, claim) {
    const url = this.#url(`/v1/boards/${encodeURIComponent(run.board)}/scores`);
    const body = JSON.stringify(claim);
    const signed = async () => ({ method: "POST", headers: await this.#signed(run, url, body), body });
    try {
      return await this.#sendUntilAnswered(url, await signed());
    } catch (error) {
      const isRefusal = error instanceof ScoregateError && error.status === 401;
      if (!isRefusal || error.reason !== "signature-expired") throw error;
      this.#clockOffset_s = Number(error.problem.server_time) - this.#now() / 1000;
      if (!Number.isFinite(this.#clockOffset_s)) throw error;
      return this.#sendUntilAnswered(url, await signed());
    }
  }

  /**
   * Reads the state of a submission, `{state, reason, rank, ...}`. Only its player may.
   * @param {string} id
   */
  submission(id) {
    return this.#call("GET", `/v1/submissions/${encodeURIComponent(id)}`);
  }

  /**
   * Reads a page of a board, best first: `{total, entries: [{rank, player, name, score, ...}]}`.
   * @param {string} board
   * @param {{window?: string, offset?: number, limit?: number}} [page]
   */
  entries(board, { window = "alltime", offset = 0, limit = 25 } = {}) {
    const query = new URLSearchParams({ window, offset: String(offset), limit: String(limit) });
    return this.#call("GET", `/v1/boards/${encodeURIComponent(board)}/entries?${query}`);
  }

  /**
   * Reads the entry of a player, null if there is none.
   * @param {string} board
   * @param {string} player
   */
  async entry(board, player, { window = "alltime" } = {}) {
    const path = `/v1/boards/${encodeURIComponent(board)}/entries/${encodeURIComponent(player)}`;
    try {
      return await this.#call("GET", `${path}?${new URLSearchParams({ window })}`);
    } catch (error) {
      if (error instanceof ScoregateError && error.status === 404) return null;
      throw error;
    }
  }

  /**
   * Lists the families of boards, all pages: `[{family, title, opened_by, filters, rollups}]`.
   */
  async families() {
    const families = [];
    let cursor = null;
    do {
      const page = await this.#call("GET", `/v1/families${queryOf({ cursor })}`);
      families.push(...page.families);
      cursor = page.next;
    } while (cursor);
    return families;
  }

  /**
   * Reads a page of a family's boards: `{boards: [{board, title, state, metadata, ...}], next}`. Pass `next` as
   * `cursor` for the next page; it is null after the last. A filtered page may be short, or even empty.
   * @param {string} family
   * @param {{order?: "name" | "newest" | "played", limit?: number, cursor?: string,
   *   metadata?: Record<string, string | number | boolean>}} [page] `metadata` are the values to filter by
   */
  familyBoards(family, { order = "name", limit = 25, cursor = null, metadata = {} } = {}) {
    const filters = Object.entries(metadata).map(([field, value]) => [`metadata.${field}`, value]);
    const query = queryOf({ order, limit, cursor, ...Object.fromEntries(filters) });
    return this.#call("GET", `/v1/families/${encodeURIComponent(family)}/boards${query}`);
  }

  /**
   * Reads a page of the boards of a family on which a player stands, by name of the board:
   * `{window, standings: [{board, title, rank, total, score, ...}], next}`. Pass `next` as `cursor` for the next
   * page; it is null after the last.
   * @param {string} family
   * @param {string} player
   * @param {{window?: string, limit?: number, cursor?: string}} [page]
   */
  standings(family, player, { window, limit = 100, cursor = null } = {}) {
    const path = `/v1/families/${encodeURIComponent(family)}/players/${encodeURIComponent(player)}/standings`;
    return this.#call("GET", path + queryOf({ window, limit, cursor }));
  }

  /**
   * Reads the entries of a player on up to 100 boards, in their order: `[{board, status, standing}]`. `status` is
   * `ranked`, `unranked`, `no-board`, `no-window` or `rebuilding`; `standing` is `{rank, total, score, ...}`, or null.
   * @param {string} player
   * @param {string[]} boards
   * @param {{window?: string}} [options]
   */
  async entriesOn(player, boards, { window = "alltime" } = {}) {
    const query = queryOf({ boards: boards.join(","), window });
    return (await this.#call("GET", `/v1/players/${encodeURIComponent(player)}/entries${query}`)).entries;
  }

  /**
   * Downloads the asset of a board, such as its map, and compares its digest. Keep it: it never changes.
   * Tries again after a network error, a 503 and a damaged file.
   * @param {string} board
   * @param {string} digest `asset` of the board or the run: "sha256:" and 64 hexadecimal digits
   * @returns {Promise<Uint8Array>}
   */
  async asset(board, digest) {
    refuseInsecure("Comparing a file with its digest");
    const name = digest.replace(/^sha256:/, "");
    const url = this.#url(`/v1/boards/${encodeURIComponent(board)}/assets/${encodeURIComponent(name)}`);
    const read = (response) => fileOf(response, name);
    return this.#sendUntilAnswered(url, { method: "GET", headers: {} }, { read, limit_ms: DOWNLOAD_MS });
  }

  /**
   * Calls `onStanding` with each change of the board as it happens, until the returned function is called.
   * @param {string} board
   * @param {(standing: {player: string, name: string, score: number, submission: string, window: string,
   *   rank: number}) => void} onStanding
   * @param {(isOpen: boolean) => void} [onConnection] is called when the stream opens and when it is lost, after
   *   which it reconnects by itself, with what has changed meanwhile
   * @returns {() => void}
   */
  live(board, onStanding, onConnection = () => {}) {
    let source, last, refusals = 0, isOver = false;
    const open = () => {
      if (isOver) return;
      source = new EventSource(this.#url(`/v1/boards/${encodeURIComponent(board)}/live${queryOf({ after: last })}`));
      source.addEventListener("open", () => {
        refusals = 0;
        onConnection(true);
      });
      source.addEventListener("error", lose);
      for (const kind of ["begin", "reset", "standing"]) {
        source.addEventListener(kind, (event) => (last = event.lastEventId || undefined));
      }
      source.addEventListener("standing", (event) => onStanding(JSON.parse(event.data)));
    };
    const lose = () => {
      onConnection(false);
      // A browser connects again after a lost connection, but not after an answer such as 503 (HTML, 9.2.3).
      if (isOver || source.readyState !== EventSource.CLOSED) return;
      this.#wait(Math.min(FIRST_WAIT_MS * 2 ** refusals, LONGEST_WAIT_MS)).then(open);
      refusals += 1;
    };
    open();
    return () => {
      isOver = true;
      source.close();
    };
  }

  #url(path) {
    return new URL(this.#base.pathname.replace(/\/$/, "") + path, this.#base);
  }

  async #call(method, path, content) {
    const headers = {};
    if (this.token) headers.Authorization = `Bearer ${this.token}`;
    if (content !== undefined) headers["Content-Type"] = "application/json";
    const body = content === undefined ? undefined : JSON.stringify(content);
    return answer(await this.#attempt(this.#url(path), { method, headers, body }));
  }

  async #attempt(url, request, limit_ms = ATTEMPT_MS) {
    try {
      const signal = AbortSignal.timeout(limit_ms);
      return await this.#fetch(url.href, { ...request, credentials: "omit", signal });
    } catch (error) {
      const detail = `The leaderboard cannot be reached (${error.message}).`;
      throw new ScoregateError(0, { title: "no answer", detail });
    }
  }

  #signed(run, url, body) {
    const created = Math.floor(this.#now() / 1000 + this.#clockOffset_s);
    const { key, ticket: keyid } = run;
    return signedHeaders({ method: "POST", url, body, key, keyid, created, nonce: randomNonce() });
  }

  // A retry sends the same headers, since a new nonce would make it another request.
  async #sendUntilAnswered(url, request, { read = answer, limit_ms = ATTEMPT_MS } = {}) {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await read(await this.#attempt(url, request, limit_ms));
      } catch (error) {
        if (!isWorthRepeating(error) || attempt === ATTEMPTS) throw error;
        await this.#wait(error.retryAfter_ms ?? FIRST_WAIT_MS * 2 ** (attempt - 1));
      }
    }
  }
}

/**
 * Encodes a recording, container version 1.
 * @param {number[]} inputs one word of 32 bits for each tick
 * @param {bigint[]} checkpoints the state hash after every `checkpointEvery` ticks
 * @param {number} checkpointEvery 0 for no checkpoints
 * @returns {Uint8Array}
 */
export function encodeRecording(inputs, checkpoints, checkpointEvery) {
  const expected = checkpointEvery > 0 ? Math.floor(inputs.length / checkpointEvery) : 0;
  if (inputs.length === 0) throw new RangeError("a recording has at least one tick");
  if (checkpoints.length !== expected) {
    throw new RangeError(`${expected} checkpoints expected, got ${checkpoints.length}`);
  }
  const runs = runLengths(inputs);
  const bytes = [...MAGIC];
  const numbers = [inputs.length, checkpointEvery, runs.length, ...runs.flat()];
  for (const number of numbers) pushVarint(bytes, number);
  for (const hash of checkpoints) pushLittleEndian64(bytes, hash);
  return Uint8Array.from(bytes);
}

/**
 * Returns the headers that sign a request: content type, digest, signature input, signature.
 * @param {{method: string, url: URL, body: string, key: string, keyid: string, created: number,
 *   nonce: string}} request `key` is in base64, `created` in Unix seconds
 * @returns {Promise<Record<string, string>>}
 */
export async function signedHeaders({ method, url, body, key, keyid, created, nonce }) {
  refuseInsecure("Signing");
  const contentDigest = `sha-256=:${toBase64(await sha256(new TextEncoder().encode(body)))}:`;
  const expires = created + SIGNATURE_LIFE_S;
  const parameters =
    `${COMPONENTS};created=${created};expires=${expires};nonce="${nonce}";keyid="${keyid}"` +
    ';alg="hmac-sha256";tag="scoregate-run"';
  const signature = await hmac(key, signatureBase({ method, url, contentDigest, parameters }));
  return {
    "Content-Type": "application/json",
    "Content-Digest": contentDigest,
    "Signature-Input": `sg=${parameters}`,
    Signature: `sg=:${signature}:`,
  };
}

/**
 * Returns the text to sign (RFC 9421, section 2.5).
 * @param {{method: string, url: URL, contentDigest: string, parameters: string}} parts
 * @returns {string}
 */
export function signatureBase({ method, url, contentDigest, parameters }) {
  return [
    `"@method": ${method}`,
    `"@authority": ${url.host.toLowerCase()}`,
    `"@path": ${url.pathname}`,
    `"@query": ${url.search || "?"}`,
    '"content-type": application/json',
    `"content-digest": ${contentDigest}`,
    `"@signature-params": ${parameters}`,
  ].join("\n");
}

/** Returns the query of those parameters that have a value, with its question mark. */
function queryOf(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null);
  return given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : "";
}

function refuseInsecure(task) {
  if (!globalThis.crypto?.subtle) throw new Error(`${task} needs a secure page: use https or localhost.`);
}

async function sha256(bytes) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

async function hmac(keyBase64, text) {
  const raw = Uint8Array.from(atob(keyBase64), (character) => character.charCodeAt(0));
  const key = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return toBase64(new Uint8Array(await crypto.subtle.sign("HMAC", key, new TextEncoder().encode(text))));
}

async function answer(response) {
  const content = await response.json().catch(() => ({}));
  if (response.ok) return content;
  const error = new ScoregateError(response.status, content);
  error.retryAfter_ms = retryAfter_ms(response.headers.get("Retry-After"));
  throw error;
}

async function fileOf(response, digest) {
  if (!response.ok) return answer(response);
  const content = new Uint8Array(await response.arrayBuffer().catch(() => new ArrayBuffer(0)));
  if (toHex(await sha256(content)) === digest) return content;
  throw new ScoregateError(0, { title: "damaged file", detail: "The file did not arrive whole." });
}

function isWorthRepeating(error) {
  return error instanceof ScoregateError && (error.status === 0 || error.status === 503);
}

// Retry-After is a number of seconds or a date (RFC 9110, section 10.2.3).
function retryAfter_ms(value) {
  if (!value) return undefined;
  const wait = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now();
  return Number.isFinite(wait) ? Math.min(Math.max(wait, 0), LONGEST_WAIT_MS) : undefined;
}

function randomNonce() {
  const bytes = crypto.getRandomValues(new Uint8Array(18));
  return toBase64(bytes).replaceAll("+", "-").replaceAll("/", "_");
}

function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function toBase64(bytes) {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary);
}

function runLengths(inputs) {
  const runs = [];
  for (const input of inputs) {
    const last = runs.at(-1);
    if (last && last[1] === input) last[0] += 1;
    else runs.push([1, input]);
  }
  return runs;
}

// Division instead of shifts, since JavaScript's bit operators take a word of 32 bits as signed.
function pushVarint(bytes, number) {
  const isWord = Number.isInteger(number) && number >= 0 && number <= 0xffffffff;
  if (!isWord) throw new RangeError(`no 32-bit word: ${number}`);
  let rest = number;
  while (rest >= 128) {
    bytes.push((rest % 128) + 128);
    rest = Math.floor(rest / 128);
  }
  bytes.push(rest);
}

function pushLittleEndian64(bytes, hash) {
  const word = BigInt.asUintN(64, hash);
  for (let shift = 0n; shift < 64n; shift += 8n) bytes.push(Number((word >> shift) & 255n));
}
