// RESP3: requests out, replies in, in any pieces.

const CR = 13;
const REPLY_MAX = 1 << 26; // bytes of one reply
const LINE_MAX = 1 << 16;
const DEPTH_MAX = 32; // of arrays in arrays

/** An error reply, as a value. */
export class ErrorReply {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
}

/** A message that is no reply. */
export class Push {
  /** @param {any[]} items */
  constructor(items) {
    this.items = items;
  }
}

/** @param {readonly (string | number | bigint)[]} words */
export function encode(words) {
  const parts = [`*${words.length}\r\n`];
  for (const word of words) {
    const text = String(word);
    parts.push(`$${Buffer.byteLength(text)}\r\n${text}\r\n`);
  }
  return parts.join("");
}

/** @param {string} digits */
function integer(digits) {
  const number = Number(digits);
  return Number.isSafeInteger(number) ? number : BigInt(digits);
}

/** @param {string} text */
function double(text) {
  return text === "inf" ? Infinity : text === "-inf" ? -Infinity : Number(text);
}

/** @type {Record<string, (rest: string) => any>} */
const SIMPLE = {
  "+": (rest) => rest,
  "-": (rest) => new ErrorReply(rest),
  ":": integer,
  "(": integer,
  ",": double,
  "#": (rest) => rest === "t",
  "_": () => null,
};

/** @type {Record<string, (text: string) => any>} */
const BULK = {
  "$": (text) => text,
  "=": (text) => text.slice(4),
  "!": (text) => new ErrorReply(text),
};

/** @type {Record<string, (items: any[]) => any>} */
const AGGREGATE = {
  "*": (items) => items,
  "~": (items) => items,
  ">": (items) => new Push(items),
  "%": (items) => Object.fromEntries(
    items.flatMap((key, i) => i % 2 === 0 ? [[String(key), items[i + 1]]] : [])),
};

/** Collects the bytes of a connection into replies; throws if they are not RESP3, or too many. */
export class Parser {
  /** @param {(reply: any) => void} deliver */
  constructor(deliver) {
    this.deliver = deliver;
    /** @type {Buffer} */
    this.buffer = Buffer.alloc(0);
    this.at = 0;
    /** Pieces that came after `buffer`, and how many bytes are needed to go on.
     * @type {Buffer[]} */
    this.pieces = [];
    this.have = 0;
    this.need = 0;
    /** What the reply that is not complete has taken. */
    this.taken = 0;
    /** Aggregates that are not complete, the outermost first.
     * @type {{kind: string, need: number, items: any[]}[]} */
    this.open = [];
  }

  /** @param {Buffer} data */
  feed(data) {
    this.pieces.push(data);
    this.have += data.length;
    if (this.have < this.need) return; // a long text is put together once
    this.buffer = this.pieces.length === 1 ? data : Buffer.concat(this.pieces);
    this.at = 0;
    this.need = 0;
    while (this.#frame());
    const rest = this.buffer.subarray(this.at);
    this.pieces = rest.length > 0 ? [rest] : [];
    this.have = rest.length;
  }

  /** Reads one frame; false: it is not complete. */
  #frame() {
    const end = this.buffer.indexOf("\r\n", this.at, "latin1");
    if ((end < 0 ? this.buffer.length : end) - this.at > LINE_MAX) throw new Error("not RESP3: a long line");
    if (end < 0) return false;
    const kind = String.fromCharCode(this.buffer[this.at]);
    const rest = this.buffer.toString("utf8", this.at + 1, end);
    if (kind in SIMPLE) {
      this.#take(end + 2);
      this.#add(SIMPLE[kind](rest));
      return true;
    }
    const size = Number(rest);
    if (!/^-?\d+$/.test(rest) || size < -1) throw new Error(`not RESP3: ${kind}${rest}`);
    if (size === -1) {
      this.#take(end + 2);
      this.#add(null);
      return true;
    }
    if (size > REPLY_MAX) throw new Error(`a reply of more than ${REPLY_MAX} bytes`);
    return kind in BULK ? this.#bulk(kind, end + 2, size) : this.#aggregate(kind, end + 2, size);
  }

  /**
   * Continues at this place.
   * @param {number} next
   */
  #take(next) {
    this.taken += next - this.at;
    this.at = next;
    if (this.taken > REPLY_MAX) throw new Error(`a reply of more than ${REPLY_MAX} bytes`);
  }

  /**
   * @param {string} kind
   * @param {number} from
   * @param {number} size
   */
  #bulk(kind, from, size) {
    const end = from + size;
    if (this.buffer.length < end + 2) {
      this.need = end + 2 - this.at;
      return false;
    }
    if (this.buffer[end] !== CR) throw new Error("not RESP3: text without an end");
    this.#take(end + 2);
    this.#add(BULK[kind](this.buffer.toString("utf8", from, end)));
    return true;
  }

  /**
   * @param {string} kind
   * @param {number} from
   * @param {number} size
   */
  #aggregate(kind, from, size) {
    if (!(kind in AGGREGATE) && kind !== "|") throw new Error(`not RESP3: a reply begins with ${kind}`);
    this.#take(from);
    const need = kind === "%" || kind === "|" ? 2 * size : size;
    if (this.open.push({ kind, need, items: [] }) > DEPTH_MAX) throw new Error("not RESP3: a deep reply");
    if (need === 0) this.#close();
    return true;
  }

  /** @param {any} value */
  #add(value) {
    const inner = this.open.at(-1);
    if (inner === undefined) {
      this.taken = 0;
      this.deliver(value);
      return;
    }
    inner.items.push(value);
    if (inner.items.length === inner.need) this.#close();
  }

  #close() {
    const { kind, items } = /** @type {NonNullable<ReturnType<typeof this.open.pop>>} */ (this.open.pop());
    if (kind !== "|") this.#add(AGGREGATE[kind](items)); // attributes are not used
  }
}
