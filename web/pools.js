// The list of pools: the fullest first, scopes under their template, and how soon each is full.
//
// The server sorts and searches all pools. The page loads the rows that it shows; for an order that the server does not
// have (rates, and the other direction) it loads the first LOADED_MOST and sorts those.
import {button, buttons} from "./act.js";
import {createPool} from "./actions.js";
import {get, pathOf, tryGet} from "./api.js";
import {sparkline} from "./chart.js";
import {$, STATES, count, duration, element, legend, legendOf, link, rate, setText, usedOf} from "./show.js";

const POOLS_PAGE = 100;
const LOADED_MOST = 1000;
const SCOPES_PAGE = 100; // scopes shown of one template, and as many more at each request
const GROWTH_SECONDS = 180; // as the server's tenure_pool_exhaustion_seconds
const KNOWN = 0.1; // of the average: after 20 seconds; less than that would raise false alarms
const SPARK = 60; // samples
const SPARK_MS = 60000; // the server takes a sample each minute
const SPARK_ASKED = 5; // histories requested at each refresh, so that many pools do not flood the server

const pools = new Map(); // name -> the known facts, and the row if the pool is shown
const opened = new Map(); // templates whose scopes are shown -> {names, left, most} of the scopes
let pages = 1;
let matched = 0; // number of pools on the server that match
let order = {by: "full", down: true};
let changed = () => {}; // asks for a refresh

// ---- How fast a pool changes, from the last refreshes; see GROWTH_SECONDS ----

function learn(known, pool) {
  const now = performance.now() / 1000;
  const used = usedOf(pool);
  const given = Number(pool.allocated_total) + Number(pool.returned_total);
  const ended = Number(pool.released_total) + Number(pool.expired_total) + Number(pool.revoked_total);
  const before = known.last;
  known.last = {now, used, given, ended};
  if (!before || given < before.given || now <= before.now) {
    known.rates = {growth: 0, given: 0, ended: 0, weight: 0, short: 0};
    return;
  }
  const dt = now - before.now;
  const rates = known.rates;
  const share = dt / (dt + GROWTH_SECONDS);
  const quick = dt / (dt + 10);
  rates.growth += share * ((used - before.used) / dt - rates.growth);
  rates.weight += share * (1 - rates.weight);
  rates.given += quick * ((given - before.given) / dt - rates.given);
  rates.ended += quick * ((ended - before.ended) / dt - rates.ended);
  rates.short += quick * (1 - rates.short);
}

function secondsToFull(known, pool) {
  const growth = known.rates.weight > KNOWN ? known.rates.growth / known.rates.weight : 0;
  return Number(pool.free) === 0 && Number(pool.size) > 0 ? 0
    : growth > 1e-9 ? Number(pool.free) / growth : Infinity;
}

// The severity, and the reason in a sentence.
export function trouble(known, pool) {
  const seconds = secondsToFull(known, pool);
  const share = Number(pool.size) > 0 ? usedOf(pool) / Number(pool.size) : 0;
  const waiting = Number(pool.waiting);
  if (pool.options.internal === "yes") {
    return {level: "", text: "–", why: "The server uses it for its sensors."};
  }
  if (Number(pool.size) > 0 && Number(pool.free) === 0) {
    return {level: "bad", text: "now", why: "Nothing is free" + (waiting > 1 ? ", and " + count(waiting) + " wait."
      : waiting > 0 ? ", and one waits." : ".")};
  }
  return {level: seconds < 600 ? "bad" : seconds < 3600 || share >= 0.9 ? "warn" : "", text: seconds < 1e9 ? duration(seconds) : "–",
    why: seconds < 3600 ? "Full in " + duration(seconds) + " at the rate of the last 3 minutes."
      : share >= 0.9 ? Math.floor(100 * share) + " % are in use." : ""};
}

// ---- The bar: all values by state, and after them the waiters, in at most a quarter of the bar ----

const PARTS = [...STATES, "excluded", "waiting"];

export function barMake() {
  const box = element("div");
  box.text = box.appendChild(element("div", "bar-text"));
  box.bar = box.appendChild(element("div", "bar"));
  box.bar.setAttribute("role", "img");
  box.parts = PARTS.map((state) => box.bar.appendChild(element("i", "s-" + state)));
  return box;
}

export function barShow(box, pool) {
  const size = Number(pool.size);
  const values = size + Number(pool.excluded);
  const line = Math.min(Number(pool.waiting), values / 3);
  const whole = values + line;
  const percent = size > 0 ? 100 * usedOf(pool) / size : 0;
  const words = PARTS.filter((s) => Number(pool[s]) > 0)
    .map((s) => count(pool[s]) + " " + s);
  const figure = percent > 0 && percent < 10 ? percent.toFixed(1) : String(Math.floor(percent)); // 100 is full
  setText(box.text, figure + " % of " + count(pool.size)
    + (words.length > 0 ? ": " + words.join(", ") : ""));
  box.bar.setAttribute("aria-label", box.text.textContent);
  PARTS.forEach((state, i) => {
    const n = state === "waiting" ? line : Number(pool[state]);
    box.parts[i].style.width = (whole > 0 ? 100 * n / whole : 0) + "%";
  });
}

