// Replies of the server as objects of this package: names in camelCase, JSON texts parsed.

function otherForm() {
  return new TypeError("a reply of another form");
}

/**
 * A reply whose fields with these names are what they must be.
 * @param {Record<string, any>} reply
 * @param {Record<string, (value: any) => boolean>} needed
 * @returns {any}
 */
function checked(reply, needed) {
  const fields = camel(reply);
  for (const [name, fits] of Object.entries(needed)) {
    if (!fits(fields[name])) throw otherForm();
  }
  return fields;
}

/** @param {any} value */
const isText = (value) => typeof value === "string" && value !== "";
const DONE = { result: isText, lsn: Number.isInteger };
const MOVED = { ...DONE, lease: isText, epoch: Number.isInteger, state: isText };
const LEASE = { lease: isText, epoch: Number.isInteger, state: isText, values: Array.isArray };

/**
 * The fields of a reply by their names here: waited_ms is waitedMs.
 * @param {Record<string, any>} reply
 * @returns {any}
 */
function camel(reply) {
  if (reply === null || typeof reply !== "object" || Array.isArray(reply)) throw otherForm();
  return Object.fromEntries(Object.entries(reply).map(([key, value]) =>
    [key.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase()), value]));
}

/**
 * @param {any} text a JSON object, or its text
 * @returns {Record<string, any> | null}
 */
function object(text) {
  if (!text) return null;
  return typeof text === "string" ? JSON.parse(text) : text;
}

/**
 * A count: the server writes those of 2^63 and more as text.
 * @param {any} value
 */
function large(value) {
  return typeof value === "string" && /^\d+$/.test(value) ? BigInt(value) : value;
}

/** @typedef {Record<string, any>} Reply */

/** @param {Reply} r */
export const same = (r) => camel(r);
/** @param {Reply} r */
export const done = (r) => checked(r, DONE);
/** @param {Reply} r */
export const verified = (r) => checked(r, { lease: isText, epoch: Number.isInteger });
/** @param {Reply} r */
export const moved = (r) => checked(r, MOVED);
/** @param {string} name */
export const counted = (name) => (/** @type {Reply} */ r) => ({ ...done(r), count: r[name] });
/** @param {Reply} r */
export const grant = (r) => ({ ...checked(r, { ...MOVED, values: Array.isArray }), waitedMs: r.waited_ms ?? 0 });

/** @param {Reply} r */
export const lease = (r) => ({ ...checked(r, LEASE), user: r.user || null, meta: object(r.meta) });
/** @param {Reply} r */
export const leasePage = (r) => ({ ...page(r), leases: r.leases.map(lease) });

/** @param {Reply} r */
export const pool = (r) => {
  const { pool: name, ...fields } = checked(r, { pool: isText });
  return { name, ...Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, large(value)])) };
};
/** @param {Reply} r */
export const poolPage = (r) => ({ ...page(r), pools: r.pools.map(pool) });
/** @param {Reply} r */
const valueRow = (r) => ({ ...camel(r), count: large(r.count) });
/** @param {Reply} r */
export const valuePage = (r) => ({ ...page(r), values: r.values.map(valueRow) });

/** @param {Reply} r */
const page = (r) => ({ ...checked(r, { cursor: (cursor) => cursor !== undefined }), cursor: String(r.cursor) });

/** @param {Reply} r */
export const event = (r) => r.kind === "lost"
  ? { id: r.oldest, kind: "lost" }
  : { ...camel(r), ...(r.payload ? { payload: object(r.payload) } : {}) };
/** @param {Reply} r */
export const eventPage = (r) => ({ ...camel(r), events: r.events.map(event) });

/** @param {Reply} r */
export const rule = (r) => ({ ...camel(r), meta: object(r.meta) });
/** @param {Reply} r */
export const rulePage = (r) => ({ ...page(r), rules: r.rules.map(rule) });
/** @param {Reply} r */
export const sensor = (r) => ({ ...camel(r), spec: object(r.spec) });
/** @param {Reply} r */
export const sensorPage = (r) => ({ ...page(r), sensors: r.sensors.map(sensor) });

/** @param {Reply} r */
export const userPage = (r) => ({ ...page(r), users: r.users.map(camel) });

/** @param {Reply} r */
export const history = ({ step, kept, ...figures }) =>
  ({ step, kept, figures: Object.fromEntries(Object.entries(figures).filter(([, list]) => Array.isArray(list))) });

/** @param {Reply} r */
export const signedToken = (r) => ({
  token: r.token, id: r.token_id, subject: r.sub, scope: r.scope, expiresIn: r.expires_in,
  expiresAt: r.expires_at, triggerTypes: r.trigger_types ?? [], lsn: r.lsn,
});
/** @param {Reply} r */
export const tokenState = (r) => ({
  active: r.active, reason: r.reason ?? null, id: r.jti ?? null, issuer: r.iss ?? null,
  subject: r.sub ?? null, scope: r.scope ?? null, issuedAt: r.iat ?? null, expiresAt: r.exp ?? null,
  triggerTypes: r.trigger_types ?? [], lsn: r.lsn ?? null,
});

/**
 * The order of fencing tokens: below 0 if `a` is older. For one value they only grow.
 * @param {{lease: string, epoch: number}} a
 * @param {{lease: string, epoch: number}} b
 */
export function compareTokens(a, b) {
  const [one, other] = [a, b].map(({ lease: id, epoch }) => [...id.split("-").map(BigInt), BigInt(epoch)]);
  for (let i = 0; i < 3; i++) {
    if (one[i] !== other[i]) return one[i] < other[i] ? -1 : 1;
  }
  return 0;
}
