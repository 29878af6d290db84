// The server's commands as methods: POOL CREATE is poolCreate. Writes take `opid`, reads `fence`.
import { randomUUID } from "node:crypto";
import { givenUp } from "./errors.js";
import * as replies from "./replies.js";

/** @typedef {string | number | bigint} Word */
/** @typedef {Record<string, any>} Options */

/**
 * NAME value for each option that has one.
 * @param {Record<string, Word | undefined | null>} named
 * @returns {Word[]}
 */
function optional(named) {
  return Object.entries(named).flatMap(([name, value]) =>
    value === undefined || value === null ? [] : [name.toUpperCase(), value]);
}

/** @param {any} value */
function json(value) {
  return value === undefined || value === null || typeof value === "string" ? value : JSON.stringify(value);
}

/**
 * @param {number | readonly Word[]} amount
 * @returns {Word[]}
 */
function amountWords(amount) {
  return typeof amount === "number" ? ["COUNT", amount] : ["VALUES", amount.length, ...amount];
}

/** @param {Record<string, any> | readonly (readonly [string, any])[]} claims */
function claimWords(claims) {
  const pairs = Array.isArray(claims) ? claims : Object.entries(claims);
  return pairs.flatMap(([pool, amount]) => ["FROM", pool, ...amountWords(amount)]);
}

/**
 * @param {any} range
 * @returns {Word[]}
 */
function rangeWords(range) {
  if (range === undefined) return [];
  if (typeof range === "string") return ["RANGE", range];
  return Array.isArray(range[0]) ? range.flatMap((/** @type {any} */ span) => ["RANGE", ...span])
    : ["RANGE", ...range];
}

/** @param {any} value */
function optionText(value) {
  if (typeof value === "boolean") return value ? "yes" : "no";
  return Array.isArray(value) ? value.map(([lo, hi]) => `${lo}-${hi}`).join(",") : String(value);
}

/**
 * @param {Options} options
 * @returns {Word[]}
 */
function policyWords({ range, set, reason, opid, ...options }) {
  return [...rangeWords(range), ...(set ? ["SET"] : []),
    ...Object.entries(options).flatMap(([name, value]) => [snake(name), optionText(value)]),
    ...optional({ reason })];
}

/** @param {string} name */
function snake(name) {
  return name.replace(/[A-Z]/g, (letter) => "_" + letter).toUpperCase();
}

/** @param {Word | undefined} wait seconds, or a number with a unit */
function secondsOf(wait) {
  const found = /^(\d+)([smhd]?)$/.exec(String(wait ?? 0));
  return found ? Number(found[1]) * ({ s: 1, m: 60, h: 3600, d: 86400 }[found[2]] ?? 1) : 0;
}

/**
 * A reply of another form does not tell the outcome.
 * @param {(reply: any) => any} parse
 * @param {{kind: string, opid?: string}} request
 * @param {any} reply
 */
function parsed(parse, request, reply) {
  try {
    return parse(reply);
  } catch (error) {
    throw givenUp(request, true, error);
  }
}

/** `run` sends a request; the classes that extend this one say how. */
export class Commands {
  /**
   * @param {{words: readonly Word[], kind: string, opid?: string, wait?: number, signal?: AbortSignal}} _
   * @returns {Promise<any>}
   */
  run(_) {
    throw new Error("not implemented");
  }

  /**
   * Any command, as words; the raw reply. It is repeated after a lost connection only if `kind` says
   * how: a "write" gets an operation id.
   * @param {readonly Word[]} words
   * @param {{kind?: "write" | "read", opid?: string}} [options]
   */
  execute(words, { kind, opid } = {}) {
    return kind === "write" ? this.write((r) => r, { opid }, words)
      : this.run({ words, kind: kind ?? "" });
  }

  /**
   * @param {(reply: any) => any} parse
   * @param {Options} options
   * @param {readonly Word[]} words
   */
  async write(parse, { opid = randomUUID(), wait, signal }, words) {
    const request = { words: [...words, "OPID", opid], kind: "write", opid, wait: secondsOf(wait), signal };
    return parsed(parse, request, await this.run(request));
  }

