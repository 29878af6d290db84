/**
 * A client for Tenure, the lease server, without dependencies.
 *
 * Times in answers are milliseconds since 1970 by the server's clock; durations in requests are seconds.
 */

/** A value of a pool: a number, or text as the pool writes it. */
export type Value = string | number | bigint;
/** An amount of a pool: any n, or these values. */
export type Amount = number | readonly Value[];
/** The parts of a bundle: `{ ports: 2, gpus: ["gpu-7"] }`. */
export type Claims = Record<string, Amount> | readonly (readonly [string, Amount])[];
/** Seconds, or a whole number with a unit: "90s", "15m", "12h", "30d". */
export type Duration = number | string;
/** A JSON object, or its text. */
export type Meta = string | Record<string, unknown>;
/** A number, and a bigint from 2^53 on. */
export type Count = number | bigint;
/** The values of a range: `[1, 9]`, `[[1, 9], [20, 29]]`, "1-9,20-29" or "10.0.0.0/24". */
export type Range = string | readonly [Value, Value] | readonly (readonly [Value, Value])[];

export type Outcome = "committed" | "rejected" | "unknown";
export type LeaseState = "waiting" | "reserved" | "active" | "offline" | "revoking" | "released" |
  "expired" | "revoked";
export type ValueState = "available" | "reserved" | "active" | "offline" | "revoking" | "cooling" |
  "excluded";

/** The refusals of the server. UNREACHABLE is the client's own: nothing has happened. */
export type Refusal = "EXISTS" | "NOTFOUND" | "RETIRED" | "BUSY" | "EXHAUSTED" | "QUOTA" | "STATE" |
  "HOLDER" | "STALE" | "TOO_LARGE" | "BAD_TTL" | "BAD_VALUE" | "BAD_NAME" | "BAD_POLICY" |
  "BAD_REQUEST" | "CONFLICT" | "DENIED" | "NOT_YET" | "POOL_NOTFOUND" | "POOL_IN_USE" |
  "LEASES_FULL" | "MEMBERS_FULL" | "OPS_FULL" | "NAMES_FULL" | "POOLS_FULL" | "RESOURCES_FULL" |
  "DEMAND_FULL" | "MALFORMED" | "OVERLOADED" | "NOSPACE" | "CLOSED" | "NOAUTH" | "NOPERM" | "HALTED" |
  "LOST" | "BAD_TOKEN" | "OVERDUE" | "READONLY" | "MASTERDOWN" | "WAITING" | "WAITERS_FULL" |
  "USERS_FULL" | "ERR" | "WRONGPASS" | "UNREACHABLE";

/** The base class of all errors about the server. */
export class TenureError extends Error {}

/** The server said no, or could not be reached. */
export class ResultError extends TenureError {
  constructor(text: string, more?: { outcome?: Outcome; opid?: string; cause?: unknown });
  /** The reason. */
  readonly result: Refusal;
  /**
   * Of a write. committed: it is in the log, and this is its answer. rejected: it did not happen.
   * unknown: it may have happened; a repeat with the same `opid` shows it and has no second effect.
   */
  readonly outcome: Outcome;
  /** What the server added: `retry_at`, `cap`, `index`, `lease`, `epoch`, `state`, `holder`, `lsn`. */
  readonly facts: Readonly<Record<string, string>>;
  readonly opid: string | undefined;
  /** The log position of the refusal; null: it is not in the log. */
  readonly lsn: number | null;
  /** When a value becomes free by itself, if known. */
  readonly retryAt: number | null;
}

/** A held lease was lost, or its state is unknown. */
export class LeaseLost extends TenureError {
  constructor(lease: string, reason: string);
  readonly lease: string;
  readonly reason: string;
}

/** The outcome of a write with this result. */
export function outcomeOf(result: string): Outcome;
/** The answer, or the refusal as a value: `switch` over its `result`. */
export function settled<T>(promise: Promise<T>): Promise<T | ResultError>;
/** The order of fencing tokens: below 0 if `a` is older. For one value they only grow. */
export function compareTokens(a: Token, b: Token): number;

