// A program that shares a lock with leasehold, through node-redlock.
//
// redlock.cjs PORT[,PORT...] NAME: does what each line on stdin says, and answers on stdout.
//   acquire TTL_MS       waits for the lock       -> acquired
//   release              lets go                  -> released, or refused if it is not its own
//   add COUNTER ROUNDS   adds 1 so many times, reading and writing under the lock -> added
// With several ports the lock is the classic Redlock; the counter is on the first.

const readline = require("node:readline");
const { Redis } = require("ioredis");
const { default: Redlock } = require("redlock");

// A lock that is held for as long as a busy machine may take for a few requests.
const LONG_MS = 60_000;

const [ports, name] = process.argv.slice(2);
const clients = ports.split(",").map((port) => new Redis(Number(port)));
// A server that is down is for redlock to deal with.
clients.forEach((client) => client.on("error", () => {}));
const redlock = new Redlock(clients, { retryCount: -1 });

function say(word) {
  process.stdout.write(`@@ ${word}\n`);
}

async function add(counter, rounds) {
  for (let round = 0; round < rounds; round++) {
    const lock = await redlock.acquire([name], LONG_MS);
    const inside = await clients[0].incr(`${counter}:inside`);
    if (inside !== 1) throw new Error(`${inside} hold the lock`);
    const value = Number((await clients[0].get(counter)) ?? 0);
    await clients[0].set(counter, value + 1);
    await clients[0].decr(`${counter}:inside`);
    await lock.release();
  }
}

async function main() {
  let lock;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, ...args] = line.split(" ");
    if (command === "acquire") {
      lock = await redlock.acquire([name], Number(args[0]));
      say("acquired");
    } else if (command === "release") {
      const once = { retryCount: 0 };
      say(await redlock.release(lock, once).then(() => "released", () => "refused"));
    } else if (command === "add") {
      await add(args[0], Number(args[1]));
      say("added");
    }
  }
}

// Whoever started us has ended.
process.stdin.on("end", () => process.exit());
main();
