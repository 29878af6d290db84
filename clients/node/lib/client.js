// The client: finds the server that owns the log, repeats what may be repeated, and gives up in time.
import { addressesOf } from "./address.js";
import { Pause, monotonic, sleep } from "./clock.js";
import { Commands } from "./commands.js";
import { Connection } from "./connection.js";
import { ELSEWHERE, ResultError, TRY_AGAIN, TURNED_AWAY, errorOf, givenUp } from "./errors.js";
import { Follower } from "./follow.js";
import { Held } from "./hold.js";
import { ErrorReply } from "./resp.js";

const OP_WINDOW_SECONDS = 600; // how long the server remembers operation ids, by default
const HOPS_MAX = 3; // from node to node without a pause, while looking for the owner of the log
const IDLE_MAX = 4; // connections kept after requests that waited in line

/** @typedef {import("./address.js").Address} Address */
/**
 * @typedef {{words: readonly (string | number | bigint)[], kind: string, opid?: string, wait?: number,
 *            signal?: AbortSignal}} Request
 */

export class Client extends Commands {
  /** @type {Address[]} */
  #addresses;
  /** Requests that do not wait in line share one connection.
   * @type {Promise<Connection> | null} */
  #shared = null;
  /** @type {Connection[]} */
  #idle = [];
  #closed = false;

  /**
   * @param {string} [address]
   * @param {import("../index.js").ClientOptions} [options]
   */
  constructor(address, options = {}) {
    super();
    const { timeout = 10, retrySeconds = 30 } = options;
    if (!(timeout > 0) || !(retrySeconds >= 0)) {
      throw new TypeError("timeout must be above 0, retrySeconds not below");
    }
    // The last attempt may still connect and say hello.
    if (retrySeconds + 3 * timeout >= OP_WINDOW_SECONDS) {
      throw new TypeError(`retrySeconds + 3 * timeout must stay below the ${OP_WINDOW_SECONDS} ` +
        "seconds in which the server remembers operation ids");
    }
    this.timeout = timeout;
    this.retrySeconds = retrySeconds;
    this.#addresses = addressesOf(address, options);
    /** Where new connections go. */
    this.address = this.#addresses[0];
  }

  close() {
    this.#closed = true;
    this.#forget();
  }

  // Connections

  /**
   * A new connection, to any of the addresses.
   * @param {number} [timeout]
   */
  async connect(timeout = this.timeout) {
    for (let left = this.#addresses.length; ; left--) {
      const { address } = this;
      try {
        return await Connection.open(address, timeout);
      } catch (error) {
        if (error instanceof ResultError) throw error;
        this.leave(address);
        if (left <= 1) throw error;
      }
    }
  }

  /**
   * New connections go to the next address after this one.
   * @param {Address} address
   */
  leave(address) {
    if (this.address !== address) return;
    const at = this.#addresses.indexOf(address);
    this.address = this.#addresses[(at + 1) % this.#addresses.length];
  }

