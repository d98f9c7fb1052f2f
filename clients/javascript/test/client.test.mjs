/** The JavaScript client against vectors of another implementation, and against a gateway that misbehaves. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import {
  NoAnswer, Recorder, ScoregateError, claimText, commitmentText, contentDigest, encodeRecording, recordingDigest, sign, signatureBase,
} from "../src/index.js";
import { CLAIM, NOW_S, RECEIPT, RUN, clientOf, expired, json, pathOf, problem, raw } from "./gateway.mjs";

const vectors = (name) => JSON.parse(readFileSync(new URL(`../../vectors/${name}.json`, import.meta.url), "utf8"));
const bytesOf = (base64) => new Uint8Array(Buffer.from(base64, "base64"));
const wordsOf = (inputs) => inputs.flatMap(([length, word]) => Array(length).fill(word));
const hashesOf = (checkpoints) => checkpoints.map((hash) => BigInt(`0x${hash}`));

for (const { name, inputs, checkpoints, checkpoint_ticks, recording, digest } of vectors("recordings")) {
  test(`recording: ${name}`, async () => {
    const bytes = encodeRecording(wordsOf(inputs), hashesOf(checkpoints), checkpoint_ticks);
    assert.equal(Buffer.from(bytes).toString("hex"), recording);
    assert.equal(await recordingDigest(bytes), digest);
  });
}

for (const { name, inputs, checkpoints, checkpoint_ticks } of vectors("unencodable")) {
  test(`no recording: ${name}`, () => {
    assert.throws(() => encodeRecording(wordsOf(inputs), hashesOf(checkpoints), checkpoint_ticks), RangeError);
  });
}

for (const { name, score, ticks, stats, recording, committed, body } of vectors("claims")) {
  test(`claim: ${name}`, async () => {
    const claim = { score, ticks, stats: Object.fromEntries(stats), ...(recording && { recording: bytesOf(recording) }) };
    const text = committed ? await commitmentText(claim) : claimText(claim);
    assert.equal(text, Buffer.from(body, "base64").toString());
  });
}

for (const { name, content_type: contentType, body, content_digest, base, signature_input, signature, alg, ...rest } of vectors("signatures")) {
  test(`signature: ${name}`, async () => {
    const request = { ...rest, alg: alg || null, contentType, body: bytesOf(body) };
    assert.equal(await contentDigest(request.body), content_digest);
    assert.equal(signatureBase(request, content_digest), base);
    assert.deepEqual(await sign(request), {
      "Content-Type": contentType,
      "Content-Digest": content_digest,
      "Signature-Input": signature_input,
      Signature: signature,
    });
  });
}

test("the recorder says when a checkpoint is due, and takes none at another time", () => {
  const recorder = new Recorder(2);
  assert.deepEqual([recorder.tick(0), recorder.tick(3)], [false, true]);
  assert.throws(() => recorder.tick(3), RangeError);
  assert.throws(() => recorder.finish(), RangeError);
  recorder.checkpoint(1n);
  assert.throws(() => recorder.checkpoint(1n), RangeError);
  assert.equal(recorder.tick(3), false);
  assert.deepEqual(recorder.finish(), encodeRecording([0, 3, 3], [1n], 2));
});

test("after a network error and a 503 the identical request is sent again", async () => {
  const busy = json(503, {}, { "retry-after": "3" });
  const { client, requests, waits } = clientOf([new NoAnswer("reset"), busy, json(202, RECEIPT)]);
  assert.deepEqual(await client.submit(RUN, CLAIM), RECEIPT);
  assert.equal(requests.length, 3);
  assert.deepEqual(waits, [500, 3000]);
  for (const request of requests) assert.deepEqual(request, requests[0]);
});

test("nobody but the gateway sets the clock, and never to what is no time", async () => {
  const { headers, ...answer } = expired(NOW_S + 5000);
  const strangers = [{ ...answer, headers: { "content-type": "application/json" } }, expired(-1), expired(2 ** 52)];
  const { client, requests } = clientOf([...strangers, json(202, RECEIPT)]);
  for (const _ of strangers) await assert.rejects(client.submit(RUN, CLAIM), { name: "ScoregateError", status: 401 });
  await client.submit(RUN, CLAIM);
  for (const { headers } of requests) assert.match(headers["Signature-Input"], new RegExp(`created=${NOW_S};`));
});

test("what a problem says is a text, or not said", async () => {
  const { client } = clientOf([problem(403, "x", { detail: { toString: null } }), problem(403, "x", { detail: 7, title: [] })]);
  await assert.rejects(client.submit(RUN, CLAIM), { name: "ScoregateError", message: "x" });
  await assert.rejects(client.submit(RUN, CLAIM), { name: "ScoregateError", message: "HTTP status 403" });
});

test("pauses double up to half a minute, and are never the same for two clients", async () => {
  for (const [random, share] of [[1, 1], [0, 0.5]]) {
    const { client, waits } = clientOf(Array(9).fill(json(503, {})), { random: () => random, attempts: 9 });
    await assert.rejects(client.submit(RUN, CLAIM), { status: 503 });
    assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000].map((ms) => ms * share));
  }
});

test("a Retry-After may be a date, and one of more than a minute is the caller's to obey", async () => {
  const date = new Date((NOW_S + 40) * 1000).toUTCString();
  const { client, waits, requests } = clientOf([json(429, {}, { "retry-after": date }), problem(503, "x", {}, { "retry-after": "61" })]);
  const error = await client.submit(RUN, CLAIM).catch((reason) => reason);
  assert.deepEqual([error.status, error.retryAfter, waits, requests.length], [503, 61, [40_000], 2]);
});

test("after an expired signature it signs anew, once, by the server's clock, and keeps to it", async () => {
  const { client, requests } = clientOf([expired(NOW_S + 5000), json(202, RECEIPT), json(202, RECEIPT)]);
  await client.submit(RUN, CLAIM);
  await client.submit(RUN, CLAIM);
  const [first, second, third] = requests.map((request) => request.headers["Signature-Input"]);
  assert.match(first, /;created=1700000000;expires=1700000300;/);
  assert.match(second, /;created=1700005000;expires=1700005300;/);
  assert.match(third, /;created=1700005000;/);
  assert.notEqual(/nonce="[^"]{24}"/.exec(first)[0], /nonce="[^"]{24}"/.exec(second)[0]);
  assert.deepEqual(requests[1].body, requests[0].body);
});

test("a signature that would run out during a pause is made anew", async () => {
  let now_s = NOW_S;
  const wait = async () => void (now_s += 296);
  const { client, requests } = clientOf([json(503, {}), json(202, RECEIPT)], { wait, now: () => now_s * 1000 });
  await client.submit(RUN, CLAIM);
  assert.match(requests[1].headers["Signature-Input"], /;created=1700000296;/);
});

test("a second expired signature is an error", async () => {
  const { client, requests } = clientOf([expired(NOW_S + 5000), expired(NOW_S + 9000)]);
  await assert.rejects(client.submit(RUN, CLAIM), { name: "ScoregateError", reason: "signature-expired" });
  assert.equal(requests.length, 2);
});

test("a refusal is not repeated and carries the problem document", async () => {
  const { client, requests } = clientOf([problem(409, "run-used", { detail: "This run has a score." })]);
  const error = await client.submit(RUN, CLAIM).catch((reason) => reason);
  assert.ok(error instanceof ScoregateError);
  assert.deepEqual([error.status, error.reason, error.detail, error.isFromGateway], [409, "run-used", "This run has a score.", true]);
  assert.equal(error.problem.title, "run-used");
  assert.equal(requests.length, 1);
});

test("what is no answer of a gateway is an error, whatever its status", async () => {
  for (const text of ["<html>", "", "null", "[]", "7", "{}", '{"submission":7}', "\u0000"]) {
    const { client } = clientOf([raw(200, text)]);
    await assert.rejects(client.submit(RUN, CLAIM), { name: "ScoregateError", status: 200, reason: "", isFromGateway: false });
  }
  for (const entries of [null, {}, [7], [null], [{ rank: 1 }]]) {
    await assert.rejects(clientOf([json(200, { entries })]).client.entries("arcade"), { name: "ScoregateError" });
  }
  const keyless = clientOf([json(201, { ...RUN, key: "?" })]).client;
  keyless.token = "t";
  await assert.rejects(keyless.openRun("arcade", "arcade-1"), { name: "ScoregateError" });
});

test("a commitment has the digest and the size of the recording, and not the recording", async () => {
  const { client, requests } = clientOf([json(202, RECEIPT)]);
  assert.deepEqual(await client.commit(RUN, CLAIM), RECEIPT);
  const digest = createHash("sha256").update(CLAIM.recording).digest("hex");
  assert.equal(requests[0].text, `{"score":100,"ticks":1,"stats":{"motes":1},"recording_digest":"sha256:${digest}","recording_bytes":9}`);
});

test("a recording that is asked for is sent as it is, until it is answered", async () => {
  const list = { player: "p", reveals: [{ submission: "s1", reveal_by: "2026-11-20T12:00:00Z" }] };
  const { client, requests } = clientOf([json(200, list), json(503, {}), json(200, { submission: "s1" })]);
  client.token = "t";
  const [{ submission }] = await client.reveals();
  await client.reveal(submission, CLAIM.recording);
  assert.deepEqual(requests.map((request) => `${request.method} ${pathOf(request)}`), [
    "GET /v1/reveals", "PUT /v1/submissions/s1/recording", "PUT /v1/submissions/s1/recording",
  ]);
  assert.deepEqual(requests[2].body, CLAIM.recording);
  assert.equal(requests[2].headers.Authorization, "Bearer t");
  assert.equal(requests[2].headers["Content-Type"], "application/octet-stream");
});

test("it gives up after six attempts", async () => {
  const { client, requests } = clientOf(Array(7).fill(json(502, {})));
  await assert.rejects(client.submit(RUN, CLAIM), { status: 502 });
  assert.equal(requests.length, 6);
});

test("what creates something is repeated only if it certainly was not done", async () => {
  const created = json(201, { player: "p", name: "Ada", token: "t" });
  const { client, requests } = clientOf([new NoAnswer("refused", false), json(503, {}), json(429, {}), created]);
  await client.createPlayer("Ada");
  assert.equal(requests.length, 4);
  for (const lost of [new NoAnswer("reset"), json(502, {}), json(500, {})]) {
    const { client, requests } = clientOf([lost, created]);
    await assert.rejects(client.createPlayer("Ada"), { name: "ScoregateError" });
    assert.equal(requests.length, 1);
  }
});

test("a new player's token authorises what follows", async () => {
  const { client, requests } = clientOf([json(201, { player: "p", name: "Ada", token: "t" }), json(201, RUN)]);
  await client.createPlayer("Ada");
  await client.openRun("arcade", "arcade-1");
  assert.equal(requests[0].headers.Authorization, undefined);
  assert.equal(requests[1].headers.Authorization, "Bearer t");
  assert.equal(requests[1].text, '{"build":"arcade-1"}');
});

test("reads of standings say who looks, but neither a signed request nor a list of boards does", async () => {
  const page = json(200, { entries: [] });
  const { client, requests } = clientOf([json(202, RECEIPT), page, page, json(200, { boards: [], next: null })]);
  client.token = "t";
  await client.submit(RUN, CLAIM);
  await client.entries("arcade");
  await client.entries("arcade", { friends: true });
  await client.boards();
  assert.deepEqual(
    requests.map(({ headers }) => headers.Authorization), [undefined, "Bearer t", "Bearer t", undefined]);
});

test("a player without an entry is null, and a board that nobody has is an error", async () => {
  const { client } = clientOf([problem(404, "not-found", { ranked: false }), problem(404, "not-found")]);
  assert.equal(await client.entry("arcade", "p"), null);
  await assert.rejects(client.entry("arcade", "p"), { status: 404 });
});

test("the families are listed page by page", async () => {
  const families = [{ family: "car" }, { family: "track" }];
  const { client, requests } = clientOf([
    json(200, { families: families.slice(0, 1), next: "car" }), json(200, { families: families.slice(1), next: null }),
  ]);
  assert.deepEqual(await client.families(), families);
  assert.deepEqual(requests.map(pathOf), ["/v1/families", "/v1/families?cursor=car"]);
});

test("each read has its path, its filters and its cursor", async () => {
  const empty = json(200, { board: "b", boards: [], entries: [], standings: [], friends: [], next: null });
  const { client, requests } = clientOf(Array(12).fill(empty));
  client.token = "t";
  await client.boards({ limit: 2, cursor: "c" });
  await client.board("b");
  await client.entries("b", { window: "daily", limit: 2, cursor: "c", ranks: "dense" });
  await client.entries("b", { players: ["p", "q"] });
  await client.entries("b", { segment: "country:de", offset: 3 });
  await client.around("b", "p", { radius: 2, friends: true });
  await client.familyBoards("track", { order: "newest", limit: 5, cursor: "7~a", metadata: { is_wet: false, length: 3 } });
  await client.standings("track", "p", { window: "daily", limit: 2, cursor: "c" });
  await client.entriesOn("p", ["track.a", "solo"], { window: "daily" });
  await client.friends();
  await client.unfollow("p/q");
  await client.setMemberships("b", { country: "de" });
  assert.deepEqual(requests.map((request) => `${request.method} ${pathOf(request)}`), [
    "GET /v1/boards?limit=2&cursor=c",
    "GET /v1/boards/b",
    "GET /v1/boards/b/entries?window=daily&limit=2&cursor=c&ranks=dense",
    "GET /v1/boards/b/entries?limit=25&players=p%2Cq",
    "GET /v1/boards/b/entries?offset=3&limit=25&segment=country%3Ade",
    "GET /v1/boards/b/entries/p/around?radius=2&friends=true",
    "GET /v1/families/track/boards?order=newest&limit=5&cursor=7%7Ea&metadata.is_wet=false&metadata.length=3",
    "GET /v1/families/track/players/p/standings?window=daily&limit=2&cursor=c",
    "GET /v1/players/p/entries?boards=track.a%2Csolo&window=daily",
    "GET /v1/friends",
    "DELETE /v1/friends/p%2Fq",
    "PUT /v1/boards/b/memberships/country",
  ]);
  assert.equal(requests.at(-1).text, '{"value":"de"}');
});

test("an asset is downloaded again until it has its digest", async () => {
  const map = new Uint8Array([1, 2, 3]);
  const digest = createHash("sha256").update(map).digest("hex");
  const { client, requests, waits } = clientOf([json(503, {}, { "retry-after": "2" }), raw(200, map.slice(1)), raw(200, map)]);
  assert.deepEqual(await client.asset("track.monza", `sha256:${digest}`), map);
  assert.deepEqual([...new Set(requests.map(pathOf))], [`/v1/boards/track.monza/assets/${digest}`]);
  assert.deepEqual(waits, [2000, 1000]);
});

test("without the means to compare a digest no asset is downloaded", async () => {
  const { client, requests } = clientOf([raw(200, "a map")]);
  const own = Object.getOwnPropertyDescriptor(globalThis, "crypto");
  Object.defineProperty(globalThis, "crypto", { value: { getRandomValues: (bytes) => bytes }, configurable: true });
  try {
    await assert.rejects(client.asset("track.monza", "sha256:00"), /Comparing .* needs a secure page/);
    await assert.rejects(client.submit(RUN, CLAIM), /Signing needs a secure page/);
    await assert.rejects(client.commit(RUN, CLAIM), /Committing needs a secure page/);
  } finally {
    Object.defineProperty(globalThis, "crypto", own);
  }
  assert.equal(requests.length, 0);
});

test("an asset that nobody has is not waited for", async () => {
  const { client, requests } = clientOf([problem(404, "not-found")]);
  await assert.rejects(client.asset("track.monza", "sha256:00"), { status: 404 });
  assert.equal(requests.length, 1);
});

test("a run is submitted without a recording, as a board that replays nothing takes it", async () => {
  const { client, requests } = clientOf([json(202, RECEIPT)]);
  await client.submit(RUN, { score: 7, ticks: 3, stats: {} });
  assert.equal(requests[0].text, '{"score":7,"ticks":3,"stats":{}}');
});
