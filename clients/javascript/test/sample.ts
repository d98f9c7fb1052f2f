/** A program in TypeScript over the package's declarations: it is compiled by a test, and never run. */

import { FetchTransport, IndexedDbStore, MemoryStore, OfflineQueue, Recorder, Scoregate, ScoregateError, sign } from "@scoregate/client";
import type { Claim, EntryPage, FeedEvent, FlushOutcome, QueueStore, Receipt, Run, Transport } from "@scoregate/client";
import { FolderStore } from "@scoregate/client/folder-store";

const transport: Transport = { send: async (request) => new FetchTransport().send(request) };
const gateway = new Scoregate("https://scores.example", { token: "t", transport, attempts: 2 });
const stores: QueueStore[] = [new MemoryStore(), new IndexedDbStore("games"), new FolderStore("queue")];

export async function play(): Promise<Receipt> {
  const run: Run = await gateway.openRun("arcade", "arcade-1", { nameSignature: "s" });
  const recorder = new Recorder(run.checkpoint_ticks);
  if (recorder.tick(1)) recorder.checkpoint(7n);
  const claim: Claim = { score: 1, ticks: recorder.ticks, stats: { motes: 1 }, recording: recorder.finish() };
  const queue = new OfflineQueue(gateway, stores[0]);
  const entry: string = await queue.submitLater(run, claim, { committed: true });
  const outcomes: FlushOutcome[] = (await queue.flush()).outcomes;
  console.log(entry, outcomes[0].problem?.reason);
  return gateway.submit(run, claim);
}

export async function read(): Promise<number | null> {
  const page: EntryPage = await gateway.entries("arcade", { friends: true, cursor: null });
  for await (const { event, data } of gateway.watch("arcade", { mode: "newest" })) show({ event, id: null, data });
  const mine = await gateway.entry("arcade", "p");
  // @ts-expect-error there may be no entry
  console.log(mine.rank, page.next);
  // @ts-expect-error a score is a number
  await gateway.submit(await gateway.openRun("arcade", "b"), { score: "1", ticks: 1, stats: {} });
  // @ts-expect-error a signature needs a nonce
  await sign({ method: "POST", authority: "a", path: "/", body: new Uint8Array(), key: "", created: 1, expires: 2, keyid: "k" });
  return gateway.submission("s").then(({ rank }) => rank, (error) => (error instanceof ScoregateError ? error.retryAfter : null));
}

function show(event: FeedEvent): void {
  console.log(event.event);
}