// ---- Rows ----

function poolRow(name) {
  const row = element("tr");
  const head = element("th");
  head.scope = "row";
  const at = name.indexOf("@");
  if (at > 0) {
    row.className = "scope";
  }
  row.fold = head.appendChild(element("button", "fold"));
  row.fold.type = "button";
  row.fold.hidden = true;
  row.fold.addEventListener("click", () => {
    if (!opened.delete(name)) {
      opened.set(name, {names: [], left: 0, most: SCOPES_PAGE});
    }
    changed();
  });
  head.append(link(name, "pool", name));
  row.more = head.appendChild(element("button", "more"));
  row.more.type = "button";
  row.more.hidden = true;
  row.more.addEventListener("click", () => {
    opened.get(name).most += SCOPES_PAGE;
    changed();
  });
  row.why = head.appendChild(element("div", "why"));
  row.bar = barMake();
  const barCell = element("td");
  barCell.append(row.bar);
  row.spark = element("td", "sparks");
  row.figures = ["free", "waiting", "given", "ended", "full in"].map((title) => {
    const cell = element("td", "n");
    cell.dataset.title = title; // for a screen without room for column headings
    return cell;
  });
  row.append(head, barCell, row.spark, ...row.figures);
  return row;
}

function sparkShow(known) {
  const {used, given} = known.spark;
  const key = used.join() + given.join();
  if (known.row.spark.dataset.key !== key) {
    known.row.spark.dataset.key = key;
    known.row.spark.replaceChildren(
      sparkline(used, Number(known.pool.size), "Occupancy, last hour"),
      sparkline(given, Math.max(...given, 1), "New leases, last hour"));
  }
}

function poolShow(known) {
  const {row, pool, rates} = known;
  const perSecond = (value) => rates.short > 0 ? rate(value / rates.short) : "–";
  const worry = trouble(known, pool);
  barShow(row.bar, pool);
  [count(pool.free), count(pool.waiting), perSecond(rates.given), perSecond(rates.ended), worry.text]
    .forEach((text, i) => setText(row.figures[i], text));
  setText(row.why, worry.why);
  row.figures[4].classList.toggle("soon", worry.level === "bad");
  row.dataset.level = worry.level;
  known.worry = worry;
}

// ---- Order and visible rows ----

const KEYS = {
  name: (known) => known.pool.pool,
  full: (known) => Number(known.pool.size) > 0 && known.pool.options.internal !== "yes" ? usedOf(known.pool) / Number(known.pool.size) : -1,
  free: (known) => Number(known.pool.free),
  waiting: (known) => Number(known.pool.waiting),
  hour: (known) => known.spark && known.spark.used.length > 0 ? known.spark.used[known.spark.used.length - 1] - known.spark.used[0] : 0,
  given: (known) => known.rates.given,
  ended: (known) => known.rates.ended,
  soon: (known) => -secondsToFull(known, known.pool),
};

function compare(a, b) {
  const [x, y] = [KEYS[order.by](a), KEYS[order.by](b)];
  const sign = x < y ? -1 : x > y ? 1 : 0;
  return (order.down ? -sign : sign) || (a.pool.pool < b.pool.pool ? -1 : 1);
}

function isFiltered() {
  return $("pool-filter").value.trim() !== "";
}

// The server's name for the order, if the server has it.
function serverSort() {
  return {"name false": "name", "full true": "occupancy", "free false": "free", "waiting true": "waiting"}[order.by + " " + order.down];
}

// Rows at their place do not change; others are made, moved or removed.
function arrange() {
  const under = isFiltered() ? new Map() : opened;
  const scopes = new Set([...under.values()].flatMap(({names}) => names));
  const tops = [...pools.values()].filter((known) => !scopes.has(known.pool.pool)).sort(compare);
  const wanted = tops.slice(0, pages * POOLS_PAGE).flatMap((known) =>
    [known, ...(under.get(known.pool.pool) || {names: []}).names.map((name) => pools.get(name)).filter((scope) => scope).sort(compare)]);
  const body = $("pools").tBodies[0];
  wanted.forEach((known, i) => {
    known.row = known.row || poolRow(known.pool.pool);
    poolShow(known);
    if (body.rows[i] !== known.row) {
      body.insertBefore(known.row, body.rows[i] || null);
    }
    const {fold, more} = known.row;
    const name = known.pool.pool;
    const {left} = under.get(name) || {left: 0};
    more.hidden = !(left > 0);
    setText(more, left > 0 ? count(left) + " more scopes" : "");
    more.disabled = left > 0 && under.get(name).most >= LOADED_MOST; // the filter finds them
    fold.hidden = isFiltered() || !(Number(known.pool.scopes) > 0);
    setText(fold, opened.has(name) ? "▾" : "▸");
    fold.setAttribute("aria-expanded", String(opened.has(name)));
    fold.setAttribute("aria-label", "Scopes of " + name);
  });
  while (body.rows.length > wanted.length) {
    body.lastChild.remove();
  }
  const shown = Math.min(tops.length, pages * POOLS_PAGE);
  const some = serverSort() === undefined && matched > tops.length ? ", sorted among the " + count(tops.length) + " fullest" : "";
  setText($("pool-count"), matched === 0 ? "" : (shown < matched ? count(shown) + " of " + count(matched) : count(matched)) + some);
  $("pools-more").hidden = shown >= Math.min(matched, LOADED_MOST);
}

