/** A gateway that answers what a test says, with its requests and the pauses of its client. */

import { NoAnswer, Scoregate, encodeRecording } from "../src/index.js";

export const NOW_S = 1_700_000_000;
export const RUN = { board: "arcade", ticket: "ticket", key: "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", seed: "7" };
export const CLAIM = { score: 100, ticks: 1, stats: { motes: 1 }, recording: encodeRecording([0], [], 0) };
export const RECEIPT = { submission: "s1", state: "pending" };

/** Returns a client whose gateway gives these answers in turn; the last of its options are the client's. */
export function clientOf(answers, options = {}) {
  const requests = [], waits = [];
  const transport = {
    async send(request) {
      requests.push({ ...request, text: request.body && new TextDecoder().decode(request.body) });
      const next = answers.shift() ?? new NoAnswer("no more answers");
      if (next instanceof Error) throw next;
      return typeof next === "function" ? next(request) : next;
    },
  };
  const wait = async (ms) => void waits.push(ms);
  const client = new Scoregate("http://localhost:8080", { transport, wait, now: () => NOW_S * 1000, random: () => 1, ...options });
  return { client, requests, waits, answers };
}

export function raw(status, body, headers = {}) {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : new Uint8Array(body);
  return { status, headers, body: bytes };
}

export function json(status, content, headers = {}) {
  return raw(status, JSON.stringify(content), { "content-type": "application/json", ...headers });
}

export function problem(status, name, more = {}, headers = {}) {
  const content = { type: `https://scoregate.dev/problems/${name}`, title: name, status, ...more };
  return json(status, content, { "content-type": "application/problem+json", ...headers });
}

export function expired(server_time) {
  return problem(401, "signature-expired", { server_time });
}

export function pathOf({ url }) {
  const { pathname, search } = new URL(url);
  return pathname + search;
}
