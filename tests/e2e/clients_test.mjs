// Two client libraries of Node against the real server: commands, pipelines, subscriptions in both
// versions of the protocol, and a server that goes away and comes back.
//
//   node clients_test.mjs TENURED NODE_MODULES PORT
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const [tenured, modules, port] = process.argv.slice(2);
const load = createRequire(resolve(modules, "x.js"));
const { createClient } = load("redis");
const { Redis } = load("ioredis");

const PATIENCE_MS = 120000;
const pause = () => new Promise((resolve) => setTimeout(resolve, 10));

async function until(condition, what) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const got = await condition();
    if (got) return got;
    assert.ok(Date.now() < end, `not in time: ${what}`);
    await pause();
  }
}

class Server {
  data = mkdtempSync(join(tmpdir(), "tenure-node-"));
  port = Number(port); // nobody else is given it while the server is away

  async start() {
    const file = join(this.data, "port");
    rmSync(file, { force: true });
    this.process = spawn(tenured, ["--data", join(this.data, "data"), "--listen",
      `127.0.0.1:${this.port}`, "--http", "off", "--port-file", file], { stdio: "ignore" });
    await until(() => existsSync(file), "the port file");
  }

  async stop(signal) {
    const gone = once(this.process, "exit");
    this.process.kill(signal);
    return (await gone)[0];
  }
}

const pairs = (reply) => Array.isArray(reply)
  ? Object.fromEntries(reply.flatMap((x, i) => (i % 2 === 0 ? [[x, reply[i + 1]]] : [])))
  : reply instanceof Map ? Object.fromEntries(reply) : reply;

// ---- What both can do, by a function that sends words ----

async function commands(send, pool) {
  assert.equal(pairs(await send("POOL", "CREATE", pool, "RANGE", "1", "1000", "LEASE", "60")).result, "OK");
  const made = pairs(await send("ALLOC", pool, "job/1", "COUNT", "2", "META", '{"a":1}'));
  assert.deepEqual([...made.values], ["1", "2"]);
  const seen = pairs(await send("LEASE", made.lease));
  assert.deepEqual([seen.holder, seen.meta, seen.state], ["job/1", '{"a":1}', "active"]);
  await assert.rejects(send("TOUCH", made.lease, "9"), /^(\w*Error: )?STALE/);
  await assert.rejects(send("NONSENSE", "x"), /unknown command/);
  assert.equal(pairs(await send("RELEASE", made.lease, "job/1", "1")).state, "released");
  const many = await Promise.all(Array.from({ length: 500 }, (_, i) => send("ALLOC", pool, `h/${i}`)));
  assert.equal(new Set(many.map((one) => pairs(one).lease)).size, 500);
  assert.equal(await send("ECHO", "été"), "été");
}

// Heard on a channel while `send` allocates; `subscribe(name, listener)` is the library's.
async function subscriptions(subscribe, psubscribe, send, pool) {
  const heard = [];
  const matched = [];
  await subscribe(`pool:${pool}`, (text) => heard.push(JSON.parse(text)));
  await psubscribe(`holder:sub*`, (text, channel) => matched.push([channel, JSON.parse(text).kind]));
  const lease = pairs(await send("ALLOC", pool, "sub/1")).lease;
  await until(() => heard.length > 0 && matched.length > 0, "a message");
  assert.deepEqual([heard[0].kind, heard[0].lease], ["lease.active", lease]);
  assert.deepEqual(matched[0], ["holder:sub/1", "lease.active"]);
  const again = [];
  await subscribe("events?after=0", (text) => again.push(JSON.parse(text).id));
  await until(() => again.includes(heard[0].id), "what happened before");
  assert.equal(new Set(again).size, again.length);
}

async function nodeRedis(server, RESP) {
  const options = { socket: { port: server.port, reconnectStrategy: 20 }, RESP };
  const client = createClient({ ...options, name: `node-${RESP}`, clientInfoTag: "test" });
  const listener = client.duplicate();
  const quiet = () => {}; // it says that the server is away; that is what is tested
  client.on("error", quiet);
  listener.on("error", quiet);
  await client.connect();
  await listener.connect();
  const send = (...words) => client.sendCommand(words);
  const pool = `node-redis-${RESP}`;
  await commands(send, pool);
  assert.equal(await client.ping(), "PONG");
  await subscriptions((name, f) => listener.subscribe(name, f),
    (name, f) => listener.pSubscribe(name, f), send, pool);
  if (RESP === 3) {
    assert.equal(await listener.ping(), "PONG");
  }
  return {
    send,
    pool,
    follow: (name, f) => listener.subscribe(name, f),
    end: async () => {
      await listener.close();
      await client.close();
    },
  };
}

async function ioRedis(server) {
  const options = { port: server.port, retryStrategy: () => 20, maxRetriesPerRequest: null };
  const client = new Redis({ ...options, connectionName: "io" });
  const listener = new Redis(options);
  const handlers = new Map();
  client.on("error", () => {});
  listener.on("error", () => {});
  listener.on("message", (channel, text) => handlers.get(channel)?.(text));
  listener.on("pmessage", (pattern, channel, text) => handlers.get(pattern)?.(text, channel));
  const send = (...words) => client.call(...words);
  await commands(send, "ioredis");
  const piped = await client.pipeline([["call", "ALLOC", "ioredis", "p1"], ["ping"],
    ["call", "ALLOC", "nowhere", "p2"]]).exec();
  assert.equal(piped[1][1], "PONG");
  assert.match(String(piped[2][0]), /POOL_NOTFOUND/);
  const on = (name, f) => handlers.set(name, f);
  await subscriptions((name, f) => (on(name, f), listener.subscribe(name)),
    (name, f) => (on(name, f), listener.psubscribe(name)), send, "ioredis");
  assert.equal(await listener.ping(), "PONG");
  return {
    send,
    pool: "ioredis",
    follow: (name, f) => (on(name, f), listener.subscribe(name)),
    end: async () => {
      await listener.quit();
      await client.quit();
    },
  };
}

const server = new Server();
process.on("exit", () => server.process?.kill("SIGKILL")); // whatever happens, it does not stay behind
await server.start();
const clients = [await nodeRedis(server, 2), await nodeRedis(server, 3), await ioRedis(server)];
console.log("commands and subscriptions: ok");

// Libraries connect and subscribe again by themselves; what was written while nobody listened comes too.
const seen = clients.map(() => new Set());
for (const [i, client] of clients.entries()) {
  await client.follow(`pool:${client.pool}?after=0`, (text) => seen[i].add(JSON.parse(text).lease));
}
await server.stop("SIGKILL");
await server.start();
for (const [i, client] of clients.entries()) {
  const lease = pairs(await until(() => client.send("ALLOC", client.pool, "back").catch(() => null),
    "it is back")).lease;
  await until(() => seen[i].has(lease), "the event");
}
console.log("a server that came back: ok");

for (const client of clients) {
  await client.end();
}

// The same over the Unix-domain socket, as the server's own user.
const path = join(server.data, "data", "tenure.sock");
const spec = JSON.stringify({ command: ["/bin/true"] });
const node = createClient({ socket: { path } });
await node.connect();
assert.equal(pairs(await node.sendCommand(["SENSOR", "SET", "s", "t", spec])).result, "OK");
await node.close();
const io = new Redis({ path });
assert.equal(pairs(await io.call("SENSOR", "SET", "s", "t", spec)).result, "OK");
await io.quit();
console.log("the socket: ok");

assert.equal(await server.stop("SIGTERM"), 0);
rmSync(server.data, { recursive: true });
console.log("all ok");
