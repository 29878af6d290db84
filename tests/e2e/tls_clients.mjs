// Two client libraries of Node over TLS, by URL and by options, and that they refuse an unknown authority.
//
//   node tls_clients.mjs NODE_MODULES PORT CA
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";

const [modules, port, file] = process.argv.slice(2);
const load = createRequire(resolve(modules, "x.js"));
const { createClient } = load("redis");
const { Redis } = load("ioredis");
const ca = readFileSync(file);
const url = `rediss://localhost:${port}`;

async function nodeRedis() {
  const client = createClient({ url, socket: { ca, reconnectStrategy: false } });
  client.on("error", () => {});
  await client.connect();
  assert.equal(await client.ping(), "PONG");
  const many = await Promise.all(Array.from({ length: 2000 }, (_, i) => client.echo(String(i))));
  assert.deepEqual(many.slice(0, 2), ["0", "1"]);
  assert.equal(many.length, 2000);
  await client.close();
  const distrustful = createClient({ url, socket: { reconnectStrategy: false } });
  distrustful.on("error", () => {});
  await assert.rejects(distrustful.connect(), /certificate/);
}

async function ioredis() {
  const client = new Redis(url, { tls: { ca } });
  assert.equal(await client.ping(), "PONG");
  const pipeline = client.pipeline();
  for (let i = 0; i < 2000; i++) pipeline.echo(String(i));
  assert.deepEqual((await pipeline.exec())[1999], [null, "1999"]);
  await client.quit();
  const distrustful = new Redis(url, { retryStrategy: null, lazyConnect: true });
  const faults = [];
  distrustful.on("error", (error) => faults.push(error));
  await assert.rejects(distrustful.connect());
  assert.match(String(faults[0]), /certificate/);
}

await nodeRedis();
await ioredis();