/** A fencing token. */
export interface Token {
  lease: string;
  epoch: number;
}

/** A successful write; NOOP: there was nothing to do. */
export interface Done {
  result: "OK" | "NOOP";
  lsn: number;
  /** The answer to an earlier request with the same operation id. */
  replayed: boolean;
}

/** `count`: the number of freed, released, added or removed items. */
export interface Counted extends Done {
  count: number;
}

/** An event that a sensor has emitted, by its id. */
export interface Emitted extends Done {
  id: string;
}

/** A lease after a write on it. */
export interface Moved extends Done, Token {
  state: LeaseState;
  deadline: number | null;
}

/** A new lease with its values, in the order of the request, and how long it waited for them. */
export interface Grant extends Moved {
  values: string[];
  waitedMs: number;
}

/** A fencing token that is the live authority, at log position `lsn`. */
export interface Verified extends Token {
  deadline: number | null;
  lsn: number;
}

export interface Lease extends Token {
  state: LeaseState;
  reason: string;
  holder: string;
  user: string | null;
  deadline: number | null;
  /** The requested seconds; 0: those of the pool. */
  ttl: number;
  created: number;
  lastSeen: number;
  offlineSince: number | null;
  ended: number | null;
  values: string[];
  pools: string[];
  /** In `lease` only, as is `lsn`. */
  meta: Record<string, any> | null;
  lsn?: number;
  endedLsn?: number | null;
  retires?: number | null;
  secondsLeft?: number | null;
  valueCount?: number;
  /** In line: why, for which pool, how many leases are before it, and whether its client is connected. */
  waitingFor?: "EXHAUSTED" | "BUSY";
  waitingPool?: string;
  waitingBefore?: number;
  attended?: boolean;
}

export interface Pool {
  name: string;
  size: Count;
  free: Count;
  reserved: Count;
  active: Count;
  offline: Count;
  revoking: Count;
  cooling: Count;
  excluded: Count;
  /** The length of the line, and since when the first in it waits. */
  waiting: number;
  waitingSince: number | null;
  overdueSince: number | null;
  scopes: number;
  allocatedTotal: number;
  returnedTotal: number;
  releasedTotal: number;
  expiredTotal: number;
  revokedTotal: number;
  ratePerHour: number;
  effectiveLease: number;
  nextFree: number | null;
  /** Each option as text. */
  options: Record<string, string>;
}

export interface PoolMetrics {
  baseLeaseSeconds: number;
  effectiveLeaseSeconds: number;
  newDeviceRatePerHour: number;
  ultraRateActive: boolean;
  forceZeroLeaseActive: boolean;
  lastReclaimCount: number;
  lastReclaimAt: number;
  totalReclaimed: number;
  allocatedCount: number;
  releasedCount: number;
  updatedAt: number;
}

/** Samples, oldest first: for each figure a list, all of the same length; `time` is in milliseconds. */
export interface PoolHistory {
  step: string;
  /** false: the server keeps no history of the pool. */
  kept: boolean;
  figures: Record<string, number[]>;
}

/** A value; or a span of a range, `value` to `last`, whose values are all available or all excluded. */
export interface ValueRow {
  value: string;
  /** null in a set. */
  last: string | null;
  count: Count;
  state: ValueState;
  /** null also for a user who may not see it. */
  lease: string | null;
  epoch: number | null;
  holder: string | null;
  until: number | null;
}

/** One value. The last lease is that of a value that no lease holds. */
export interface PoolValue {
  pool: string;
  value: string;
  state: ValueState;
  lease: string | null;
  epoch: number | null;
  holder: string | null;
  until: number | null;
  lastLease: string | null;
  lastHolder: string | null;
  lastEnded: number | null;
  lsn: number;
}

