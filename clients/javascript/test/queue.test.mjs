/** The queue: what ends an entry, what keeps it, and the recordings of commitments. */

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { FolderStore } from "../node/folder-store.js";
import { MemoryStore, NoAnswer, OfflineQueue } from "../src/index.js";
import { CLAIM, NOW_S, RECEIPT, RUN, clientOf, expired, json, pathOf, problem, raw } from "./gateway.mjs";
import { LAWS } from "./store-law.mjs";

const DAY_S = 86_400;

function folderOf(context) {
  const folder = mkdtempSync(join(tmpdir(), "scoregate-queue-"));
  context.after(() => rmSync(folder, { recursive: true }));
  return join(folder, "queue");
}

for (const [name, law] of Object.entries(LAWS)) {
  test(`memory: ${name}`, () => {
    const store = new MemoryStore();
    return law(async () => store);
  });
  test(`folder: ${name}`, (context) => {
    const folder = folderOf(context);
    return law(async () => new FolderStore(folder));
  });
}

/** Returns a queue in memory whose gateway gives these answers, with one attempt for each request. */
function queueOf(answers, options = {}) {
  const made = clientOf(answers, { attempts: 1, ...options });
  made.client.token = "t";
  const store = new MemoryStore();
  return { ...made, store, queue: new OfflineQueue(made.client, store) };
}

const outcomesOf = async (queue) => (await queue.flush()).outcomes.map(({ outcome }) => outcome);
const runOf = (number) => ({ ...RUN, ticket: `ticket-${number}` });

test("an entry is a private file of every client's form, without the token", async (context) => {
  const folder = folderOf(context);
  const { client } = clientOf([]);
  client.token = "the token";
  await new OfflineQueue(client, new FolderStore(folder)).submitLater(RUN, CLAIM);
  const [name] = readdirSync(folder);
  assert.equal(name, "1700000000000-14069429.json");
  assert.equal(statSync(join(folder, name)).mode & 0o077, 0);
  const { board, ticket, key } = RUN;
  const body = '{"score":100,"ticks":1,"stats":{"motes":1},"recording":"U0dSMQEAAQEA"}';
  assert.deepEqual(JSON.parse(readFileSync(join(folder, name), "utf8")), { version: 1, board, ticket, key, body, written_at: NOW_S });
});

test("only the gateway's own word ends an entry", async () => {
  const html = { "content-type": "text/html" };
  const inTheWay = [
    new NoAnswer("offline"), raw(200, "<html>", html), json(200, { ok: true }), raw(204, ""), raw(302, ""), raw(403, "<html>", html),
    json(404, { type: "https://scoregate.dev/problems/not-found" }), problem(401, "token-invalid"), problem(408, "request-timeout"),
    problem(421, "misdirected"), problem(425, "too-early"), problem(429, "quota-exceeded"), problem(500, "internal-error"),
    json(403, { type: "about:blank" }, { "content-type": "application/problem+json" }), problem(403, "x", { type: 7 }),
  ];
  const { queue, requests } = queueOf([...inTheWay, json(202, RECEIPT)]);
  await queue.submitLater(RUN, CLAIM);
  for (const _ of inTheWay) assert.deepEqual(await outcomesOf(queue), ["kept"]);
  assert.deepEqual(await outcomesOf(queue), ["accepted"]);
  assert.equal(new Set(requests.map(({ text }) => text)).size, 1);
});

test("a refusal of the gateway ends an entry, and is told", async () => {
  const { queue } = queueOf([problem(403, "run-expired"), problem(409, "run-already-submitted")]);
  await queue.submitLater(runOf(1), CLAIM);
  await queue.submitLater(runOf(2), CLAIM);
  const { outcomes } = await queue.flush();
  assert.deepEqual(outcomes.map(({ ticket, outcome, problem }) => [ticket, outcome, problem.reason]), [
    ["ticket-1", "refused", "run-expired"], ["ticket-2", "refused", "run-already-submitted"],
  ]);
  assert.equal(await queue.waiting(), 0);
});

test("an entry that is kept does not hold up those behind it, and a clock is set right on the way", async () => {
  const { queue } = queueOf([problem(500, "internal-error"), expired(NOW_S + 5000), json(202, RECEIPT), json(202, RECEIPT)]);
  for (const number of [1, 2, 3]) await queue.submitLater(runOf(number), CLAIM);
  assert.deepEqual(await outcomesOf(queue), ["kept", "accepted", "accepted"]);
});

test("without a network a long queue is not tried to its end", async () => {
  const { queue, requests } = queueOf([]);
  for (let number = 0; number < 9; number += 1) await queue.submitLater(runOf(number), CLAIM);
  assert.deepEqual(await outcomesOf(queue), Array(9).fill("kept"));
  assert.equal(requests.length, 3);
});

