// Drives clients/node for tests/e2e/clients_table_test.py, which describes the lines.
import { createInterface } from "node:readline";
import { Client, LeaseLost, ResultError, outcomeOf } from "../../clients/node/index.js";

const clients = new Map();
const holds = new Map();
const followers = new Map();

const camel = (name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
const snake = (name) => name.replace(/[A-Z]/g, (letter) => "_" + letter.toLowerCase());

/** Names in snake_case, as the table has them. */
function plain(value) {
  if (Array.isArray(value)) return value.map(plain);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [snake(k), plain(v)]));
}

/** Integers that no number can hold are written as they are. */
function text(value) {
  const marked = JSON.stringify(value, (_, v) => typeof v === "bigint" ? `\u0001${v}\u0001` : v);
  return marked.replace(/"\\u0001(-?\d+)\\u0001"/g, "$1");
}

/** The arguments that a method takes by position; the rest are its options. */
const POSITIONS = {
  alloc: ["pool", "holder"], allocBundle: ["holder", "claims"], reserve: ["holder", "claims"],
  activate: ["lease", "holder", "epoch"], touch: ["lease", "epoch"],
  release: ["lease", "holder", "epoch"], revoke: ["lease"], ack: ["lease", "holder", "epoch"],
  reclaim: ["lease"], rekey: ["lease", "epoch", "holder"], import: ["pool", "holder", "values"],
  disown: ["holder"], verify: ["lease", "epoch"], lease: ["lease"], value: ["value"],
  values: ["pool"], poolCreate: ["pool"], poolAlter: ["pool"], poolDrop: ["pool"],
  poolAdd: ["pool", "names"], poolRemove: ["pool", "names"], poolInfo: ["pool"],
  poolMetrics: ["pool"], poolValues: ["pool"], ruleSet: ["id", "trigger"], ruleInfo: ["id"],
  ruleDelete: ["id"], ruleEnable: ["id"], ruleDisable: ["id"],
  sensorSet: ["ref", "trigger", "spec"], sensorInfo: ["ref"], sensorDelete: ["ref"],
  sensorEnable: ["ref"], sensorDisable: ["ref"], sensorStatus: ["ref"],
  tokenIssue: ["lease", "epoch"], tokenRefresh: ["token"], tokenIntrospect: ["token"],
  tokenRevoke: ["id"], poolSeed: ["pool"], poolHistory: ["pool"], userAdd: ["name", "role", "secret"],
  userSet: ["name"], userDelete: ["name"], tokenSensor: ["ref"], sensorLogs: ["ref"],
  sensorRules: ["ref", "token"], sensorHeartbeat: ["token"], emit: ["token", "trigger_type", "payload"],
};

function state({ held, lostAt }) {
  const left = held.remaining();
  return { values: held.values, ...held.token, lost: held.lost, lostAt, held: left === null || left > 0 };
}

const SPECIAL = {
  connect(name, { address, ...args }) {
    const options = Object.fromEntries(Object.entries(args).map(([k, v]) => [camel(k), v]));
    clients.set(name, new Client(address, options));
  },
  close: (name) => clients.get(name).close(),
  outcome_of: (_, { result }) => outcomeOf(result),
  execute: (name, { words }) => clients.get(name).execute(words),
  async hold(client, { name, holder, claims, ...options }) {
    const entry = { held: await clients.get(client).holdBundle(holder, claims, options), lostAt: null };
    entry.gone = new Promise((resolve) => entry.held.signal.addEventListener("abort", () => {
      entry.lostAt = Date.now();
      resolve();
    }));
    holds.set(name, entry);
    return state(entry);
  },
  held: (_, { name }) => state(holds.get(name)),
  async wait_lost(_, { name }) {
    await holds.get(name).gone;
    return state(holds.get(name));
  },
  end_hold: (_, { name }) => holds.get(name).held.release(),
  async follow(client, { name, ...options }) {
    followers.set(name, await clients.get(client).follow(options));
  },
  next_event: async (_, { name }) => (await followers.get(name).next()).value,
  end_follow: (_, { name }) => followers.get(name).close(),
};

async function run({ client, call, args = {} }) {
  if (call in SPECIAL) return SPECIAL[call](client, args);
  const method = camel(call);
  const { options = {}, ...rest } = args;
  const positions = POSITIONS[method] ?? [];
  const given = positions.map((name) => rest[name]);
  for (const name of positions) delete rest[name];
  const named = Object.fromEntries(Object.entries(rest).map(([k, v]) => [camel(k), v]));
  const answer = clients.get(client)[method](...given, { ...named, ...options });
  if (!(Symbol.asyncIterator in answer)) return answer;
  const rows = [];
  for await (const row of answer) rows.push(row);
  return rows;
}

function refusal(error) {
  if (error instanceof ResultError) {
    const { result, outcome, facts, opid } = error;
    return { result, outcome, facts, logged: error.lsn !== null, opid };
  }
  return error instanceof LeaseLost ? { result: "LEASE_LOST" } : { result: "OTHER", text: error.stack };
}

createInterface({ input: process.stdin }).on("line", async (line) => {
  const request = JSON.parse(line);
  let said;
  try {
    said = { ok: plain(await run(request)) ?? null };
  } catch (error) {
    said = { error: refusal(error) };
  }
  console.log(text({ id: request.id, ...said }));
}).on("close", () => process.exit(0));
