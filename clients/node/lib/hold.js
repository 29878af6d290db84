// A lease that is kept alive in the background.
import { BOOTTIME_STEP, Pause, boottime } from "./clock.js";
import { Connection } from "./connection.js";
import { ELSEWHERE, LeaseLost, ResultError, errorOf } from "./errors.js";
import { event, lease as leaseOf } from "./replies.js";
import { ErrorReply } from "./resp.js";

const CHECK = 10; // seconds between looks at a lease without a deadline
const MARGIN = 5; // the most seconds by which the holder gives up before the deadline
const LOOK = 1; // seconds between looks at the clock, which timers do not follow through a suspend

export class Held {
  #client;
  #ttl;
  /** @type {string | null} why it was lost */
  #reason = null;
  #stopped = false;
  /** @type {number | null} */
  #deadline = null;
  /** @type {number | null} */
  #renewAt = null;
  /** @type {Connection | null} */
  #connection = null;
  #abort = new AbortController();
  /** @type {NodeJS.Timeout | undefined} */
  #timer;
  /** Ends a sleep of the loop. */
  #wake = () => {};
  #loop = Promise.resolve();

  /**
   * @param {import("./client.js").Client} client
   * @param {any} grant
   * @param {string} holder
   * @param {string | number | undefined} ttl
   */
  constructor(client, grant, holder, ttl) {
    this.#client = client;
    this.#ttl = ttl;
    this.grant = grant;
    this.holder = holder;
  }

  /**
   * @param {import("./client.js").Client} client
   * @param {string} holder
   * @param {any} claims
   * @param {any} options
   */
  static async acquire(client, holder, claims, options) {
    const { ttl } = options;
    let asked = boottime();
    const grant = await client.allocBundle(holder, claims, options);
    if (options.wait !== undefined && grant.deadline !== null) {
      // The ttl began at the grant, at an unknown time between the request and its answer.
      asked = boottime();
      await client.touch(grant.lease, grant.epoch, { ttl });
    }
    const held = new Held(client, grant, holder, ttl);
    if (grant.deadline !== null) held.#seen(await client.lease(grant.lease), asked);
    held.#loop = held.#keep();
    return held;
  }

  /** Aborted, with a LeaseLost, before the lease can be another's. */
  get signal() {
    return this.#abort.signal;
  }

  /** @returns {string[]} */
  get values() {
    return this.grant.values;
  }

  /** The only one. */
  get value() {
    if (this.values.length !== 1) throw new TypeError(`it has ${this.values.length} values`);
    return this.values[0];
  }

  /** The fencing token. */
  get token() {
    return { lease: this.grant.lease, epoch: this.grant.epoch };
  }

  get lost() {
    if (this.#reason === null && this.#deadline !== null &&
        boottime() + BOOTTIME_STEP >= this.#deadline) {
      this.#lose("it was not renewed in time");
    }
    return this.#reason !== null;
  }

  /** Why it was lost; null: it is held. */
  get reason() {
    return this.lost ? this.#reason : null;
  }

  /** Throws if the lease is lost; for before anything that only the holder may do. */
  check() {
    if (this.lost) throw this.#error();
  }

  /** Seconds for which the lease is certainly held; null: it has no deadline. */
  remaining() {
    if (this.lost) return 0;
    return this.#deadline === null ? null : this.#deadline - boottime() - BOOTTIME_STEP;
  }

  #error() {
    return new LeaseLost(this.grant.lease, this.#reason ?? "");
  }

  /** @param {string} reason */
  #lose(reason) {
    if (this.#reason !== null) return;
    this.#reason = reason;
    if (!this.#stopped) this.#abort.abort(this.#error());
    this.#interrupt();
  }

  #interrupt() {
    clearTimeout(this.#timer);
    this.#connection?.destroy();
    this.#wake();
  }

  /**
   * What the server says of the lease. `renewed`: when the renewal was sent.
   * @param {any} lease
   * @param {number | null} renewed
   */
  #seen(lease, renewed) {
    if (lease.epoch !== this.grant.epoch || lease.state !== "active") {
      this.#lose(`it is ${lease.state}, with epoch ${lease.epoch}`);
    } else if (lease.deadline !== null && renewed !== null) {
      // The server counted from lastSeen, which was after `renewed`.
      const life = (lease.deadline - lease.lastSeen) / 1000;
      this.#deadline = renewed + life - Math.min(life / 10, MARGIN);
      this.#renewAt = renewed + life / 3;
      this.#watch();
    }
  }

