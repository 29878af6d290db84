// Pools: the list, and one of them. The page reckons how fast a pool changes from what it saw.
import {get, pathOf} from "./api.js";
import {$, count, duration, element, factsShow, link, momentAndDistance, rate, setText} from "./show.js";

const POOLS_PAGE = 100;
const GROWTH_SECONDS = 180; // as the server's tenure_pool_exhaustion_seconds
const STATES = ["active", "reserved", "offline", "revoking", "cooling"];

const pools = new Map(); // name -> what is known and the row that shows it
let pages = 1;
let left = false;

// What the last looks say about how fast a pool changes; see GROWTH_SECONDS.
function learn(known, pool) {
  const now = performance.now() / 1000;
  const used = Number(pool.size) - Number(pool.free);
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

function fullIn(known, pool) {
  const growth = known.rates.weight > 0 ? known.rates.growth / known.rates.weight : 0;
  if (Number(pool.size) > 0 && Number(pool.free) === 0) {
    return {text: "now", soon: true};
  }
  const seconds = growth > 1e-9 ? Number(pool.free) / growth : Infinity;
  return {text: seconds < 1e9 ? duration(seconds) : "–", soon: seconds < 600};
}

function barMake() {
  const box = element("div");
  box.text = box.appendChild(element("div", "bar-text"));
  box.bar = box.appendChild(element("div", "bar"));
  box.bar.setAttribute("role", "img");
  box.parts = STATES.map((state) => box.bar.appendChild(element("i", "s-" + state)));
  return box;
}

function barShow(box, pool) {
  const size = Number(pool.size);
  const used = size - Number(pool.free);
  const percent = size > 0 ? 100 * used / size : 0;
  const words = STATES.filter((s) => Number(pool[s]) > 0).map((s) => count(pool[s]) + " " + s);
  const digits = percent > 0 && percent < 10 ? 1 : 0;
  setText(box.text, percent.toFixed(digits) + " % of " + count(pool.size)
    + (words.length > 0 ? ": " + words.join(", ") : ""));
  box.bar.setAttribute("aria-label", box.text.textContent);
  STATES.forEach((state, i) => {
    box.parts[i].style.width = (size > 0 ? 100 * Number(pool[state]) / size : 0) + "%";
  });
}

function poolRow(name) {
  const row = element("tr");
  const head = element("th");
  head.scope = "row";
  head.append(link(name, "pool", name));
  row.bar = barMake();
  const barCell = element("td");
  barCell.append(row.bar);
  const figure = (title) => {
    const cell = element("td", "n");
    cell.dataset.title = title; // for a screen that has no room for heads of columns
    return cell;
  };
  row.free = figure("free");
  row.given = figure("given");
  row.ended = figure("ended");
  row.full = figure("full in");
  row.append(head, barCell, row.free, row.given, row.ended, row.full);
  return row;
}

function poolShow(known) {
  const {row, pool, rates} = known;
  const perSecond = (value) => rates.short > 0 ? rate(value / rates.short) : "–";
  const full = fullIn(known, pool);
  barShow(row.bar, pool);
  setText(row.free, count(pool.free));
  setText(row.given, perSecond(rates.given));
  setText(row.ended, perSecond(rates.ended));
  setText(row.full, full.text);
  row.full.classList.toggle("soon", full.soon);
}

export function poolFilter() {
  const wanted = $("pool-filter").value.toLowerCase();
  let shown = 0;
  for (const [name, known] of pools) {
    known.row.hidden = !name.toLowerCase().includes(wanted);
    shown += known.row.hidden ? 0 : 1;
  }
  setText($("pool-count"), pools.size === 0 ? "" : shown === pools.size
    ? count(pools.size) + (left ? " shown, there are more" : "")
    : count(shown) + " of " + count(pools.size));
}

function poolSeen(pool) {
  let known = pools.get(pool.pool);
  if (!known) {
    known = {row: poolRow(pool.pool)};
    pools.set(pool.pool, known);
    $("pools").tBodies[0].append(known.row);
  }
  learn(known, pool);
  known.pool = pool;
  poolShow(known);
}

export async function showPools() {
  const seen = new Set();
  let cursor = "0";
  for (let page = 0; page < pages && (page === 0 || cursor !== "0"); page++) {
    const reply = await get("/v1/pools?count=" + POOLS_PAGE + "&cursor=" + cursor);
    for (const pool of reply.pools) {
      seen.add(pool.pool);
      poolSeen(pool);
    }
    cursor = String(reply.cursor);
  }
  for (const [name, known] of pools) {
    if (!seen.has(name)) {
      known.row.remove();
      pools.delete(name);
    }
  }
  left = cursor !== "0";
  $("pools-more").hidden = !left;
  $("empty").hidden = pools.size > 0;
  $("pools-box").hidden = $("legend").hidden = pools.size === 0;
  poolFilter();
}

export function showMorePools() {
  pages++;
}

// ---- One pool ----

const poolBar = barMake();
$("pool-bar").append(poolBar);

export async function showPool(name, still) {
  const pool = await get(pathOf("pools", name));
  if (!still()) {
    return;
  }
  const known = pools.get(name) || {};
  learn(known, pool);
  const rates = known.rates;
  barShow(poolBar, pool);
  factsShow($("pool-facts"), [
    ["Free", count(pool.free)],
    ["Full in", fullIn(known, pool).text],
    ["Given", rates.short > 0 ? rate(rates.given / rates.short) : "–"],
    ["Ended", rates.short > 0 ? rate(rates.ended / rates.short) : "–"],
    ["Next free by itself", momentAndDistance(pool.next_free)],
    ...(pool.overdue_since ? [["Counts are older than", momentAndDistance(pool.overdue_since)]] : []),
    ["Lease of a newcomer", Number(pool.effective_lease) > 0 ? duration(Number(pool.effective_lease)) : "no end"],
    ["Given in all", count(pool.allocated_total)],
    ["Returned to sticky holders", count(pool.returned_total)],
    ["Released", count(pool.released_total)],
    ["Expired", count(pool.expired_total)],
    ["Revoked", count(pool.revoked_total)],
    ["Scopes", count(pool.scopes)],
  ]);
  if (!pools.has(name)) {
    pools.set(name, Object.assign(known, {pool, row: poolRow(name)}));
    $("pools").tBodies[0].append(known.row);
  }
  factsShow($("pool-options"), Object.entries(pool.options).map(([k, v]) => [k, v === "" ? "–" : v]));
}
