/** The JavaScript client against vectors of another implementation, and against a gateway that misbehaves. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Scoregate, ScoregateError, encodeRecording, signatureBase, signedHeaders } from "./scoregate.js";

const vectors = JSON.parse(readFileSync(new URL("./vectors.json", import.meta.url), "utf8"));
const NOW_S = 1_700_000_000;
const RUN = { board: "arcade", ticket: "ticket", key: "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=" };
const CLAIM = { score: 100, ticks: 1, stats: { motes: 1 }, recording: encodeRecording([0], [], 0) };
const RECEIPT = { submission: "s1", state: "pending" };

/** Returns a client whose gateway gives these answers in turn, with its requests and waits. */
function clientOf(...answers) {
  const requests = [];
  const waits = [];
  const fetch = async (url, request) => {
    requests.push({ url, ...request });
    const next = answers.shift();
    if (next instanceof Error) throw next;
    return next;
  };
  const wait = async (ms) => void waits.push(ms);
  const client = new Scoregate("http://localhost:8080", { fetch, wait, now: () => NOW_S * 1000 });
  return { client, requests, waits };
}

function json(status, content, headers = {}) {
  return new Response(JSON.stringify(content), { status, headers });
}

function expired(server_time) {
  return json(401, { type: "https://example.org/problems/signature-expired", title: "expired", server_time });
}

for (const { name, runs, checkpoint_every, checkpoints, hex } of vectors.recordings) {
  test(`recording: ${name}`, () => {
    const inputs = runs.flatMap(([length, word]) => Array(length).fill(word));
    const bytes = encodeRecording(inputs, checkpoints.map(BigInt), checkpoint_every);
    assert.equal(Buffer.from(bytes).toString("hex"), hex);
  });
}

for (const vector of vectors.signatures) {
  test(`signature: ${vector.name}`, async () => {
    const url = new URL(vector.url);
    const parameters = vector.signature_input.slice("sg=".length);
    const contentDigest = vector.content_digest;
    assert.equal(signatureBase({ method: "POST", url, contentDigest, parameters }), vector.base);
    assert.deepEqual(await signedHeaders({ ...vector, url }), {
      "Content-Type": "application/json",
      "Content-Digest": vector.content_digest,
      "Signature-Input": vector.signature_input,
      Signature: vector.signature,
    });
  });
}

test("a recording without ticks, with missing checkpoints or with a word beyond 32 bits is refused", () => {
  assert.throws(() => encodeRecording([], [], 0), RangeError);
  assert.throws(() => encodeRecording([0, 0], [], 1), RangeError);
  assert.throws(() => encodeRecording([2 ** 32], [], 0), RangeError);
});

test("after a network error and a 503 the identical request is sent again", async () => {
  const busy = json(503, {}, { "Retry-After": "3" });
  const { client, requests, waits } = clientOf(new TypeError("reset"), busy, json(202, RECEIPT));
  assert.deepEqual(await client.submit(RUN, CLAIM), RECEIPT);
  assert.equal(requests.length, 3);
  assert.deepEqual(waits, [500, 3000]);
  for (const request of requests) {
    assert.equal(request.body, requests[0].body);
    assert.deepEqual(request.headers, requests[0].headers);
  }
});

test("after an expired signature it signs anew, once, by the server's clock", async () => {
  const { client, requests } = clientOf(expired(NOW_S + 5000), json(202, RECEIPT));
  await client.submit(RUN, CLAIM);
  const [first, second] = requests.map((request) => request.headers["Signature-Input"]);
  assert.match(first, /;created=1700000000;expires=1700000120;/);
  assert.match(second, /;created=1700005000;expires=1700005120;/);
  assert.notEqual(/nonce="[^"]+"/.exec(first)[0], /nonce="[^"]+"/.exec(second)[0]);
});

test("a second expired signature is an error", async () => {
  const { client, requests } = clientOf(expired(NOW_S + 5000), expired(NOW_S + 9000));
  await assert.rejects(client.submit(RUN, CLAIM), { name: "ScoregateError", reason: "signature-expired" });
  assert.equal(requests.length, 2);
});

test("a refusal is not repeated and carries the problem document", async () => {
  const type = "https://example.org/problems/run-used";
  const problem = { type, title: "used", detail: "This run has a score.", status: 409 };
  const { client, requests } = clientOf(json(409, problem));
  const error = await client.submit(RUN, CLAIM).catch((reason) => reason);
  assert.ok(error instanceof ScoregateError);
  assert.deepEqual([error.status, error.reason, error.message], [409, "run-used", "This run has a score."]);
  assert.deepEqual(error.problem, problem);
  assert.equal(requests.length, 1);
});