  /** Looks at the clock until the lease is lost. */
  #watch() {
    clearTimeout(this.#timer);
    if (this.lost || this.#stopped || this.#deadline === null) return;
    const left = Math.min(this.#deadline - boottime() - BOOTTIME_STEP, LOOK);
    this.#timer = setTimeout(() => this.#watch(), Math.max(left, 0) * 1000);
  }

  // The loop

  async #keep() {
    const pause = new Pause();
    while (!this.#stopped && !this.lost) {
      const { address } = this.#client;
      try {
        await this.#keepConnected(address, pause);
      } catch (error) {
        if (this.#stopped || this.lost) break;
        if (error instanceof ResultError && error.outcome === "committed") {
          this.#lose(error.message);
        } else if (error instanceof ResultError && ELSEWHERE.has(error.result)) {
          this.#client.goElsewhere(error, address);
        } else {
          this.#client.leave(address);
        }
        await this.#sleep(pause.seconds());
      }
    }
  }

  /** @param {number} seconds */
  #atMost(seconds) {
    return Math.max(Math.min(seconds, this.remaining() ?? seconds), 0.001);
  }

  /** For an answer: a connection that has silently died must leave time for another one. */
  #patience() {
    const left = this.remaining();
    const { timeout } = this.#client;
    return left === null ? timeout : Math.max(Math.min(timeout, left / 2), 0.001);
  }

  /** @param {number} seconds */
  async #sleep(seconds) {
    if (this.#stopped || this.lost) return;
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, this.#atMost(Math.max(seconds, 0)) * 1000);
      this.#wake = () => {
        clearTimeout(timer);
        resolve(undefined);
      };
    });
  }

  /**
   * @param {import("./address.js").Address} address
   * @param {Pause} pause
   */
  async #keepConnected(address, pause) {
    const connection = await Connection.open(address, this.#patience());
    this.#connection = connection;
    connection.onBroken = () => this.#wake();
    connection.onPush = (items) => this.#news(items);
    try {
      // First the subscription, then a renewal: no moment is left that neither would see.
      await this.#subscribe(connection);
      while (!this.#stopped && !this.lost) {
        await this.#look(connection);
        pause.reset();
        await this.#sleep(this.#renewAt === null ? CHECK : this.#renewAt - boottime());
        if (connection.broken) throw connection.broken;
      }
    } finally {
      this.#connection = null;
      connection.destroy();
    }
  }

  /** @param {Connection} connection */
  async #subscribe(connection) {
    try {
      await connection.subscribe("holder:" + this.holder);
    } catch (error) {
      // A holder that ends like "?after=7" is no channel; renewals will tell.
      if (!(error instanceof ResultError) || ELSEWHERE.has(error.result)) throw error;
    }
  }

  /** @param {any[]} items */
  #news(items) {
    if (items[0] !== "message") return;
    const said = event(JSON.parse(items[2]));
    if (said.lease === this.grant.lease && Number(said.epoch ?? 0) > this.grant.epoch) {
      this.#lose(`${said.kind}, ${said.reason}`);
    }
  }

  /**
   * Renews the lease if it is time, and sees that it is still held.
   * @param {Connection} connection
   */
  async #look(connection) {
    const asked = boottime();
    const { lease, epoch } = this.grant;
    const renews = this.#renewAt !== null && asked >= this.#renewAt;
    const timeout = this.#patience();
    const ttl = this.#ttl === undefined ? [] : ["TTL", this.#ttl];
    const answers = await Promise.all([
      ...(renews ? [connection.request(["TOUCH", lease, epoch, ...ttl], timeout)] : []),
      connection.request(["LEASE", lease], timeout)]);
    for (const answer of answers) {
      if (answer instanceof ErrorReply) throw errorOf(answer.text, false);
    }
    this.#seen(leaseOf(answers.at(-1)), renews ? asked : null);
  }

  // The end

  /** Stops the renewals, but does not end the lease. */
  async stop() {
    this.#stopped = true;
    this.#interrupt();
    await this.#loop;
  }

  /**
   * Stops the renewals and releases the lease, or acknowledges that it was revoked; throws LeaseLost if
   * it was lost before.
   * @param {{now?: boolean}} [options]
   */
  async release({ now = false } = {}) {
    await this.stop();
    const { lost } = this;
    try {
      await this.#end(now);
    } catch (error) {
      if (!lost || !(error instanceof ResultError)) throw error;
    }
    if (this.#reason !== null) throw this.#error();
  }

  /** @param {boolean} now */
  async #end(now) {
    const { lease, epoch } = this.grant;
    try {
      await this.#client.release(lease, this.holder, epoch, { now });
      return;
    } catch (error) {
      if (!(error instanceof ResultError) || error.outcome !== "committed") throw error;
      this.#lose(error.message);
    }
    try {
      await this.#client.ack(lease, this.holder, epoch);
    } catch (error) { // it was not revoked, but has ended in another way
      if (!(error instanceof ResultError) || error.outcome !== "committed") throw error;
    }
  }
}
