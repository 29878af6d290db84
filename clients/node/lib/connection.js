// One connection: requests in order, replies in the same order, pushes aside. It does not reconnect.
import net from "node:net";
import tls from "node:tls";
import { errorOf } from "./errors.js";
import { ErrorReply, Parser, Push, encode } from "./resp.js";

/** @typedef {import("./address.js").Address} Address */
/**
 * @typedef {{resolve: (reply: any) => void, reject: (error: Error) => void, timer: NodeJS.Timeout,
 *            confirmation?: string}} Pending
 */

/**
 * @param {Address} address
 * @returns {net.Socket}
 */
function socketTo(address) {
  if (address.path !== undefined) return net.connect({ path: address.path });
  const { host, port } = address;
  if (address.tls === undefined) return net.connect({ host, port, noDelay: true });
  const servername = net.isIP(host) ? undefined : host;
  const socket = tls.connect({ host, port, servername, ...address.tls });
  socket.setNoDelay(true);
  return socket;
}

/** @param {Address} address */
function hello(address) {
  const { username, password, name } = address;
  return ["HELLO", 3, ...(password === undefined ? [] : ["AUTH", username ?? "default", password]),
    ...(name === undefined ? [] : ["SETNAME", name])];
}

export class Connection {
  /**
   * @param {Address} address
   * @param {number} timeout seconds for one answer
   */
  constructor(address, timeout) {
    this.address = address;
    this.timeout = timeout;
    /** @type {Error | null} */
    this.broken = null;
    /** Called for each push that is not a confirmation.
     * @type {(items: any[]) => void} */
    this.onPush = () => {};
    /** Called once, when the connection is lost or closed. */
    this.onBroken = () => {};
    /** Called when the last request has its answer. */
    this.onIdle = () => {};
    /** @type {Pending[]} */
    this.pending = [];
    this.parser = new Parser((reply) => this.#received(reply));
    this.socket = socketTo(address);
    this.socket.on("data", (data) => this.#feed(data));
    this.socket.on("error", (error) => this.destroy(error));
    this.socket.on("close", () => this.destroy(new Error("the server closed the connection")));
  }

  /**
   * Connects and logs in.
   * @param {Address} address
   * @param {number} timeout
   */
  static async open(address, timeout) {
    const connection = new Connection(address, timeout);
    try {
      const reply = await connection.request(hello(address));
      if (reply instanceof ErrorReply) throw errorOf(reply.text, false);
      return connection;
    } catch (error) {
      connection.destroy(/** @type {Error} */ (error));
      throw error;
    }
  }

  /** @param {Buffer} data */
  #feed(data) {
    try {
      this.parser.feed(data);
    } catch (error) {
      this.destroy(/** @type {Error} */ (error));
    }
  }

  /** @param {any} reply */
  #received(reply) {
    if (reply instanceof Push && reply.items[0] !== this.pending[0]?.confirmation) {
      this.onPush(reply.items);
      return;
    }
    const first = this.pending.shift();
    if (first === undefined) throw new Error("a reply without a request");
    clearTimeout(first.timer);
    first.resolve(reply);
    if (this.pending.length > 0) return;
    this.socket.unref(); // an idle connection does not keep the process alive
    this.onIdle();
  }

  /**
   * The reply, an ErrorReply among them. After a rejection the request may have been executed.
   * @param {readonly (string | number | bigint)[]} words
   * @param {number} [timeout] in seconds
   * @param {string} [confirmation] the first word of the push that confirms it
   * @returns {Promise<any>}
   */
  request(words, timeout = this.timeout, confirmation) {
    return new Promise((resolve, reject) => {
      if (this.broken) {
        reject(this.broken);
        return;
      }
      const late = () => this.destroy(new Error(`no answer within ${timeout} seconds`));
      const timer = setTimeout(late, Math.min(timeout * 1000, 0x7fffffff));
      this.pending.push({ resolve, reject, timer, confirmation });
      this.socket.ref();
      this.socket.write(encode(words));
    });
  }

  /**
   * Subscribes to one channel.
   * @param {string} channel
   */
  async subscribe(channel) {
    const reply = await this.request(["SUBSCRIBE", channel], this.timeout, "subscribe");
    if (reply instanceof ErrorReply) throw errorOf(reply.text, false);
  }

  /** @param {Error} [error] why */
  destroy(error = new Error("closed")) {
    if (this.broken) return;
    this.broken = error;
    this.socket.destroy();
    for (const { reject, timer } of this.pending.splice(0)) {
      clearTimeout(timer);
      reject(error);
    }
    this.onBroken();
  }
}