test("a commitment has the digest and the size of the recording, and not the recording", async () => {
  const { client, requests } = clientOf(json(202, RECEIPT));
  assert.deepEqual(await client.commit(RUN, CLAIM), RECEIPT);
  const sent = JSON.parse(requests[0].body);
  assert.equal(sent.recording, undefined);
  assert.equal(sent.recording_digest, `sha256:${createHash("sha256").update(CLAIM.recording).digest("hex")}`);
  assert.equal(sent.recording_bytes, CLAIM.recording.length);
});

test("a recording that is asked for is sent as it is, until it is answered", async () => {
  const list = { player: "p", reveals: [{ submission: "s1", reveal_by: "2026-11-20T12:00:00Z" }] };
  const { client, requests } = clientOf(json(200, list), json(503, {}), json(200, { submission: "s1" }));
  client.token = "t";
  const [{ submission }] = await client.reveals();
  await client.reveal(submission, CLAIM.recording);
  assert.deepEqual(requests.map(({ method, url }) => `${method} ${new URL(url).pathname}`), [
    "GET /v1/reveals", "PUT /v1/submissions/s1/recording", "PUT /v1/submissions/s1/recording",
  ]);
  assert.deepEqual(requests[2].body, CLAIM.recording);
  assert.equal(requests[2].headers.Authorization, "Bearer t");
  assert.equal(requests[2].headers["Content-Type"], "application/octet-stream");
});

test("it gives up after six attempts", async () => {
  const { client, requests } = clientOf(...Array.from({ length: 7 }, () => json(503, {})));
  await assert.rejects(client.submit(RUN, CLAIM), { status: 503 });
  assert.equal(requests.length, 6);
});

test("a new player's token authorises what follows", async () => {
  const { client, requests } = clientOf(json(201, { player: "p", name: "Ada", token: "t" }), json(201, RUN));
  await client.createPlayer("Ada");
  await client.openRun("arcade", "arcade-1");
  assert.equal(requests[0].headers.Authorization, undefined);
  assert.equal(requests[1].headers.Authorization, "Bearer t");
  assert.equal(requests[1].body, '{"build":"arcade-1"}');
});

test("a signed request carries no bearer token", async () => {
  const { client, requests } = clientOf(json(202, RECEIPT));
  client.token = "t";
  await client.submit(RUN, CLAIM);
  assert.equal(requests[0].headers.Authorization, undefined);
});

test("a player without an entry is null", async () => {
  const { client } = clientOf(json(404, { title: "no entry" }));
  assert.equal(await client.entry("arcade", "p"), null);
});

test("the families are listed page by page", async () => {
  const families = [{ family: "car" }, { family: "track" }];
  const { client, requests } = clientOf(
    json(200, { families: families.slice(0, 1), next: "car" }), json(200, { families: families.slice(1), next: null }),
  );
  assert.deepEqual(await client.families(), families);
  assert.deepEqual(requests.map(pathOf), ["/v1/families", "/v1/families?cursor=car"]);
});

test("boards of a family are read by order, cursor and metadata", async () => {
  const page = { family: "track", boards: [], next: null };
  const { client, requests } = clientOf(json(200, page), json(200, page));
  assert.deepEqual(await client.familyBoards("track"), page);
  const metadata = { is_wet: false, length: 3 };
  await client.familyBoards("track", { order: "newest", limit: 5, cursor: "7~0~track.a", metadata });
  assert.deepEqual(requests.map(pathOf), [
    "/v1/families/track/boards?order=name&limit=25",
    "/v1/families/track/boards?order=newest&limit=5&cursor=7%7E0%7Etrack.a" +
      "&metadata.is_wet=false&metadata.length=3",
  ]);
});

test("a player's standings over a family and entries on boards are read", async () => {
  const page = { family: "track", player: "p", window: "alltime", standings: [], next: "alltime~track.b" };
  const entries = [{ board: "track.a", status: "unranked", window: "alltime", standing: null }];
  const { client, requests } = clientOf(json(200, page), json(200, page), json(200, { player: "p", entries }));
  const { next } = await client.standings("track", "p");
  await client.standings("track", "p", { window: "daily", limit: 2, cursor: next });
  assert.deepEqual(await client.entriesOn("p", ["track.a", "solo"], { window: "daily" }), entries);
  assert.deepEqual(requests.map(pathOf), [
    "/v1/families/track/players/p/standings?limit=100",
    "/v1/families/track/players/p/standings?window=daily&limit=2&cursor=alltime%7Etrack.b",
    "/v1/players/p/entries?boards=track.a%2Csolo&window=daily",
  ]);
});