  /**
   * @param {(reply: any) => any} parse
   * @param {Options} options
   * @param {readonly Word[]} words
   */
  async read(parse, { fence }, words) {
    const request = { words: [...words, ...optional({ fence })], kind: "read" };
    return parsed(parse, request, await this.run(request));
  }

  /**
   * All rows, page after page.
   * @param {string} name of the rows in a page
   * @param {(cursor: string | undefined) => Promise<any>} next
   */
  async *#pages(name, next) {
    let cursor;
    while (cursor !== "0") {
      const page = await next(cursor);
      yield* page[name];
      cursor = page.cursor;
    }
  }

  // Pools

  /** @param {string} pool @param {Options} [o] */
  poolCreate(pool, o = {}) {
    return this.write(replies.done, o, ["POOL", "CREATE", pool, ...policyWords(o)]);
  }

  /** @param {string} pool @param {Options} [o] */
  poolAlter(pool, o = {}) {
    return this.write(replies.done, o, ["POOL", "ALTER", pool, ...policyWords(o)]);
  }

  /** @param {string} pool @param {Options} [o] */
  poolDrop(pool, o = {}) {
    return this.write(replies.done, o, ["POOL", "DROP", pool, ...optional({ reason: o.reason })]);
  }

  /** @param {string} pool @param {readonly string[]} names @param {Options} [o] */
  poolAdd(pool, names, o = {}) {
    return this.write(replies.counted("added"), o,
      ["POOL", "ADD", pool, ...names, ...optional({ reason: o.reason })]);
  }

  /** @param {string} pool @param {readonly string[]} names @param {Options} [o] */
  poolRemove(pool, names, o = {}) {
    return this.write(replies.counted("removed"), o,
      ["POOL", "REMOVE", pool, ...names, ...optional({ reason: o.reason })]);
  }

  /** @param {string} pool @param {Options} [o] */
  poolSeed(pool, o = {}) {
    return this.write(replies.done, o,
      ["POOL", "SEED", pool, ...optional({ given: o.given, reclaimed: o.reclaimed })]);
  }

  /** @param {string} pool @param {Options} [o] */
  poolHistory(pool, o = {}) {
    return this.read(replies.history, o,
      ["POOL", "HISTORY", pool, ...optional({ step: o.step, count: o.count })]);
  }

  /** @param {string} pool @param {Options} [o] */
  poolInfo(pool, o = {}) {
    return this.read(replies.pool, o, ["POOL", "INFO", pool]);
  }

  /** @param {Options} [o] */
  poolList(o = {}) {
    return this.read(replies.poolPage, o,
      ["POOL", "LIST", ...optional({ cursor: o.cursor, count: o.count })]);
  }

  pools() {
    return this.#pages("pools", (cursor) => this.poolList({ cursor }));
  }

  /** @param {string} pool @param {Options} [o] */
  poolMetrics(pool, o = {}) {
    return this.read(replies.same, o, ["POOL", "METRICS", pool]);
  }

  /** @param {string} pool @param {Options} [o] */
  poolValues(pool, o = {}) {
    const { state, cursor, count } = o;
    return this.read(replies.valuePage, o,
      ["POOL", "VALUES", pool, ...optional({ state, cursor, count })]);
  }

  /** @param {string} pool @param {Options} [o] */
  values(pool, o = {}) {
    return this.#pages("values", (cursor) => this.poolValues(pool, { ...o, cursor }));
  }

  /** @param {string} value @param {Options} [o] */
  value(value, o = {}) {
    return this.read(replies.same, o, ["VALUE", value]);
  }

  // Leases

  /** @param {string} pool @param {string | null} [holder] @param {Options} [o] */
  alloc(pool, holder, o = {}) {
    const { count, values, ttl, wait, meta } = o;
    if (count !== undefined && values !== undefined) throw new TypeError("either count or values");
    const amount = values ?? count;
    if (holder?.toUpperCase() === "FROM") { // would be read as the other form
      return this.allocBundle(holder, { [pool]: amount ?? 1 }, o);
    }
    return this.write(replies.grant, o, ["ALLOC", pool, holder ?? "*",
      ...(amount === undefined ? [] : amountWords(amount)), ...optional({ ttl, wait, meta: json(meta) })]);
  }

  /** @param {string} holder @param {any} claims @param {Options} [o] */
  allocBundle(holder, claims, o = {}) {
    const { ttl, wait, meta } = o;
    return this.write(replies.grant, o,
      ["ALLOC", holder, ...claimWords(claims), ...optional({ ttl, wait, meta: json(meta) })]);
  }

  /** @param {string} holder @param {any} claims @param {Options} o */
  reserve(holder, claims, o) {
    const { ttl, wait, meta } = o;
    return this.write(replies.grant, o, ["RESERVE", holder, "TTL", ttl, ...claimWords(claims),
      ...optional({ wait, meta: json(meta) })]);
  }

  /** @param {string} lease @param {string} holder @param {number} epoch @param {Options} [o] */
  activate(lease, holder, epoch, o = {}) {
    return this.write(replies.moved, o, ["ACTIVATE", lease, holder, epoch]);
  }

  /** @param {string} lease @param {number} epoch @param {Options} [o] */
  touch(lease, epoch, o = {}) {
    return this.write(replies.moved, o,
      ["TOUCH", lease, epoch, ...optional({ ttl: o.ttl, meta: json(o.meta) })]);
  }

  /** @param {string} lease @param {string} holder @param {number} epoch @param {Options} [o] */
  release(lease, holder, epoch, o = {}) {
    return this.write(replies.moved, o, ["RELEASE", lease, holder, epoch, ...(o.now ? ["NOW"] : []),
      ...optional({ reason: o.reason })]);
  }

  /** @param {string} lease @param {Options} [o] */
  revoke(lease, o = {}) {
    return this.write(replies.moved, o,
      ["REVOKE", lease, ...optional({ after: o.after, reason: o.reason })]);
  }

  /** @param {string} lease @param {string} holder @param {number} epoch @param {Options} [o] */
  ack(lease, holder, epoch, o = {}) {
    return this.write(replies.moved, o, ["ACK", lease, holder, epoch]);
  }

  /** @param {string} lease @param {Options} [o] */
  reclaim(lease, o = {}) {
    return this.write(replies.moved, o, ["RECLAIM", lease, ...optional({ reason: o.reason })]);
  }

  /** @param {string} lease @param {number} epoch @param {string} holder @param {Options} [o] */
  rekey(lease, epoch, holder, o = {}) {
    return this.write(replies.moved, o,
      ["REKEY", lease, epoch, holder, ...optional({ reason: o.reason })]);
  }

  /** @param {string} pool @param {string} holder @param {readonly Word[]} values @param {Options} [o] */
  import(pool, holder, values, o = {}) {
    const { deadline, created, seen, offline, meta } = o;
    return this.write(replies.moved, o, ["IMPORT", pool, holder, ...amountWords(values),
      ...optional({ deadline, created, seen, offline, meta: json(meta) })]);
  }

  /** @param {string} holder @param {Options} [o] */
  disown(holder, o = {}) {
    return this.write(replies.counted("released"), o,
      ["DISOWN", holder, ...optional({ pool: o.pool, reason: o.reason })]);
  }

  /** @param {Options} [o] */
  sweep(o = {}) {
    return this.write(replies.counted("freed"), o, ["SWEEP", ...optional({ pool: o.pool })]);
  }

  /** @param {Options} [o] */
  tick(o = {}) {
    return this.write(replies.done, o, ["TICK"]);
  }

  /** @param {string} lease @param {number} epoch @param {Options} [o] */
  verify(lease, epoch, o = {}) {
    return this.read(replies.verified, o, ["VERIFY", lease, epoch]);
  }

  /** @param {string} lease @param {Options} [o] */
  lease(lease, o = {}) {
    return this.read(replies.lease, o, ["LEASE", lease]);
  }

  /** @param {Options} [o] */
  leases(o = {}) {
    const { pool, holder, state, cursor, count } = o;
    return this.read(replies.leasePage, o,
      ["LEASES", ...optional({ pool, holder, state, cursor, count })]);
  }

  /** @param {Options} [o] */
  allLeases(o = {}) {
    return this.#pages("leases", (cursor) => this.leases({ ...o, cursor }));
  }

  /** @param {Options} [o] */
  events(o = {}) {
    const { after, count, pool, holder } = o;
    return this.read(replies.eventPage, o, ["EVENTS", ...optional({ after, count, pool, holder })]);
  }

  // Rules and sensors

  /** @param {string} id @param {string} trigger @param {Options} [o] */
  ruleSet(id, trigger, o = {}) {
    return this.write(replies.done, o, ["RULE", "SET", id, trigger,
      ...(o.disabled ? ["DISABLED"] : []), ...optional({ meta: json(o.meta), reason: o.reason })]);
  }

  /** @param {string} id @param {Options} [o] */
  ruleInfo(id, o = {}) {
    return this.read(replies.rule, o, ["RULE", "INFO", id]);
  }

  /** @param {string} id @param {Options} [o] */
  ruleDelete(id, o = {}) {
    return this.write(replies.done, o, ["RULE", "DELETE", id, ...optional({ reason: o.reason })]);
  }

  /** @param {string} id @param {Options} [o] */
  ruleEnable(id, o = {}) {
    return this.write(replies.done, o, ["RULE", "ENABLE", id, ...optional({ reason: o.reason })]);
  }

  /** @param {string} id @param {Options} [o] */
  ruleDisable(id, o = {}) {
    return this.write(replies.done, o, ["RULE", "DISABLE", id, ...optional({ reason: o.reason })]);
  }

  /** @param {Options} [o] */
  ruleList(o = {}) {
    return this.read(replies.rulePage, o,
      ["RULE", "LIST", ...optional({ cursor: o.cursor, count: o.count })]);
  }

  /** @param {string} ref @param {string} trigger @param {any} spec @param {Options} [o] */
  sensorSet(ref, trigger, spec, o = {}) {
    return this.write(replies.done, o, ["SENSOR", "SET", ref, trigger, json(spec),
      ...(o.disabled ? ["DISABLED"] : []), ...optional({ reason: o.reason })]);
  }

  /** @param {string} ref @param {Options} [o] */
  sensorInfo(ref, o = {}) {
    return this.read(replies.sensor, o, ["SENSOR", "INFO", ref]);
  }

  /** @param {string} ref @param {Options} [o] */
  sensorDelete(ref, o = {}) {
    return this.write(replies.done, o, ["SENSOR", "DELETE", ref, ...optional({ reason: o.reason })]);
  }

  /** @param {string} ref @param {Options} [o] */
  sensorEnable(ref, o = {}) {
    return this.write(replies.done, o, ["SENSOR", "ENABLE", ref, ...optional({ reason: o.reason })]);
  }

  /** @param {string} ref @param {Options} [o] */
  sensorDisable(ref, o = {}) {
    return this.write(replies.done, o, ["SENSOR", "DISABLE", ref, ...optional({ reason: o.reason })]);
  }

  /** @param {Options} [o] */
  sensorList(o = {}) {
    return this.read(replies.sensorPage, o,
      ["SENSOR", "LIST", ...optional({ cursor: o.cursor, count: o.count })]);
  }

  /** @param {string} ref @param {Options} [o] */
  sensorStatus(ref, o = {}) {
    return this.read(replies.same, o, ["SENSOR", "STATUS", ref]);
  }

  /** @param {string} ref @param {Options} [o] */
  sensorLogs(ref, o = {}) {
    return this.read(replies.same, o,
      ["SENSOR", "LOGS", ref, ...optional({ after: o.after, count: o.count })]);
  }

  /** @param {string} ref @param {string} token @param {Options} [o] */
  sensorRules(ref, token, o = {}) {
    return this.read(replies.rulePage, o,
      ["SENSOR", "RULES", ref, token, ...optional({ cursor: o.cursor, count: o.count })]);
  }

  /** @param {string} token @param {Options} [o] */
  sensorHeartbeat(token, o = {}) {
    return this.read((r) => replies.same(r).expiresAt, o, ["SENSOR", "HEARTBEAT", token]);
  }

  /** @param {string} token @param {string} trigger @param {any} [payload] @param {Options} [o] */
  emit(token, trigger, payload, o = {}) {
    return this.write(replies.done, o,
      ["EMIT", token, trigger, ...optional({ payload: json(payload) })]);
  }

  // Tokens

  /** @param {string} lease @param {number} epoch @param {Options} [o] */
  tokenIssue(lease, epoch, o = {}) {
    const { ttl, refresh, scope } = o;
    return this.read(replies.signedToken, o,
      ["TOKEN", "ISSUE", lease, epoch, ...optional({ ttl, refresh, scope })]);
  }

  /** @param {string} ref @param {Options} [o] */
  tokenSensor(ref, o = {}) {
    const { ttl, refresh, scope } = o;
    return this.read(replies.signedToken, o,
      ["TOKEN", "SENSOR", ref, ...optional({ ttl, refresh, scope })]);
  }

  /** @param {string} token @param {Options} [o] */
  tokenRefresh(token, o = {}) {
    return this.read(replies.signedToken, o, ["TOKEN", "REFRESH", token, ...optional({ ttl: o.ttl })]);
  }

  /** @param {string} token @param {Options} [o] */
  tokenIntrospect(token, o = {}) {
    return this.read(replies.tokenState, o, ["TOKEN", "INTROSPECT", token]);
  }

  /** @param {string} id @param {Options} [o] */
  tokenRevoke(id, o = {}) {
    return this.write(replies.moved, o,
      ["TOKEN", "REVOKE", id, ...optional({ after: o.after, reason: o.reason })]);
  }

  /** @param {Options} [o] */
  tokenKeys(o = {}) {
    return this.read((r) => r.keys, o, ["TOKEN", "KEYS"]);
  }

  // Users

  /** @param {Options} [o] */
  whoami(o = {}) {
    return this.read(replies.same, o, ["WHOAMI"]);
  }

  /** @param {string} name @param {string} role @param {string} secret @param {Options} [o] */
  userAdd(name, role, secret, o = {}) {
    return this.userWrite("ADD", name, { ...o, role, secret });
  }

  /** @param {string} name @param {Options} [o] */
  userSet(name, o = {}) {
    return this.userWrite("SET", name, o);
  }

  /** @param {string} verb @param {string} name @param {Options} o */
  userWrite(verb, name, o) {
    const { role, secret, pools, holders, maxValues, reason } = o;
    return this.write(replies.done, o, ["USER", verb, name,
      ...optional({ role, secret, pools, holders, max_values: maxValues, reason })]);
  }

  /** @param {string} name @param {Options} [o] */
  userDelete(name, o = {}) {
    return this.write(replies.done, o, ["USER", "DELETE", name, ...optional({ reason: o.reason })]);
  }

  /** @param {Options} [o] */
  userList(o = {}) {
    return this.read(replies.userPage, o,
      ["USER", "LIST", ...optional({ cursor: o.cursor, count: o.count })]);
  }

  // The server

  ping() {
    return this.read(String, {}, ["PING"]);
  }

  /** The server's clock, in seconds since 1970. */
  time() {
    return this.read((r) => Number(r[0]) + Number(r[1]) / 1e6, {}, ["TIME"]);
  }

  nodeList() {
    return this.read((r) => r.nodes, {}, ["NODE", "LIST"]);
  }
}