/** An event of the kind `lost` means that events before `id`, the oldest retained one, were missed. */
export interface Event {
  id: string;
  kind: string;
  time?: number;
  lease?: string;
  epoch?: number;
  reason?: string;
  deadline?: number | null;
  holder?: string;
  previousHolder?: string;
  user?: string;
  pool?: string;
  name?: string;
  values?: string[];
  pools?: string[];
  number?: number;
  trigger?: string;
  payload?: Record<string, any>;
  actor?: string;
  reasonText?: string;
}

/** A page of events; continue after `next` while `more` is true. */
export interface EventPage {
  events: Event[];
  next: string;
  oldest: string | null;
  newest: string | null;
  more: boolean;
  lost: boolean;
  lsn: number;
}

/** "0": that was the last page. */
export interface Page {
  cursor: string;
}
export interface LeasePage extends Page {
  leases: Lease[];
  lsn: number;
}
export interface PoolPage extends Page {
  pools: Pool[];
  lsn: number;
}
export interface ValuePage extends Page {
  values: ValueRow[];
  lsn: number;
}

export interface Rule {
  id: string;
  trigger: string;
  enabled: boolean;
  meta: Record<string, any> | null;
}
export interface RulePage extends Page {
  rules: Rule[];
}
export interface Sensor {
  ref: string;
  trigger: string;
  enabled: boolean;
  wanted: boolean;
  activeRules: number;
  spec: Record<string, any> | null;
}
export interface SensorPage extends Page {
  sensors: Sensor[];
}
export interface SensorStatus {
  ref: string;
  trigger: string;
  enabled: boolean;
  wanted: boolean;
  activeRules: number;
  supervised: boolean;
  state: "stopped" | "starting" | "running" | "stopping" | "backoff" | "error";
  pid: number | null;
  lease: string | null;
  epoch: number | null;
  starts: number;
  stops: number;
  crashes: number;
  restarts: number;
  failures: number;
  emitted: number;
  started: number | null;
  uptimeMs: number;
  tokenExpiresAt: number | null;
  nextInMs: number | null;
  lastExitCode: number | null;
  lastExitSignal: number | null;
  lastReason: string | null;
  lastError: string | null;
}

/** `next` is the position to continue from. */
export interface SensorOutput {
  output: string;
  next: string;
  more: boolean;
  lost: boolean;
}

export type Role = "reader" | "holder" | "operator" | "admin";
/** `maxValues` 0: no quota. */
export interface User {
  name: string | null;
  role: Role;
  source: "file" | "logged" | "certificate" | "socket" | "anonymous";
  pools: string | null;
  holders: string | null;
  maxValues: number;
  values: number;
}
export interface UserPage extends Page {
  users: User[];
}
export interface UserLimits {
  pools?: string;
  holders?: string;
  maxValues?: number;
}

/** `id` is lease and epoch, times are seconds since 1970. */
export interface SignedToken {
  token: string;
  id: string;
  subject: string;
  scope: string;
  expiresIn: number;
  expiresAt: number;
  triggerTypes: string[];
  lsn: number;
}

/** The claims are there if the server signed it, live or not; `reason` says why it is not live. */
export interface TokenState {
  active: boolean;
  reason: string | null;
  id: string | null;
  issuer: string | null;
  subject: string | null;
  scope: string | null;
  issuedAt: number | null;
  expiresAt: number | null;
  triggerTypes: string[];
  lsn: number | null;
}

export interface Write {
  /** The operation id; by default a new one for each call. */
  opid?: string;
}
/** Of operators, kept in the event. */
export interface Reasoned extends Write {
  reason?: string;
}
export interface Read {
  /** The minimum log position of the answer. */
  fence?: number;
}
export interface Paged extends Read {
  cursor?: string;
  count?: number;
}
/** Options of a pool by name: `lease: 60`, `exclude: [[1, 9]]`, `highRateMinFactor: 0.5`. */
export interface PoolOptions extends Reasoned {
  range?: Range;
  set?: boolean;
  [option: string]: unknown;
}
export interface LeaseOptions extends Write {
  ttl?: Duration;
  meta?: Meta;
}
export interface WaitOptions extends LeaseOptions {
  /** How long to wait in line if no value is free. */
  wait?: Duration;
  /** Stops waiting. The lease in line is passed over, and ends after 10 seconds. */
  signal?: AbortSignal;
}
export interface AllocOptions extends WaitOptions {
  count?: number;
  values?: readonly Value[];
}