function pathOf({ url }) {
  const { pathname, search } = new URL(url);
  return pathname + search;
}

test("an asset is downloaded again until it has its digest", async () => {
  const map = new Uint8Array([1, 2, 3]);
  const digest = createHash("sha256").update(map).digest("hex");
  const { client, requests, waits } = clientOf(
    json(503, { title: "busy" }, { "Retry-After": "2" }),
    new Response(map.slice(1)),
    new Response(map),
  );
  assert.deepEqual(await client.asset("track.monza", `sha256:${digest}`), map);
  assert.deepEqual([...new Set(requests.map(({ url }) => url))], [
    `http://localhost:8080/v1/boards/track.monza/assets/${digest}`,
  ]);
  assert.deepEqual(waits, [2000, 1000]);
});

test("without the means to compare a digest no asset is downloaded", async () => {
  const { client, requests } = clientOf(new Response("a map"));
  const own = Object.getOwnPropertyDescriptor(globalThis, "crypto");
  Object.defineProperty(globalThis, "crypto", { value: { getRandomValues: (bytes) => bytes }, configurable: true });
  try {
    await assert.rejects(client.asset("track.monza", "sha256:00"), /Comparing .* needs a secure page/);
    await assert.rejects(client.submit(RUN, CLAIM), /Signing needs a secure page/);
    await assert.rejects(client.commit(RUN, CLAIM), /Signing needs a secure page/);
  } finally {
    Object.defineProperty(globalThis, "crypto", own);
  }
  assert.equal(requests.length, 0);
});

test("an asset that nobody has is not waited for", async () => {
  const { client, requests } = clientOf(json(404, { type: "https://example.org/problems/not-found" }));
  await assert.rejects(client.asset("track.monza", "sha256:00"), { status: 404 });
  assert.equal(requests.length, 1);
});

test("a run is submitted without a recording, as a board that replays nothing takes it", async () => {
  const { client, requests } = clientOf(json(202, RECEIPT));
  await client.submit(RUN, { score: 7, ticks: 3, stats: {} });
  assert.deepEqual(JSON.parse(requests[0].body), { score: 7, ticks: 3, stats: {} });
});

/** Replaces EventSource during a test, and returns the sources that are opened. */
function eventSources(context) {
  const sources = [];
  class Source extends EventTarget {
    static CLOSED = 2;
    readyState = 0;
    constructor(url) {
      super();
      this.url = url;
      sources.push(this);
    }
    close() {
      this.readyState = Source.CLOSED;
    }
    lose(readyState) {
      this.readyState = readyState;
      this.dispatchEvent(new Event("error"));
    }
    tell(kind, data, lastEventId) {
      this.dispatchEvent(new MessageEvent(kind, { data: JSON.stringify(data), lastEventId }));
    }
  }
  const before = globalThis.EventSource;
  globalThis.EventSource = Source;
  context.after(() => (globalThis.EventSource = before));
  return sources;
}

test("a live feed that is refused is opened again where it was, after pauses that grow and are bounded", async (context) => {
  const sources = eventSources(context);
  const { client, waits } = clientOf();
  const standings = [];
  const connections = [];
  client.live("arcade", (standing) => standings.push(standing), (isOpen) => connections.push(isOpen));
  sources[0].dispatchEvent(new Event("open"));
  sources[0].tell("begin", {}, "7-0");
  sources[0].tell("standing", { rank: 1 }, "8-0");
  for (let refusal = 0; refusal < 9; refusal += 1) {
    sources.at(-1).lose(EventSource.CLOSED);
    await new Promise(setImmediate);
  }
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]);
  assert.equal(sources.length, 10);
  assert.equal(sources[0].url.search, "");
  assert.equal(sources[9].url.search, "?after=8-0");

  sources[9].dispatchEvent(new Event("open"));
  sources[9].tell("standing", { rank: 2 }, "9-0");
  assert.deepEqual(standings, [{ rank: 1 }, { rank: 2 }]);
  assert.deepEqual(connections, [true, ...Array(9).fill(false), true]);
  sources[9].lose(EventSource.CLOSED);
  assert.equal(waits.at(-1), 500);
});

test("a live feed that the browser reopens, or that was stopped, is not opened again", async (context) => {
  const sources = eventSources(context);
  const { client, waits } = clientOf();
  const stop = client.live("arcade", () => {});
  sources[0].lose(0); // the connection was lost, and the browser is connecting
  assert.deepEqual(waits, []);
  sources[0].lose(EventSource.CLOSED);
  stop(); // during the pause
  await new Promise(setImmediate);
  assert.equal(sources.length, 1);
});