test("a gateway that has enough to do is asked once", async () => {
  for (const status of [429, 503]) {
    const { queue, requests } = queueOf([problem(status, "quota-exceeded"), json(202, RECEIPT)]);
    for (const number of [1, 2]) await queue.submitLater(runOf(number), CLAIM);
    assert.deepEqual([await outcomesOf(queue), requests.length], [["kept", "kept"], 1]);
  }
});

test("a hundred wait at most: the newest is refused, and the oldest stays", async () => {
  const { queue, store } = queueOf([]);
  for (let number = 0; number < 100; number += 1) await queue.submitLater(runOf(number), CLAIM);
  await assert.rejects(queue.submitLater(runOf(100), CLAIM), { name: "ScoregateError", reason: "queue-full" });
  await queue.submitLater(runOf(0), CLAIM);
  assert.deepEqual([await queue.waiting(), (await store.names()).length], [100, 100]);
});

test("entries of one millisecond keep their order", async () => {
  const { queue } = queueOf(Array(9).fill(json(202, RECEIPT)));
  for (let number = 0; number < 9; number += 1) await queue.submitLater(runOf(number), CLAIM);
  assert.deepEqual((await queue.flush()).outcomes.map(({ ticket }) => ticket), Array.from({ length: 9 }, (_, number) => `ticket-${number}`));
});

test("after seven days an entry is dropped and reported, and not before", async () => {
  let now_s = NOW_S;
  const { queue, requests } = queueOf([problem(500, "internal-error")], { now: () => now_s * 1000 });
  await queue.submitLater(RUN, CLAIM);
  now_s += 7 * DAY_S;
  assert.deepEqual(await outcomesOf(queue), ["kept"]);
  now_s += 1;
  assert.deepEqual([await outcomesOf(queue), await outcomesOf(queue), requests.length], [["expired"], [], 1]);
});

test("a damaged entry is set aside, told once, and blocks nobody", async () => {
  const { queue, store } = queueOf([json(202, RECEIPT)]);
  const whole = await store.read(await queue.submitLater(RUN, CLAIM));
  const changed = (change) => JSON.stringify({ ...JSON.parse(whole), ...change });
  const damaged = ["", whole.slice(0, -9), "null", "7", changed({ version: 2 }), changed({ key: "?" }), changed({ body: "{" }), changed({ written_at: "x" }), changed({ recording: "?" })];
  for (const [at, text] of damaged.entries()) await store.write(`000000000000${at}-00000000.json`, text);
  assert.equal(await queue.waiting(), 1);
  assert.deepEqual(await outcomesOf(queue), [...damaged.map(() => "damaged"), "accepted"]);
  assert.deepEqual(await outcomesOf(queue), []);
  assert.equal(await store.read("0000000000001-00000000.json.damaged"), whole.slice(0, -9));
});

test("the recording of a commitment is kept until it is verified, and sent when it is asked for", async () => {
  const submission = (state, verified) => json(200, { submission: "s1", board: "arcade", state, verified });
  const reveals = (...ids) => json(200, { reveals: ids.map((id) => ({ submission: id })) });
  const { queue, requests, store } = queueOf([
    json(202, RECEIPT), reveals(), submission("promoted", false),
    reveals("s1"), json(503, {}),
    reveals("s1"), json(200, {}),
    reveals(), submission("promoted", true),
  ]);
  await queue.submitLater(RUN, CLAIM, { committed: true });
  assert.deepEqual((await queue.flush()).outcomes.map(({ outcome }) => outcome), ["accepted"]);
  assert.equal(await queue.waiting(), 0);
  const restarted = new OfflineQueue(clientOf([]).client, store);
  assert.deepEqual(await restarted.flush(), { outcomes: [], revealed: [] }); // nobody is logged in
  assert.deepEqual((await queue.flush()).revealed, []);
  assert.deepEqual((await queue.flush()).revealed, ["s1"]);
  assert.equal((await store.names()).length, 1);
  await queue.flush();
  assert.deepEqual(await store.names(), []);
  const sent = requests.filter(({ method }) => method === "PUT");
  assert.deepEqual([sent.map(pathOf)[0], sent[0].body], ["/v1/submissions/s1/recording", CLAIM.recording]);
  assert.match(requests[0].text, /"recording_digest":"sha256:[0-9a-f]{64}","recording_bytes":9}$/);
});

test("a commitment of another player stays until that player is back", async () => {
  const { queue, store } = queueOf([json(202, RECEIPT), json(200, { reveals: [] }), problem(404, "not-found")]);
  await queue.submitLater(RUN, CLAIM, { committed: true });
  await queue.flush();
  assert.equal((await store.names()).length, 1);
});

test("the lock of a process that died is taken over", async (context) => {
  const folder = folderOf(context);
  const store = new FolderStore(folder);
  await store.write("1700000000000-00000001.json", "{}");
  const { pid } = spawnSync(process.execPath, ["--version"]);
  writeFileSync(join(folder, "flush.lock"), String(pid));
  assert.equal(await store.exclusively(async () => "mine"), "mine");
  assert.deepEqual(readdirSync(folder), ["1700000000000-00000001.json"]);
});
