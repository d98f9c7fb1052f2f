/** What holds for every store of a queue, in Node and in browsers: `open` opens the same one again. */

import { NoAnswer, OfflineQueue } from "../src/index.js";
import { CLAIM, RECEIPT, RUN, clientOf, json } from "./gateway.mjs";

const FIRST = "1700000000000-00000001.json", SECOND = "1700000000001-00000000.json";

function same(actual, expected) {
  const [is, due] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (is !== due) throw new Error(`${is} is not ${due}`);
}

export const LAWS = {
  async "what was written is there, in order, after the store was opened again"(open) {
    const store = await open();
    same(await store.names(), []);
    await store.write(SECOND, "two");
    await store.write(FIRST, "one");
    await store.write(FIRST, "uno");
    const again = await open();
    same(await again.names(), [FIRST, SECOND]);
    same([await again.read(FIRST), await again.read(SECOND), await again.read("none")], ["uno", "two", null]);
  },

  async "what was removed or set aside is listed no more, and the others stay"(open) {
    const store = await open();
    await store.write(FIRST, "one");
    await store.write(SECOND, "two");
    await store.remove(FIRST);
    await store.remove(FIRST);
    await store.setAside(SECOND);
    await store.setAside(SECOND);
    same(await store.names(), []);
    same([await store.read(SECOND), await store.read(`${SECOND}.damaged`)], [null, "two"]);
  },

  async "tasks run one after the other, also of another who opened it, and after one that failed"(open) {
    const steps = [], stores = [await open(), await open()];
    const task = (name, fails) => async () => {
      steps.push(`${name} begins`);
      await new Promise((resume) => setTimeout(resume));
      steps.push(`${name} ends`);
      if (fails) throw new Error(name);
      return name;
    };
    const failed = stores[0].exclusively(task("a", true)).catch(({ message }) => message);
    const others = [stores[1].exclusively(task("b")), stores[0].exclusively(task("c"))];
    same([await failed, ...(await Promise.all(others))], ["a", "b", "c"]);
    const names = steps.map((step) => step[0]);
    same([names[0], names[2], names[4]], [names[1], names[3], names[5]]);
  },

  async "a run is kept until the gateway has answered, over a restart, and counts once"(open) {
    const offline = new OfflineQueue(clientOf([new NoAnswer("offline")], { attempts: 1 }).client, await open());
    const entry = await offline.submitLater(RUN, CLAIM);
    same(await offline.submitLater(RUN, CLAIM), entry);
    same((await offline.flush()).outcomes.map(({ outcome }) => outcome), ["kept"]);

    const { client, requests } = clientOf([json(202, RECEIPT)]);
    const queues = [new OfflineQueue(client, await open()), new OfflineQueue(client, await open())];
    same(await queues[0].waiting(), 1);
    const flushed = await Promise.all(queues.map((queue) => queue.flush()));
    same(flushed.flatMap(({ outcomes }) => outcomes.map(({ outcome, receipt }) => [outcome, receipt])), [["accepted", RECEIPT]]);
    same([await queues[1].waiting(), requests.length, await (await open()).names()], [0, 1, []]);
  },
};
