// Events without gaps or duplicates, across lost connections and restarts of the server.
import { Pause, monotonic, sleep } from "./clock.js";
import { ResultError, TRY_AGAIN, givenUp } from "./errors.js";
import { event } from "./replies.js";

const QUEUE_MAX = 1000; // events that were received and not yet taken; then the socket is paused
const SILENCE = 15; // seconds after which the server is asked whether it is there

export class Follower {
  #client;
  #channel;
  /** @type {any[]} */
  #queue = [];
  /** The id of the last event that was received: where a new connection continues.
   * @type {string | undefined} */
  #received;
  /** @type {import("./connection.js").Connection | null} */
  #connection = null;
  #closed = false;
  #heard = false;
  /** @type {NodeJS.Timeout | undefined} */
  #timer;
  #wake = () => {};

  /**
   * @param {import("./client.js").Client} client
   * @param {{after?: string, pool?: string, holder?: string, signal?: AbortSignal}} options
   */
  constructor(client, { after, pool, holder, signal }) {
    if (pool !== undefined && holder !== undefined) throw new TypeError("either pool or holder");
    this.#client = client;
    this.#channel = pool !== undefined ? "pool:" + pool : holder !== undefined ? "holder:" + holder : "events";
    this.#received = after;
    /** The id of the last event that was taken: another process can continue after it. */
    this.position = after ?? "0";
    if (signal?.aborted) this.close();
    signal?.addEventListener("abort", () => this.close(), { once: true });
  }

  async start() {
    if (this.#closed) return;
    this.#received ??= (await this.#client.events({ count: 1 })).newest ?? "0";
    this.position = /** @type {string} */ (this.#received);
    await this.#connect();
  }

  async #connect() {
    const connection = await this.#client.connect();
    if (this.#closed) {
      connection.destroy();
      return;
    }
    connection.onPush = (items) => this.#push(items);
    connection.onBroken = () => {
      if (this.#connection === connection) this.#connection = null;
      this.#wake();
    };
    try {
      await connection.subscribe(`${this.#channel}?after=${this.#received}`);
    } catch (error) {
      connection.destroy();
      throw error;
    }
    if (connection.broken || this.#closed) {
      connection.destroy();
      return;
    }
    this.#connection = connection;
    this.#listen(connection);
  }

  /**
   * Asks the server after a silence, so that a dead connection is noticed.
   * @param {import("./connection.js").Connection} connection
   */
  #listen(connection) {
    clearInterval(this.#timer);
    this.#timer = setInterval(() => {
      const silent = !this.#heard && !connection.socket.isPaused() && connection.pending.length === 0;
      this.#heard = false;
      if (silent) connection.request(["PING"]).catch(() => {});
    }, SILENCE * 1000);
    this.#timer.unref();
  }

  /** @param {any[]} items */
  #push(items) {
    if (items[0] !== "message") return;
    const said = event(JSON.parse(items[2]));
    this.#heard = true;
    if (said.kind !== "lost") this.#received = said.id;
    this.#queue.push(said);
    if (this.#queue.length >= QUEUE_MAX) this.#connection?.socket.pause();
    this.#wake();
  }

  #take() {
    const said = this.#queue.shift();
    if (said.kind !== "lost") this.position = said.id;
    if (this.#queue.length < QUEUE_MAX / 2 && this.#connection?.socket.isPaused()) {
      this.#connection.socket.resume();
    }
    return said;
  }

  /**
   * The next event. After a rejection (the server was away for `retrySeconds`) the iteration can go on.
   * @returns {Promise<IteratorResult<any, undefined>>}
   */
  async next() {
    const pause = new Pause();
    let end = Infinity; // how long to try, from the first failure on
    while (!this.#closed) {
      if (this.#queue.length > 0) return { done: false, value: this.#take() };
      try {
        if (this.#connection === null) await this.#connect();
        else await this.#wait();
      } catch (error) {
        if (error instanceof ResultError && !TRY_AGAIN.has(error.result)) throw error;
        end = Math.min(end, monotonic() + this.#client.retrySeconds);
        if (monotonic() >= end) throw givenUp({ kind: "read" }, false, error);
        await sleep(pause.seconds());
      }
    }
    return { done: true, value: undefined };
  }

  async #wait() {
    this.#connection?.socket.ref();
    await new Promise((resolve) => {
      this.#wake = () => resolve(undefined);
    });
    this.#connection?.socket.unref();
  }

  /** @returns {Promise<IteratorResult<any, undefined>>} */
  async return() {
    this.close();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  close() {
    this.#closed = true;
    clearInterval(this.#timer);
    this.#connection?.destroy();
    this.#wake();
  }
}
