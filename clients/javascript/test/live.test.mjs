/** The live feed by EventSource and by fetch, and waiting for a verdict. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { clientOf, json } from "./gateway.mjs";

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
  const { client, waits } = clientOf([]);
  const standings = [], connections = [];
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
  const { client, waits } = clientOf([]);
  const stop = client.live("arcade", () => {});
  sources[0].lose(0); // the connection was lost, and the browser is connecting
  assert.deepEqual(waits, []);
  sources[0].lose(EventSource.CLOSED);
  stop(); // during the pause
  await new Promise(setImmediate);
  assert.equal(sources.length, 1);
});

/** Returns a client whose feeds are these lists of chunks, each of which ends with its connection. */
function streaming(...connections) {
  const made = clientOf([]);
  const streams = [];
  made.client.connection.transport.stream = async ({ url, headers, signal }) => {
    streams.push({ url, headers, signal });
    const next = connections.shift() ?? [];
    if (typeof next === "number") return { status: next, headers: {}, chunks: [] };
    const chunks = (async function* () {
      for (const chunk of next) yield new TextEncoder().encode(chunk);
    })();
    return { status: 200, headers: { "content-type": "text/event-stream" }, chunks };
  };
  return { ...made, streams };
}

test("without an EventSource a feed is read by fetch, and goes on after the last id", async () => {
  const { client, streams, waits } = streaming(
    ["event: begin\nid: 1-0\ndata: {}\n\nevent: stand", 'ing\ndata: {"rank":1}\n\n', 'event: rank\r\nid: 2-0\r\ndata: {"rank":2}\r\n\r\n', ": 3\n", "id: 3-0\n\n"],
    503,
    ["event: overtaken\nid: 4-0\ndata: {}\n\n"],
  );
  client.token = "t";
  const events = [];
  for await (const { event, id } of client.watch("arcade", { friends: true, window: "daily" })) {
    if (events.push(`${event} ${id}`) === 4) break;
  }
  assert.deepEqual(events, ["begin 1-0", "standing null", "rank 2-0", "overtaken 4-0"]);
  assert.deepEqual(streams.slice(0, 3).map(({ url }) => new URL(url).search), [
    "?window=daily&friends=true", "?window=daily&friends=true&after=3-0", "?window=daily&friends=true&after=3-0",
  ]);
  assert.equal(streams[0].headers.Authorization, "Bearer t");
  assert.deepEqual(waits.slice(0, 2), [500, 1000]);
  assert.ok(streams.at(-1).signal.aborted);
});

test("a feed ends when its signal does", async () => {
  const { client } = streaming(["event: begin\nid: 1-0\ndata: {}\n\n"]);
  const ending = new AbortController();
  let events = 0;
  for await (const _ of client.watch("arcade", { signal: ending.signal })) {
    events += 1;
    ending.abort();
  }
  assert.equal(events, 1);
});

test("a run is settled as soon as the feed speaks of it, and looked after more and more seldom without", async (context) => {
  const sources = eventSources(context);
  const seen = (state) => json(200, { submission: "s1", board: "arcade", state });
  const { client, answers, waits } = clientOf([...Array(6).fill(seen("pending")), seen("held")]);
  client.token = "t";
  assert.equal((await client.waitUntilSettled("s1")).state, "held");
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 5000, 5000]);
  assert.equal(sources[0].readyState, EventSource.CLOSED);

  answers.push(seen("pending"), seen("promoted"));
  client.connection.wait = () => new Promise(() => {});
  const settled = client.waitUntilSettled("s1");
  while (sources.length < 2) await new Promise(setImmediate);
  sources[1].tell("standing", { submission: "s1" }, "8-0");
  assert.equal((await settled).state, "promoted");
});

test("waiting for a verdict ends with an error in time", async (context) => {
  eventSources(context);
  let now = 0;
  const wait = async (ms) => void (now += ms);
  const pending = json(200, { submission: "s1", board: "arcade", state: "pending" });
  const { client, requests } = clientOf(Array(9).fill(pending), { now: () => now, wait });
  client.token = "t";
  await assert.rejects(client.waitUntilSettled("s1", { timeoutMs: 3000 }), { name: "ScoregateError", status: 0 });
  assert.deepEqual([now, requests.length], [3000, 4]);
});

test("a line that does not end is no feed, and fills no memory", async (context) => {
  let parts = 0;
  async function* chunks() {
    for (; parts < 99; parts += 1) yield new Uint8Array(2 ** 16);
  }
  const { client } = clientOf([], { wait: () => new Promise(() => {}) });
  client.connection.transport.stream = async () => ({ status: 200, headers: { "content-type": "text/event-stream" }, chunks: chunks() });
  context.after(client.live("arcade", () => {}));
  await new Promise(setImmediate);
  assert.equal(parts, 4);
});
