/** The driver of the JavaScript client: a request a line on standard input, an answer a line on standard output. */

import { createInterface } from "node:readline";

import { FolderStore } from "../../../clients/javascript/node/folder-store.js";
import {
  OfflineQueue, Recorder, Scoregate, ScoregateError, claimText, commitmentText, contentDigest, encodeRecording,
  sign, signatureBase,
} from "../../../clients/javascript/src/index.js";

const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));
const base64 = (content) => Buffer.from(content).toString("base64");
const runs = new Map();
let client, queue;

const claimOf = ({ score, ticks, stats, recording }) => ({
  score, ticks, stats: Object.fromEntries(stats), ...(recording && { recording: bytes(recording) }),
});

function open({ base_url, token, queue: folder, attempts, clock_offset_s = 0, now_s, nonce }) {
  const now = () => (now_s === undefined ? Date.now() + clock_offset_s * 1000 : now_s * 1000);
  try {
    client = new Scoregate(base_url, { token, attempts, now, ...(nonce && { nonce: () => nonce }) });
  } catch (error) {
    throw error instanceof TypeError ? new RangeError(error.message) : error; // what is invalid here
  }
  queue = folder && new OfflineQueue(client, new FolderStore(folder));
  return {};
}

async function signed({ content_type, body, ...told }) {
  const request = { ...told, contentType: content_type, body: bytes(body) };
  return { headers: await sign(request), base: signatureBase(request, await contentDigest(request.body)) };
}

const inputsOf = (inputs) => inputs.flatMap(([length, word]) => Array(length).fill(word));
const hashesOf = (checkpoints) => checkpoints.map((hash) => BigInt(`0x${hash.replace(/^0x/, "")}`));

function recorded({ inputs, checkpoints, checkpoint_ticks }) {
  const recorder = new Recorder(checkpoint_ticks), hashes = hashesOf(checkpoints);
  for (const word of inputsOf(inputs)) if (recorder.tick(word) && hashes.length) recorder.checkpoint(hashes.shift());
  for (const hash of hashes) recorder.checkpoint(hash);
  return { recording: base64(recorder.finish()) };
}

async function openRun({ board, build }) {
  const run = await client.openRun(board, build);
  runs.set(run.ticket, run);
  return run;
}

async function flush() {
  const { outcomes, revealed } = await queue.flush();
  return { outcomes: outcomes.map(({ problem, ...told }) => ({ ...told, ...(problem && { problem: errorOf(problem) }) })), revealed };
}

async function watch({ board, window, count, timeout_s }) {
  const events = [], signal = AbortSignal.timeout(timeout_s * 1000);
  for await (const event of client.watch(board, { window, signal })) if (events.push(event) === count) break;
  return { events };
}

const commands = {
  open,
  sign: signed,
  content_digest: async ({ body }) => ({ content_digest: await contentDigest(bytes(body)) }),
  encode_recording: ({ inputs, checkpoints, checkpoint_ticks }) => ({
    recording: base64(encodeRecording(inputsOf(inputs), hashesOf(checkpoints), checkpoint_ticks)),
  }),
  record: recorded,
  claim: async ({ committed, ...told }) => {
    const claim = claimOf(told);
    return { body: base64(Buffer.from(committed ? await commitmentText(claim) : claimText(claim))) };
  },
  create_player: ({ name }) => client.createPlayer(name),
  open_run: openRun,
  submit: (told) => client.submit(runs.get(told.ticket), claimOf(told)),
  commit: (told) => client.commit(runs.get(told.ticket), claimOf(told)),
  reveals: async () => ({ reveals: await client.reveals() }),
  reveal: ({ submission, recording }) => client.reveal(submission, bytes(recording)),
  submission: ({ submission }) => client.submission(submission),
  submit_later: async ({ ticket, committed, ...told }) => ({
    entry: await queue.submitLater(runs.get(ticket), claimOf(told), { committed }),
  }),
  flush,
  waiting: async () => ({ entries: await queue.waiting() }),
  wait_until_settled: ({ submission, timeout_s }) => client.waitUntilSettled(submission, { timeoutMs: timeout_s * 1000 }),
  entries: ({ board, ...page }) => client.entries(board, page),
  entry: ({ board, player, ...options }) => client.entry(board, player, options),
  around: ({ board, player, ...options }) => client.around(board, player, options),
  boards: (page) => client.boards(page),
  board: ({ board }) => client.board(board),
  families: async () => ({ families: await client.families() }),
  family_boards: ({ family, ...page }) => client.familyBoards(family, page),
  standings: ({ family, player, ...page }) => client.standings(family, player, page),
  entries_on: async ({ player, boards }) => ({ entries: await client.entriesOn(player, boards) }),
  follow: ({ player }) => client.follow(player),
  unfollow: ({ player }) => client.unfollow(player),
  friends: async () => ({ friends: (await client.friends()).friends.map(({ player }) => player) }),
  set_membership: ({ board, segment, group }) => client.setMembership(board, segment, group),
  asset: async ({ board, digest }) => ({ content: base64(await client.asset(board, digest)) }),
  watch,
};

function errorOf({ status, reason, detail, retryAfter }) {
  return { status, reason, detail, retry_after_s: retryAfter };
}

async function answer({ do: name, ...told }) {
  if (!Object.hasOwn(commands, name)) return { error: errorOf({ status: 0, reason: "unsupported", detail: name, retryAfter: null }) };
  try {
    return { ok: (await commands[name](told)) ?? null };
  } catch (error) {
    if (error instanceof ScoregateError) return { error: errorOf(error) };
    if (error instanceof RangeError) return { error: errorOf({ status: 0, reason: "invalid", detail: error.message, retryAfter: null }) };
    throw error;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
}
process.exit(0);