function sortBy(key) {
  order = {by: key, down: order.by === key ? !order.down : key !== "name" && key !== "free"};
  for (const head of document.querySelectorAll("#pools thead th")) {
    const mine = head.dataset.sort === key;
    head.setAttribute("aria-sort", mine ? (order.down ? "descending" : "ascending") : "none");
  }
  arrange(); // first what is loaded; then what the server returns
  changed();
}

export function poolsStart(refresh) {
  changed = refresh;
  legendOf($("legend"), "waiting");
  const lines = $("legend").appendChild(element("span"));
  legend(lines, [["active line", "occupancy"], ["reserved line", "new leases of the last hour"]]);
  for (const head of document.querySelectorAll("#pools thead button")) {
    head.addEventListener("click", () => sortBy(head.parentElement.dataset.sort));
  }
}

// ---- Reading ----

function poolSeen(pool) {
  let known = pools.get(pool.pool);
  if (!known) {
    known = {};
    pools.set(pool.pool, known);
  }
  learn(known, pool);
  known.pool = pool;
}

// Of those that are shown and whose history is not known, or old: first of the rows on the screen.
async function sparksAsk() {
  const now = Date.now();
  const missing = [...pools.values()].filter((known) => known.row && known.row.isConnected
    && !(known.spark && now - known.spark.at < SPARK_MS));
  const seen = missing.length > SPARK_ASKED ? missing.filter(({row}) => {
    const {top, bottom} = row.getBoundingClientRect();
    return bottom > 0 && top < innerHeight;
  }) : [];
  const asked = [...seen, ...missing.filter((known) => !seen.includes(known))].slice(0, SPARK_ASKED);
  await Promise.all(asked.map(async (known) => {
    const path = pathOf("pools", known.pool.pool, "history") + "?count=" + SPARK;
    const history = await tryGet(path) || {peak: [], given: []};
    known.spark = {used: history.peak.map(Number), given: history.given.map(Number), at: now};
    sparkShow(known);
  }));
}

// A pattern for names that contain the text, in upper or lower case.
export function matchOf(text) {
  return "*" + [...text].map((letter) => /[a-z]/i.test(letter) ? "[" + letter.toLowerCase() + letter.toUpperCase() + "]"
    : letter.replace(/[\\*?[\]]/, "\\$&")).join("") + "*";
}

function list(query) {
  return get("/v1/pools?" + new URLSearchParams(query));
}

// Requests the pools to show. A search finds scopes, too; without a search they are under their templates. A user
// that may only see scopes gets those.
async function poolsAsk() {
  const query = {sort: serverSort() || "occupancy",
    count: serverSort() === undefined ? LOADED_MOST : Math.min(pages * POOLS_PAGE, LOADED_MOST)};
  if (isFiltered()) {
    return list({...query, match: matchOf($("pool-filter").value.trim())});
  }
  const reply = await list({...query, scopes: "no"});
  return reply.pools.length > 0 ? reply : list(query);
}

// Requests the scopes of the opened templates.
async function scopesAsk() {
  const lists = await Promise.all((isFiltered() ? [] : [...opened.keys()]).map(async (name) => {
    const open = opened.get(name);
    const most = Math.min(open.most, LOADED_MOST);
    const reply = await list({sort: "occupancy", count: most, match: name.replace(/[\\*?[\]]/g, "\\$&") + "@*"});
    open.names = reply.pools.map((pool) => pool.pool);
    open.left = Number(reply.matched) - reply.pools.length;
    return reply.pools;
  }));
  return lists.flat();
}

export async function showPools() {
  const [reply, scopes] = await Promise.all([poolsAsk(), scopesAsk()]);
  const listed = [...reply.pools, ...scopes];
  const seen = new Set(listed.map((pool) => pool.pool));
  listed.forEach(poolSeen);
  for (const name of [...pools.keys()].filter((each) => !seen.has(each))) {
    pools.delete(name);
  }
  matched = Number(reply.matched);
  $("empty").hidden = isFiltered() || matched > 0;
  $("pools-box").hidden = $("legend").hidden = matched === 0;
  buttons($("pools-act"), [button("Create a pool …", "operator", createPool)]);
  arrange();
  setText($("pools-none"), isFiltered() && matched === 0 ? "No pool has a name that contains this." : "");
  await sparksAsk();
}

export function showMorePools() {
  pages++;
}

// The known facts of one pool, for its own view; the pool need not be in the list.
const others = new Map();

export function poolKnown(pool) {
  const known = pools.get(pool.pool) || others.get(pool.pool) || {};
  if (!pools.has(pool.pool)) {
    others.clear(); // one pool is shown at a time
    others.set(pool.pool, known);
  }
  learn(known, pool);
  return known;
}
