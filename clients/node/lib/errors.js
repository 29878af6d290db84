// Refusals and their outcomes. The names are those of the server's one table; a test compares them.

const COMMITTED = new Set(("OK,NOOP,EXISTS,NOTFOUND,RETIRED,BUSY,EXHAUSTED,QUOTA,STATE,HOLDER,STALE," +
  "TOO_LARGE,BAD_TTL,BAD_VALUE,BAD_NAME,BAD_POLICY,BAD_REQUEST,CONFLICT,DENIED,POOL_NOTFOUND," +
  "POOL_IN_USE,LEASES_FULL,MEMBERS_FULL,NAMES_FULL,POOLS_FULL,RESOURCES_FULL,DEMAND_FULL,WAITING," +
  "WAITERS_FULL,USERS_FULL").split(","));
const UNKNOWN = new Set(["HALTED", "LOST"]);

/** This node does not own the log. */
export const ELSEWHERE = new Set(["READONLY", "MASTERDOWN"]);
/** Repeated until the client gives up. */
export const TRY_AGAIN = new Set(["OVERLOADED", "CLOSED", "HALTED", "LOST", ...ELSEWHERE]);
/** Of a repeat: says nothing about the first attempt. */
export const TURNED_AWAY = new Set(["OVERLOADED", "CLOSED", "NOSPACE", ...ELSEWHERE]);

/**
 * The outcome of a write with this result.
 * @param {string} result
 * @returns {"committed" | "rejected" | "unknown"}
 */
export function outcomeOf(result) {
  return UNKNOWN.has(result) ? "unknown" : COMMITTED.has(result) ? "committed" : "rejected";
}

/** @param {string} text */
function unquoted(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // not UTF-8
  }
}

/**
 * The `key=value` words at the end of a refusal.
 * @param {string} text
 * @returns {Record<string, string>}
 */
function factsOf(text) {
  /** @type {Record<string, string>} */
  const facts = {};
  for (const word of text.split(" ").slice(1).reverse()) {
    const found = /^([A-Za-z_]+)=(.+)$/.exec(word);
    if (!found) break;
    facts[found[1]] = found[1] === "holder" ? unquoted(found[2]) : found[2];
  }
  return facts;
}

/** The base class of all errors about the server. */
export class TenureError extends Error {
  get name() {
    return this.constructor.name;
  }
}

/** The server said no, or could not be reached. */
export class ResultError extends TenureError {
  /**
   * @param {string} text
   * @param {{outcome?: "committed" | "rejected" | "unknown", opid?: string, cause?: unknown}} [more]
   */
  constructor(text, { outcome, opid, cause } = {}) {
    super(text, cause === undefined ? undefined : { cause });
    this.result = text.split(" ", 1)[0];
    this.facts = factsOf(text);
    this.outcome = outcome ?? outcomeOf(this.result);
    this.opid = opid;
  }

  /** The log position of the refusal; null: it is not in the log. */
  get lsn() {
    return "lsn" in this.facts ? Number(this.facts.lsn) : null;
  }

  /** When a value becomes free by itself, in milliseconds since 1970, if known. */
  get retryAt() {
    return "retry_at" in this.facts ? Number(this.facts.retry_at) : null;
  }
}

/** A held lease was lost, or its state is unknown. */
export class LeaseLost extends TenureError {
  /**
   * @param {string} lease
   * @param {string} reason
   */
  constructor(lease, reason) {
    super(`lease ${lease}: ${reason}`);
    this.lease = lease;
    this.reason = reason;
  }
}

/**
 * The error for an error reply. A refused write without a log position was rejected before the log,
 * whatever its result.
 * @param {string} text
 * @param {boolean} write
 * @param {string} [opid]
 */
export function errorOf(text, write, opid) {
  const error = new ResultError(text, { opid });
  if (error.outcome === "committed" && write && error.lsn === null) error.outcome = "rejected";
  return error;
}

/**
 * After a lost connection: a write that was sent may have happened.
 * @param {{kind: string, opid?: string}} request
 * @param {boolean} sent
 * @param {unknown} cause
 */
export function givenUp(request, sent, cause) {
  const why = cause instanceof Error ? cause.message : String(cause);
  const { opid } = request;
  return sent && request.kind !== "read"
    ? new ResultError(`LOST no answer: ${why}`, { outcome: "unknown", opid, cause })
    : new ResultError(`UNREACHABLE ${why}`, { outcome: "rejected", opid, cause });
}

/**
 * The answer, or the refusal as a value: `switch` over its `result`.
 * @template T
 * @param {Promise<T>} promise
 * @returns {Promise<T | ResultError>}
 */
export async function settled(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error instanceof ResultError) return error;
    throw error;
  }
}