  /**
   * After READONLY or MASTERDOWN from that address; whether the owner is known.
   * @param {ResultError} refusal
   * @param {Address} address
   */
  goElsewhere(refusal, address) {
    const leader = /^(?:\[([^\]]+)\]|(.+)):(\d+)$/.exec(refusal.facts.leader ?? "");
    if (leader === null) {
      this.leave(address);
      return false;
    }
    if (this.address === address) {
      this.address = { ...address, path: undefined, host: leader[1] ?? leader[2], port: Number(leader[3]) };
    }
    return true;
  }

  /** @param {boolean} alone */
  async #borrow(alone) {
    if (this.#closed) throw new ResultError("CLOSED this client was closed", { outcome: "rejected" });
    if (alone) return this.#idle.pop() ?? this.connect();
    const opening = this.#shared ??= this.connect();
    const forget = () => {
      if (this.#shared === opening) this.#shared = null;
    };
    opening.then((connection) => {
      connection.onBroken = forget;
      if (connection.broken || this.#closed) forget();
    }, forget);
    return opening;
  }

  /** @param {Connection} connection */
  #giveBack(connection) {
    if (connection.broken) return;
    if (this.#closed || this.#idle.length >= IDLE_MAX) connection.destroy();
    else this.#idle.push(connection);
  }

  /** Called when the connections lead to the wrong node, or to none. */
  #forget() {
    const shared = this.#shared;
    this.#shared = null;
    // Requests that others have sent on it are still answered.
    shared?.then((connection) => {
      if (this.#closed || connection.pending.length === 0) connection.destroy();
      else connection.onIdle = () => connection.destroy();
    }, () => {});
    for (const connection of this.#idle.splice(0)) connection.destroy();
  }

  // Requests

  /**
   * @param {Request} request
   * @returns {Promise<any>}
   */
  async run(request) {
    const end = monotonic() + this.retrySeconds;
    const pause = new Pause();
    const attempt = { sent: false, address: this.address }; // sent, without an answer: it may have happened
    for (let hops = 0; ;) {
      request.signal?.throwIfAborted();
      try {
        const reply = await this.#once(request, attempt);
        if (!(reply instanceof ErrorReply)) return reply;
        throw errorOf(reply.text, request.kind === "write", request.opid);
      } catch (error) {
        request.signal?.throwIfAborted();
        this.#judge(request, error, attempt.sent, monotonic() >= end);
        if (error instanceof ResultError && ELSEWHERE.has(error.result)) {
          this.#forget();
          if (this.goElsewhere(error, attempt.address) && hops++ < HOPS_MAX) continue;
        }
        if (error instanceof ResultError && error.outcome === "unknown") attempt.sent = true;
      }
      await sleep(Math.min(pause.seconds(), end - monotonic()));
    }
  }

  /**
   * @param {Request} request
   * @param {{sent: boolean, address: Address}} attempt
   */
  async #once(request, attempt) {
    const alone = Boolean(request.wait) || request.signal !== undefined;
    attempt.address = this.address;
    const connection = await this.#borrow(alone);
    attempt.address = connection.address;
    const abort = () => connection.destroy(new Error("aborted"));
    request.signal?.addEventListener("abort", abort, { once: true });
    try {
      return await connection.request(request.words, this.timeout + (request.wait ?? 0));
    } catch (error) {
      attempt.sent = true;
      throw error;
    } finally {
      request.signal?.removeEventListener("abort", abort);
      if (alone) this.#giveBack(connection);
    }
  }

  /**
   * Throws what the caller gets, unless the request is to be repeated.
   * @param {Request} request
   * @param {unknown} error
   * @param {boolean} sent
   * @param {boolean} late
   */
  #judge(request, error, sent, late) {
    const repeatable = request.kind !== "" || !sent;
    if (!(error instanceof ResultError)) { // of the connection
      if (repeatable && !late) return;
      throw givenUp(request, sent, error);
    }
    if (TRY_AGAIN.has(error.result) && request.kind !== "" && !late && !this.#closed) return;
    // A rejected repeat, or log-in, does not show the outcome of the first attempt.
    const turnedAway = TURNED_AWAY.has(error.result) || error.result === "NOAUTH" ||
      outsideTheTable(error);
    if (sent && request.kind === "write" && turnedAway) throw givenUp(request, true, error);
    throw error;
  }

  // Longer things

  /** @param {import("../index.js").FollowOptions} [options] */
  async follow(options = {}) {
    const follower = new Follower(this, options);
    await follower.start();
    return follower;
  }

  /**
   * @param {string} pool
   * @param {string} holder
   * @param {any} [options]
   */
  hold(pool, holder, { count, values, ...options } = {}) {
    return this.holdBundle(holder, { [pool]: values ?? count ?? 1 }, options);
  }

  /**
   * @param {string} holder
   * @param {any} claims
   * @param {any} [options]
   */
  holdBundle(holder, claims, options = {}) {
    return Held.acquire(this, holder, claims, options);
  }
}

/** @param {ResultError} error */
function outsideTheTable(error) {
  return error.result === "WRONGPASS" || error.result === "ERR";
}