export interface ClientOptions {
  /** Seconds for one answer; 10. */
  timeout?: number;
  /**
   * How long a request is repeated after a lost connection, while the server is stopping or overloaded,
   * or while no node owns the log; 30. 0: never.
   */
  retrySeconds?: number;
  /** Without a password: TENURE_USER with TENURE_SECRET, or the first line of the file TENURE_SECRET_FILE, if set. */
  username?: string;
  password?: string;
  /** Of the connections, in CLIENT LIST. */
  name?: string;
  /** Also by tenures:// or rediss:// in the address, or TENURE_TLS=yes. */
  tls?: boolean;
  /** The authorities of the server's certificate; TENURE_CA_FILE, else those of Node. */
  caFile?: string;
  /** The client's own certificate and key; TENURE_CERT_FILE, TENURE_KEY_FILE. */
  certFile?: string;
  keyFile?: string;
  /** Verifies nothing, and warns. */
  insecure?: boolean;
}

export interface FollowOptions {
  /** The events after this id ("0": from the oldest retained one); by default from now on. */
  after?: string;
  pool?: string;
  holder?: string;
  /** Ends the iteration. */
  signal?: AbortSignal;
}

/**
 * `address`: `host:port`, `tenure://user:password@host:port` or `unix:///path/of/tenure.sock`; by default
 * TENURE_SOCKET (a path), TENURE_URL, TENURE_HOST and TENURE_PORT, else 127.0.0.1:7411. The nodes of a
 * cluster are separated by commas, `tenure://a:7411,b:7411,c:7411`: the client finds the one that owns
 * the log, and goes over to the next owner.
 */
export class Client {
  constructor(address?: string, options?: ClientOptions);
  readonly timeout: number;
  readonly retrySeconds: number;
  close(): void;

  /**
   * Any command, as words; the raw reply. It is repeated after a lost connection only if `kind` says how:
   * a "write" gets an operation id.
   */
  execute(words: readonly (string | number | bigint)[],
    options?: { kind?: "write" | "read"; opid?: string }): Promise<any>;

  poolCreate(pool: string, options?: PoolOptions): Promise<Done>;
  poolAlter(pool: string, options?: PoolOptions): Promise<Done>;
  poolDrop(pool: string, options?: Reasoned): Promise<Done>;
  poolAdd(pool: string, names: readonly string[], options?: Reasoned): Promise<Counted>;
  poolRemove(pool: string, names: readonly string[], options?: Reasoned): Promise<Counted>;
  poolSeed(pool: string, options?: Write & { given?: number; reclaimed?: number }): Promise<Done>;
  /** A day of minutes, or with `step: "hour"` 30 days of hours. */
  poolHistory(pool: string, options?: Read & { step?: "minute" | "hour"; count?: number }): Promise<PoolHistory>;
  poolInfo(pool: string, options?: Read): Promise<Pool>;
  poolList(options?: Paged): Promise<PoolPage>;
  pools(): AsyncGenerator<Pool>;
  poolMetrics(pool: string, options?: Read): Promise<PoolMetrics>;
  poolValues(pool: string, options?: Paged & { state?: ValueState }): Promise<ValuePage>;
  values(pool: string, options?: { state?: ValueState }): AsyncGenerator<ValueRow>;
  /** One value, held or free: `ports/30000`. */
  value(value: string, options?: Read): Promise<PoolValue>;

