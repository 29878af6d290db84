// RESP3: requests out, replies in, in any pieces.

const CR = 13;

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

/** Collects the bytes of a connection into replies; throws if they are not RESP3. */
export class Parser {
  /** @param {(reply: any) => void} deliver */
  constructor(deliver) {
    this.deliver = deliver;
    /** @type {Buffer} */
    this.buffer = Buffer.alloc(0);
    this.at = 0;
    /** Aggregates that are not complete, the outermost first.
     * @type {{kind: string, need: number, items: any[]}[]} */
    this.open = [];
  }

  /** @param {Buffer} data */
  feed(data) {
    this.buffer = this.at < this.buffer.length
      ? Buffer.concat([this.buffer.subarray(this.at), data]) : data;
    this.at = 0;
    while (this.#frame());
  }

  /** Reads one frame; false: it is not complete. */
  #frame() {
    const end = this.buffer.indexOf("\r\n", this.at, "latin1");
    if (end < 0) return false;
    const kind = String.fromCharCode(this.buffer[this.at]);
    const rest = this.buffer.toString("utf8", this.at + 1, end);
    if (kind in SIMPLE) {
      this.at = end + 2;
      this.#add(SIMPLE[kind](rest));
      return true;
    }
    const size = Number(rest);
    if (!Number.isInteger(size)) throw new Error(`not RESP3: ${kind}${rest}`);
    if (size < 0) {
      this.at = end + 2;
      this.#add(null);
      return true;
    }
    return kind in BULK ? this.#bulk(kind, end + 2, size) : this.#aggregate(kind, end + 2, size);
  }

  /**
   * @param {string} kind
   * @param {number} from
   * @param {number} size
   */
  #bulk(kind, from, size) {
    if (this.buffer.length < from + size + 2) return false;
    if (this.buffer[from + size] !== CR) throw new Error("not RESP3: text without an end");
    this.at = from + size + 2;
    this.#add(BULK[kind](this.buffer.toString("utf8", from, from + size)));
    return true;
  }

  /**
   * @param {string} kind
   * @param {number} from
   * @param {number} size
   */
  #aggregate(kind, from, size) {
    if (!(kind in AGGREGATE) && kind !== "|") throw new Error(`not RESP3: a reply begins with ${kind}`);
    this.at = from;
    const need = kind === "%" || kind === "|" ? 2 * size : size;
    this.open.push({ kind, need, items: [] });
    if (need === 0) this.#close();
    return true;
  }

  /** @param {any} value */
  #add(value) {
    const inner = this.open.at(-1);
    if (inner === undefined) {
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
