// Locks of Node, to compare with leasehold: node-redlock on ioredis.
//
// Arguments and output: ../README.md.

import { once } from "node:events";
import { createInterface } from "node:readline";

import Redis from "ioredis";
import Redlock from "redlock";

const TTL_MS = 30_000;

const [, , , port, mode, tasksText, secondsText, prefix] = process.argv;
const [tasks, seconds] = [Number(tasksText), Number(secondsText)];

const client = new Redis({ port: Number(port), host: "127.0.0.1" });
// Tries until it has the lock, with shorter pauses than the default of 200 ms.
const redlock = new Redlock([client], { retryCount: -1, retryDelay: 5, retryJitter: 5 });

const entries = new Array(tasks).fill(0);
const waits = {};
let longest = 0;

async function work(task, endsAt) {
  const name = mode === "hot" ? prefix : `${prefix}-${task}`;
  while (performance.now() < endsAt) {
    const asked = performance.now();
    const lock = await redlock.acquire([name], TTL_MS);
    const waited = (performance.now() - asked) * 1000;
    const bucket = Math.floor(Math.log(Math.max(waited, 1)) / Math.log(1.05));
    waits[bucket] = (waits[bucket] ?? 0) + 1;
    longest = Math.max(longest, waited);
    entries[task] += 1;
    await lock.release();
  }
}

await (await redlock.acquire([`${prefix}-warm`], TTL_MS)).release();
console.log("ready");
const input = createInterface({ input: process.stdin });
await once(input, "line");
const endsAt = performance.now() + seconds * 1000;
await Promise.all(entries.map((_, task) => work(task, endsAt)));
const rss = process.resourceUsage().maxRSS;
console.log(JSON.stringify({ entries, waits, longest_us: longest, rss_kib: rss }));
input.close();
client.disconnect();