  /** Without a holder, the server derives it from `meta`. */
  alloc(pool: string, holder?: string | null, options?: AllocOptions): Promise<Grant>;
  /** Values of several pools, all or none. */
  allocBundle(holder: string, claims: Claims, options?: WaitOptions): Promise<Grant>;
  reserve(holder: string, claims: Claims, options: WaitOptions & { ttl: Duration }): Promise<Grant>;
  activate(lease: string, holder: string, epoch: number, options?: Write): Promise<Moved>;
  /** Renews a lease. */
  touch(lease: string, epoch: number, options?: LeaseOptions): Promise<Moved>;
  /** `now`: end the lease even in a sticky pool, which would otherwise keep it for the holder. */
  release(lease: string, holder: string, epoch: number,
    options?: Reasoned & { now?: boolean }): Promise<Moved>;
  revoke(lease: string, options?: Reasoned & { after?: Duration }): Promise<Moved>;
  /** Confirms that the holder of a revoked lease has stopped; `epoch` is the one before the revoke. */
  ack(lease: string, holder: string, epoch: number, options?: Write): Promise<Moved>;
  reclaim(lease: string, options?: Reasoned): Promise<Moved>;
  rekey(lease: string, epoch: number, holder: string, options?: Reasoned): Promise<Moved>;
  import(pool: string, holder: string, values: readonly Value[], options?: Write & {
    deadline?: number; created?: number; seen?: number; offline?: number; meta?: Meta }): Promise<Moved>;
  disown(holder: string, options?: Reasoned & { pool?: string }): Promise<Counted>;
  sweep(options?: Write & { pool?: string }): Promise<Counted>;
  /** Logs the time, and ends what has become due. */
  tick(options?: Write): Promise<Done>;
  /** Resolves if the fencing token is the live authority, else rejects with the refusal. */
  verify(lease: string, epoch: number, options?: Read): Promise<Verified>;
  /** A lease by its id or by one of its values: `ports/30000`. */
  lease(lease: string, options?: Read): Promise<Lease>;
  leases(options?: Paged & { pool?: string; holder?: string; state?: LeaseState }): Promise<LeasePage>;
  /** Page after page, not at one moment: concurrent changes may be seen or not. */
  allLeases(options?: { pool?: string; holder?: string; state?: LeaseState }): AsyncGenerator<Lease>;
  events(options?: Read & { after?: string; count?: number; pool?: string; holder?: string }):
    Promise<EventPage>;

  ruleSet(id: string, trigger: string,
    options?: Reasoned & { disabled?: boolean; meta?: Meta }): Promise<Done>;
  ruleInfo(id: string, options?: Read): Promise<Rule>;
  ruleDelete(id: string, options?: Reasoned): Promise<Done>;
  ruleEnable(id: string, options?: Reasoned): Promise<Done>;
  ruleDisable(id: string, options?: Reasoned): Promise<Done>;
  ruleList(options?: Paged): Promise<RulePage>;
  sensorSet(ref: string, trigger: string, spec: Meta,
    options?: Reasoned & { disabled?: boolean }): Promise<Done>;
  sensorInfo(ref: string, options?: Read): Promise<Sensor>;
  sensorDelete(ref: string, options?: Reasoned): Promise<Done>;
  sensorEnable(ref: string, options?: Reasoned): Promise<Done>;
  sensorDisable(ref: string, options?: Reasoned): Promise<Done>;
  sensorList(options?: Paged): Promise<SensorPage>;
  sensorStatus(ref: string, options?: Read): Promise<SensorStatus>;
  /** The last `count` bytes of its output, or the bytes after a position. */
  sensorLogs(ref: string, options?: Read & { after?: string; count?: number }): Promise<SensorOutput>;
  /** The enabled rules of its trigger, with their metadata, for a running sensor by its token. */
  sensorRules(ref: string, token: string, options?: Paged): Promise<RulePage>;
  /** Reports that the sensor of the token is healthy; when the token expires, in seconds. */
  sensorHeartbeat(token: string, options?: Read): Promise<number>;
  /** Emits an event of the running sensor of the token, which must include the trigger type. */
  emit(token: string, trigger: string, payload?: Meta | null, options?: Write): Promise<Emitted>;

