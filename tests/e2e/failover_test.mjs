// The client libraries of Node over a fail-over, as their users write it: ioredis and node-redis, with the
// nodes as sentinels. The test that starts this switches the owner when it is asked to by a line.
//
//   node failover_test.mjs NODE_MODULES LIBRARY POOL PORT PORT PORT
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { createInterface } from "node:readline";

const [modules, library, pool, ...ports] = process.argv.slice(2);
const load = createRequire(resolve(modules, "x.js"));
const nodes = ports.map((port) => ({ host: "127.0.0.1", port: Number(port) }));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

// Asks the test for something and waits until it is done.
async function ask(words) {
  console.log(words);
  assert.equal((await lines.next()).value, "done");
}

const pairs = (reply) => Array.isArray(reply)
  ? Object.fromEntries(reply.flatMap((x, i) => (i % 2 === 0 ? [[x, reply[i + 1]]] : [])))
  : reply instanceof Map ? Object.fromEntries(reply) : reply;

async function ioredis() {
  const { Redis } = load("ioredis");
  const client = new Redis({ sentinels: nodes, name: "tenure" });
  client.on("error", () => {}); // of connections: they come again by themselves
  return { send: (...words) => client.call(...words), close: () => client.quit() };
}

async function nodeRedis() {
  const { createSentinel } = load("redis");
  const client = createSentinel({ name: "tenure", sentinelRootNodes: nodes });
  client.on("error", () => {});
  await client.connect();
  return {
    send: (...words) => client.sendCommand(false, words),
    close: () => client.close(),
  };
}

const { send, close } = await { ioredis, redis: nodeRedis }[library]();
for (let turn = 0; turn < 6; turn++) {
  const to = (turn + 1) % 3;
  const opid = `${library}-${turn}`;
  const first = pairs(await send("ALLOC", pool, `${library}/${turn}`, "OPID", opid));
  assert.equal(first.result, "OK");
  await ask(`lead ${to}`);
  // The same operation at the new owner: nothing is done twice, whatever the library sent again.
  const again = pairs(await send("ALLOC", pool, `${library}/${turn}`, "OPID", opid));
  assert.equal(again.lease, first.lease);
}
const info = pairs(await send("POOL", "INFO", pool));
assert.equal(Number(info.active), 6);

// While no node owns the log, a request waits or fails with an error that names it; then it works again.
await ask("lost");
let failed = 0;
const pending = (async () => {
  for (;;) {
    try {
      return pairs(await send("ALLOC", pool, "late", "OPID", `${library}-late`));
    } catch (error) {
      failed++;
      if (failed === 1) console.log("failed");
      await new Promise((done) => setTimeout(done, 50));
    }
  }
})();
await ask("lead 2");
assert.equal((await pending).result, "OK");
await close();
console.log("passed");
process.exit(0);
