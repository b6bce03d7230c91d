// A negative control: node-redlock on ioredis. README.md says how it is called.

const fs = require("node:fs");
const readline = require("node:readline");
const { Redis } = require("ioredis");
const { default: Redlock } = require("redlock");

const [place, protectedPort, log, number, seed, tasks, ttl, names] = process.argv.slice(2);
const [ttlMs, count] = [Number(ttl), Number(names)];

// A place that has gone silent is given up after that.
const timeouts = { commandTimeout: 1000, connectTimeout: 1000, maxRetriesPerRequest: 1 };

function connect() {
  const [kind, ...words] = place.split(",");
  if (kind !== "sentinel") {
    return words.map((port) => new Redis({ port: Number(port), ...timeouts }));
  }
  const sentinels = words.slice(1).map((port) => ({ host: "127.0.0.1", port: Number(port) }));
  return [new Redis({ sentinels, name: words[0], ...timeouts })];
}

const clients = connect();
// What fails is for redlock to deal with.
clients.forEach((client) => client.on("error", () => {}));
const values = new Redis(Number(protectedPort));
const redlock = new Redlock(clients, { retryCount: 50, retryDelay: 20, retryJitter: 20 });
redlock.on("error", () => {});

const file = fs.openSync(log, "a");
let counted = BigInt(number) << 48n;
let served = 0;
let over = false;
let drawn = BigInt(seed) | 1n;

const fresh = () => ++counted;
// Nanoseconds of the clock that has counted since the machine was started.
const now = () => process.hrtime.bigint();
const write = (line) => fs.writeSync(file, `${line}\n`);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

function below(end) {
  drawn = (drawn * 6364136223846793005n + 1442695040888963407n) & ((1n << 64n) - 1n);
  return Number((drawn >> 33n) % BigInt(end));
}

async function turn() {
  const name = `campaign/r${below(count)}`;
  const asked = now();
  const lock = await redlock.acquire([name], ttlMs);
  // Its validity is a time of the wall clock.
  const [entered, own] = [now(), fresh()];
  const until = entered + BigInt(Math.max(0, lock.expiration - Date.now())) * 1000000n;
  write(`g ${name} ${own} ${asked} ${entered} ${own} ${own} 1`);
  const value = fresh();
  write(`r ${name} ${value} ${now()} 0`);
  const old = (await values.get(name)) ?? "0";
  await sleep(below(10));
  await values.set(name, String(value));
  write(`d ${value} ${now()} ${old}`);
  const left = now() < until ? now() : until;
  if (left > entered) write(`p ${name} ${own} ${own} ${entered} ${left} ${own} 1 1`);
  served += 1;
  await lock.release();
}

async function work() {
  while (!over) await turn().catch(() => sleep(50));
}

async function main() {
  const input = readline.createInterface({ input: process.stdin });
  input.once("line", () => {
    over = true;
  });
  await Promise.all(Array.from({ length: Number(tasks) }, work));
  process.stdout.write(`@@ served ${served}\n`, () => process.exit());
}

// Whoever started us has ended.
process.stdin.on("end", () => process.exit());
main();