  /** A token for a live lease; it becomes invalid when the lease ends. */
  tokenIssue(lease: string, epoch: number, options?: Read & {
    ttl?: Duration; refresh?: Duration; scope?: string }): Promise<SignedToken>;
  /** A token for the lease of a running sensor. */
  tokenSensor(ref: string, options?: Read & {
    ttl?: Duration; refresh?: Duration; scope?: string }): Promise<SignedToken>;
  tokenRefresh(token: string, options?: Read & { ttl?: Duration }): Promise<SignedToken>;
  tokenIntrospect(token: string, options?: Read): Promise<TokenState>;
  /** Revokes the lease if it still has the token's epoch. */
  tokenRevoke(id: string, options?: Reasoned & { after?: Duration }): Promise<Moved>;
  tokenKeys(options?: Read): Promise<Record<string, string>[]>;

  /** The user of this client. */
  whoami(options?: Read): Promise<User>;
  /** `pools` and `holders` are patterns with blanks between them. */
  userAdd(name: string, role: Role, secret: string, options?: Reasoned & UserLimits): Promise<Done>;
  /** Changes what is given; "*" removes a limit, 0 the quota. */
  userSet(name: string, options?: Reasoned & UserLimits & { role?: Role; secret?: string }): Promise<Done>;
  userDelete(name: string, options?: Reasoned): Promise<Done>;
  userList(options?: Paged): Promise<UserPage>;

  ping(): Promise<string>;
  /** The server's clock, in seconds since 1970. */
  time(): Promise<number>;
  /** The nodes of the cluster; a server without one is its only node. */
  nodeList(): Promise<Record<string, any>[]>;

  /** Leases values and keeps the lease alive until it is released. */
  hold(pool: string, holder: string, options?: AllocOptions): Promise<Held>;
  holdBundle(holder: string, claims: Claims, options?: WaitOptions): Promise<Held>;
  /** Events as they happen. */
  follow(options?: FollowOptions): Promise<Follower>;
}

/**
 * A lease that is renewed in the background. It is lost when the server ends it (revoked, expired, rekeyed
 * to another holder), which the client learns at once, or when it could not be renewed in time. The time is
 * counted from before the renewal was sent, on a clock that cannot be set, and the client gives up a tenth
 * of the ttl (at most 5 seconds) early: `signal` is aborted before another holder can have the values.
 */
export class Held {
  private constructor();
  readonly grant: Grant;
  readonly holder: string;
  /** Aborted, with a LeaseLost as its reason, when the lease is lost. */
  readonly signal: AbortSignal;
  readonly values: string[];
  /** The only one. */
  readonly value: string;
  readonly token: Token;
  readonly lost: boolean;
  /** Why it was lost; null: it is held. */
  readonly reason: string | null;
  /** Throws LeaseLost if the lease is lost; for before anything that only the holder may do. */
  check(): void;
  /** Seconds for which the lease is certainly held; null: it has no deadline. */
  remaining(): number | null;
  /**
   * Stops the renewals and releases the lease, or acknowledges that it was revoked: the work has stopped.
   * Rejects with LeaseLost if it was lost before.
   */
  release(options?: { now?: boolean }): Promise<void>;
  /** Stops the renewals, but does not end the lease. */
  stop(): Promise<void>;
}

/**
 * Events without gaps or duplicates, across lost connections and restarts of the server. After a rejection
 * (the server was away for `retrySeconds`) the iteration can go on.
 */
export class Follower implements AsyncIterableIterator<Event> {
  private constructor();
  /** The id of the last event that was taken: another process can continue after it. */
  readonly position: string;
  next(): Promise<IteratorResult<Event, undefined>>;
  return(): Promise<IteratorResult<Event, undefined>>;
  [Symbol.asyncIterator](): this;
  /** Ends the iteration. */
  close(): void;
}
