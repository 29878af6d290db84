// The page: it reads and never writes. What comes from the server is hostile (names, holders and
// metadata are anybody's), so it only ever becomes text, never markup.
"use strict";

const POLL_MS = 2000;
const POOLS_PAGE = 100;
const LEASES_PAGE = 50;
const EVENTS_KEPT = 200;
const GROWTH_SECONDS = 180; // as the server's tenure_pool_exhaustion_seconds
const STATES = ["active", "reserved", "offline", "revoking", "cooling"];
const KINDS = ["lease.reserved", "lease.active", "lease.returned", "lease.offline", "lease.rekeyed",
  "lease.revoking", "lease.released", "lease.expired", "lease.revoked", "value.cooled",
  "pool.created", "pool.altered", "pool.dropped", "pool.added", "pool.removed",
  "holder.disowned", "rule.set", "rule.deleted", "sensor.set", "sensor.deleted",
  "demand.changed"];
const ENDS = new Set(["lease.offline", "lease.revoking", "lease.expired", "lease.revoked"]);

const $ = (id) => document.getElementById(id);

// ---- Elements ----

function element(name, className, text) {
  const e = document.createElement(name);
  if (className) {
    e.className = className;
  }
  if (text !== undefined) {
    e.textContent = text;
  }
  return e;
}

function link(text, ...path) {
  const a = element("a", "", text);
  a.href = "#/" + path.map(encodeURIComponent).join("/");
  return a;
}

// Only if it changes: who selects text or uses a screen reader is left in peace.
function setText(e, text) {
  if (e.textContent !== text) {
    e.textContent = text;
  }
}

// ---- Words for numbers ----

function count(value) {
  if (Number(value) >= 1e12) {
    const [digits, power] = Number(value).toExponential(2).split("e+");
    return digits + "×10" + power.replace(/\d/g, (d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d]);
  }
  return String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

function duration(seconds) {
  if (!isFinite(seconds)) {
    return "–";
  }
  if (seconds < 0.001) {
    return Math.round(seconds * 1e6) + " µs";
  }
  if (seconds < 1) {
    return (seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0) + " ms";
  }
  const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const [size, unit] = units.find(([s]) => seconds >= s);
  const n = seconds / size;
  return (n < 10 && size > 1 ? n.toFixed(1) : Math.round(n)) + " " + unit;
}

function rate(perSecond) {
  if (perSecond >= 100) {
    return count(Math.round(perSecond)) + "/s";
  }
  if (perSecond >= 1) {
    return perSecond.toFixed(1) + "/s";
  }
  return perSecond * 60 >= 0.1 ? (perSecond * 60).toFixed(1) + "/min" : "0";
}

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) {
    n /= 1024;
  }
  return (i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + " " + units[i];
}

function moment(ms) {
  const date = new Date(Number(ms));
  const today = new Date().toDateString() === date.toDateString();
  return today ? date.toLocaleTimeString() : date.toLocaleString();
}

// "in 40 s", "12 s ago"
function distance(ms) {
  const seconds = (Number(ms) - Date.now()) / 1000;
  return seconds >= 0 ? "in " + duration(Math.max(seconds, 1)) : duration(Math.max(-seconds, 1)) + " ago";
}

function momentAndDistance(ms) {
  return ms === null || ms === undefined || ms === "" ? "–" : moment(ms) + " (" + distance(ms) + ")";
}

// ---- The server ----

let away = false;

function setAway(now, why) {
  if (now !== away) {
    away = now;
    $("offline").hidden = !now;
    setText($("h-state"), now ? "disconnected" : "connected");
  }
  if (now) {
    setText($("offline"), "Disconnected, retrying. " + why);
  }
}

// A refusal is an Error with `status`; a server that is not there one without.
async function get(path, type) {
  let response;
  try {
    response = await fetch(path, {headers: {Accept: type || "application/json"}, cache: "no-store"});
  } catch (error) {
    setAway(true, "The server does not answer; what is shown may be old.");
    throw error;
  }
  setAway(false);
  if (!response.ok) {
    let problem = {};
    try {
      problem = await response.json();
    } catch (error) {
      // A proxy's own words: the status has to do.
    }
    const error = new Error(problem.detail || problem.title || response.statusText);
    error.status = response.status;
    throw error;
  }
  return type ? response.text() : response.json();
}

function pathOf(...parts) {
  return "/v1/" + parts.map(encodeURIComponent).join("/");
}

// ---- Health ----

// Samples by name, or by name{labels}, as they are written.
function parseMetrics(text) {
  const samples = new Map();
  for (const line of text.split("\n")) {
    const space = line.lastIndexOf(" ");
    if (line !== "" && line[0] !== "#") {
      samples.set(line.slice(0, space), Number(line.slice(space + 1)));
    }
  }
  return samples;
}

let lastCommands = null;

function commandRate(samples) {
  let sum = 0;
  for (const [name, value] of samples) {
    sum += name.startsWith("tenure_server_commands_total{") ? value : 0;
  }
  const now = performance.now();
  const before = lastCommands;
  lastCommands = {sum, now};
  return before && sum >= before.sum && now > before.now
    ? (sum - before.sum) / (now - before.now) * 1000 : null;
}

function sumOf(samples, prefix) {
  let sum = 0;
  for (const [name, value] of samples) {
    sum += name.startsWith(prefix) ? value : 0;
  }
  return sum;
}

async function showHealth() {
  const samples = parseMetrics(await get("/metrics?pools=no", "text/plain"));
  const value = (name) => samples.get(name);
  const halted = value("tenure_engine_halted") === 1;
  $("halted").hidden = !halted;
  setText($("halted"), halted ? "The engine has halted: storage failed. Nothing is served until the "
    + "server is started again; see its log." : "");
  setText($("h-state"), halted ? "halted" : "serving");
  setText($("h-lsn"), count(value("tenure_engine_lsn")));
  setText($("h-sync"), duration(value("tenure_engine_last_sync_seconds")));
  const perSecond = commandRate(samples);
  setText($("h-rate"), perSecond === null ? "–" : rate(perSecond));
  setText($("h-queue"), count(value("tenure_engine_queue_commands")));
  const leases = value('tenure_table_entries{table="leases"}');
  setText($("h-leases"), leases === undefined ? "–" : count(leases));
  setText($("h-clients"), count(sumOf(samples, "tenure_server_connections{")));
  setText($("h-memory"), bytes(value("process_resident_memory_bytes")));
}

// ---- Pools ----

const pools = new Map(); // name -> what is known and the row that shows it
let poolPages = 1;
let poolsLeft = false;

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

function poolFilter() {
  const wanted = $("pool-filter").value.toLowerCase();
  let shown = 0;
  for (const [name, known] of pools) {
    known.row.hidden = !name.toLowerCase().includes(wanted);
    shown += known.row.hidden ? 0 : 1;
  }
  setText($("pool-count"), pools.size === 0 ? "" : shown === pools.size
    ? count(pools.size) + (poolsLeft ? " shown, there are more" : "")
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

async function showPools() {
  const seen = new Set();
  let cursor = "0";
  for (let page = 0; page < poolPages && (page === 0 || cursor !== "0"); page++) {
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
  poolsLeft = cursor !== "0";
  $("pools-more").hidden = !poolsLeft;
  $("empty").hidden = pools.size > 0;
  $("pools-box").hidden = $("legend").hidden = pools.size === 0;
  poolFilter();
}

// ---- Facts: a list of names and values ----

function factsShow(list, rows) {
  list.replaceChildren(...rows.map(([name, value, whole]) => {
    const pair = element("div", whole ? "whole" : "");
    const data = element("dd");
    data.append(value instanceof Node ? value : String(value));
    pair.append(element("dt", "", name), data);
    return pair;
  }));
}

function many(nodes) {
  const span = element("span");
  nodes.forEach((node, i) => span.append(i > 0 ? ", " : "", node));
  return span;
}

// ---- One pool ----

let poolName = null;
let leaseCursor = "0"; // of the page that is shown
let leaseNext = "0";
const poolBar = barMake();
$("pool-bar").append(poolBar);

async function showPool() {
  const name = poolName;
  const pool = await get(pathOf("pools", name));
  if (name !== poolName) {
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

// ---- Leases ----

function leaseValues(lease) {
  const values = lease.values.map((value, i) => lease.pools[i] + "/" + value);
  const left = Number(lease.value_count || values.length) - values.length;
  return values.join(", ") + (left > 0 ? " and " + count(left) + " more" : "");
}

function leaseTable(box, leases) {
  if (leases.length === 0) {
    box.replaceChildren();
    return;
  }
  const table = element("table");
  const head = table.createTHead().insertRow();
  for (const title of ["Lease", "Values", "Holder", "State", "Ends"]) {
    const cell = head.appendChild(element("th", "", title));
    cell.scope = "col";
  }
  const body = table.createTBody();
  for (const lease of leases) {
    const row = body.insertRow();
    const first = row.appendChild(element("th"));
    first.scope = "row";
    first.append(link(lease.lease, "lease", lease.lease));
    row.append(element("td", "wide", leaseValues(lease)), element("td", "wide", lease.holder),
      element("td", "", lease.state), element("td", "", momentAndDistance(lease.deadline)));
  }
  box.replaceChildren(table);
}

// A page may be empty before the end: looks on, but not for ever.
async function leasePage(query, cursor) {
  for (let i = 0; ; i++) {
    const reply = await get("/v1/leases?" + query + "&count=" + LEASES_PAGE + "&cursor=" + cursor);
    cursor = String(reply.cursor);
    if (reply.leases.length > 0 || cursor === "0" || i === 50) {
      return {leases: reply.leases, cursor};
    }
  }
}

async function showPoolLeases() {
  const name = poolName;
  const state = $("lease-state").value;
  const query = new URLSearchParams({pool: name});
  if (state) {
    query.set("state", state);
  }
  const page = await leasePage(query, leaseCursor);
  if (name !== poolName) {
    return;
  }
  leaseNext = page.cursor;
  leaseTable($("view-pool").querySelector(".leases"), page.leases);
  $("leases-first").disabled = leaseCursor === "0";
  $("leases-next").disabled = leaseNext === "0";
  setText($("leases-note"), page.leases.length === 0 ? "none" : leaseNext !== "0" ? "there are more" : "");
}

// ---- One lease ----

let leaseId = null;

async function showLease() {
  const id = leaseId;
  const note = $("lease-note");
  let lease;
  try {
    lease = await get(pathOf("leases", id));
  } catch (error) {
    if (error.status === undefined) {
      throw error;
    }
    setText(note, error.message);
    $("lease-facts").replaceChildren();
    return;
  }
  if (id !== leaseId) {
    return;
  }
  const meta = lease.meta === null ? "–" : element("pre", "", JSON.stringify(lease.meta, null, 2));
  setText(note, "");
  factsShow($("lease-facts"), [
    ["State", lease.state + (lease.reason ? " (" + lease.reason + ")" : "")],
    ["Epoch", lease.epoch],
    ["Holder", link(lease.holder, "find", lease.holder)],
    ["User", lease.user || "–"],
    ["Ends", momentAndDistance(lease.deadline)],
    ["Created", momentAndDistance(lease.created)],
    ["Last seen", momentAndDistance(lease.last_seen)],
    ["Offline since", momentAndDistance(lease.offline_since)],
    ["Ended", momentAndDistance(lease.ended)],
    ["Pools", many([...new Set(lease.pools)].map((pool) => link(pool, "pool", pool)))],
    ["Values", leaseValues(lease), true],
    ["Metadata", meta, true],
  ]);
}

// ---- Finding ----

let found = null; // {query, cursor, leases}

async function leaseByValue(query) {
  const slash = query.indexOf("/");
  if (slash <= 0 || slash === query.length - 1) {
    return null;
  }
  try {
    return await get(pathOf("pools", query.slice(0, slash), "values", query.slice(slash + 1), "lease"));
  } catch (error) {
    if (error.status === undefined) {
      throw error;
    }
    return null; // no such pool, no such value, or it is free: perhaps it is a holder
  }
}

async function find(query) {
  found = {query, cursor: "0", leases: []};
  setText($("t-find"), "“" + query + "”");
  setText($("find-note"), "Looking …");
  $("view-find").querySelector(".leases").replaceChildren();
  const lease = await leaseByValue(query);
  if (lease) {
    found.leases.push(lease);
  }
  await findMore();
}

async function findMore() {
  const mine = found;
  const page = await leasePage(new URLSearchParams({holder: mine.query}), mine.cursor);
  if (mine !== found) {
    return;
  }
  const known = new Set(mine.leases.map((lease) => lease.lease));
  mine.leases.push(...page.leases.filter((lease) => !known.has(lease.lease)));
  mine.cursor = page.cursor;
  leaseTable($("view-find").querySelector(".leases"), mine.leases);
  $("find-next").hidden = mine.cursor === "0";
  setText($("find-note"), mine.leases.length === 0
    ? "No live lease has this value or this holder. A lease’s id looks like 0-1042."
    : count(mine.leases.length) + (mine.leases.length === 1 ? " live lease" : " live leases")
      + (mine.cursor === "0" ? "" : " so far"));
}

// ---- Events ----

let source = null;
let paused = false;
let missed = 0;

function eventLine(kind, event) {
  const line = element("li");
  const time = element("time", "", moment(event.time));
  time.dateTime = new Date(Number(event.time)).toISOString();
  line.append(time, " ", element("span", "kind" + (ENDS.has(kind) ? " end" : ""), kind), " ");
  if (event.lease) {
    line.append(link(event.lease, "lease", event.lease), " ");
  }
  const names = (event.values || []).slice(0, 8).map((value, i) => (event.pools || [])[i] + "/" + value);
  const more = (event.values || []).length - names.length;
  const words = [names.join(", ") + (more > 0 ? " and " + count(more) + " more" : ""),
    event.name || event.pool, event.holder, event.reason];
  line.append(words.filter((word) => word).join(" · "));
  return line;
}

function eventAdd(line) {
  const list = $("events");
  list.prepend(line);
  while (list.children.length > EVENTS_KEPT) {
    list.lastChild.remove();
  }
}

function eventSeen(message) {
  if (paused) {
    missed++;
    setText($("event-note"), count(missed) + " since");
    return;
  }
  eventAdd(eventLine(message.type, JSON.parse(message.data)));
}

function eventsOpen() {
  const pool = $("event-pool").value.trim();
  if (source) {
    source.close();
  }
  source = new EventSource("/v1/events" + (pool ? "?" + new URLSearchParams({pool}) : ""));
  for (const kind of KINDS) {
    source.addEventListener(kind, eventSeen);
  }
  source.addEventListener("lost", () =>
    eventAdd(element("li", "dim", "Some events were missed: they are no longer kept.")));
  source.addEventListener("open", () => setText($("event-note"), paused ? $("event-note").textContent : "live"));
  source.addEventListener("error", () => {
    setText($("event-note"), "disconnected, retrying");
    if (source.readyState === EventSource.CLOSED) {
      setTimeout(eventsOpen, 3000); // refused, as by a server that is just starting
    }
  });
}

function eventsPause() {
  paused = !paused;
  $("event-pause").setAttribute("aria-pressed", String(paused));
  setText($("event-pause"), paused ? "Go on" : "Pause");
  if (!paused && missed > 0) {
    eventAdd(element("li", "dim", count(missed) + " events while paused"));
  }
  missed = 0;
  setText($("event-note"), paused ? "paused" : "live");
}

// ---- Where we are: #/, #/pool/NAME, #/lease/ID, #/find/WORDS, #/events ----

let view = "pools";

function route() {
  let parts;
  try {
    parts = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch (error) {
    parts = [""]; // not something that this page wrote
  }
  const [name, subject] = parts;
  view = ["pool", "lease", "find"].includes(name) && subject ? name : name === "events" ? name : "pools";
  poolName = view === "pool" ? subject : null;
  leaseId = view === "lease" ? subject : null;
  leaseCursor = "0";
  for (const each of ["pools", "pool", "lease", "find"]) {
    $("view-" + each).hidden = each !== view;
  }
  $("view-events").hidden = view !== "events" && view !== "pools";
  $("main").classList.toggle("split", view === "pools");
  for (const a of document.querySelectorAll("nav a")) {
    if (a.dataset.view === view || (a.dataset.view === "pools" && view === "pool")) {
      a.setAttribute("aria-current", "page");
    } else {
      a.removeAttribute("aria-current");
    }
  }
  setText($("t-pool"), poolName || "");
  setText($("t-lease"), leaseId ? "Lease " + leaseId : "");
  document.title = (poolName || leaseId || (view === "events" ? "Events" : "Pools")) + " – Tenure";
  for (const list of ["pool-facts", "pool-options", "lease-facts"]) {
    $(list).replaceChildren();
  }
  if (view === "find") {
    find(subject).catch(failed);
  }
  refresh();
}

function search(event) {
  event.preventDefault();
  const query = $("query").value.trim();
  if (query) {
    const kind = /^\d+-\d+$/.test(query) ? "lease" : "find";
    location.hash = "#/" + kind + "/" + encodeURIComponent(query);
    $("main").focus();
  }
}

// ---- Refreshing ----

function failed(error) {
  if (error.status !== undefined) {
    setText($(view === "pool" ? "leases-note" : "find-note"), error.message);
  }
}

let refreshing = false;
let again = false;

async function refresh() {
  if (refreshing) {
    again = true;
    return;
  }
  refreshing = true;
  again = false;
  const jobs = [showHealth()];
  if (view === "pools") {
    jobs.push(showPools());
  } else if (view === "pool") {
    jobs.push(showPool().then(showPoolLeases));
  } else if (view === "lease") {
    jobs.push(showLease());
  }
  for (const result of await Promise.allSettled(jobs)) {
    if (result.status === "rejected") {
      failed(result.reason);
    }
  }
  refreshing = false;
  document.body.dataset.refreshed = String(Number(document.body.dataset.refreshed || 0) + 1);
  if (again) {
    refresh();
  }
}

function start() {
  setText($("try-http"), "curl -X PUT " + location.origin
    + "/v1/pools/ports --json '{\"range\": [\"30000\", \"30009\"], \"lease\": 60}'");
  $("search").addEventListener("submit", search);
  $("pool-filter").addEventListener("input", poolFilter);
  $("pools-more").addEventListener("click", () => {
    poolPages++;
    refresh();
  });
  $("lease-state").addEventListener("change", () => {
    leaseCursor = "0";
    refresh();
  });
  $("leases-first").addEventListener("click", () => {
    leaseCursor = "0";
    refresh();
  });
  $("leases-next").addEventListener("click", () => {
    leaseCursor = leaseNext;
    refresh();
  });
  $("find-next").addEventListener("click", () => findMore().catch(failed));
  $("event-pause").addEventListener("click", eventsPause);
  $("event-pool").addEventListener("change", () => {
    $("events").replaceChildren();
    eventsOpen();
  });
  addEventListener("hashchange", route);
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  setInterval(() => document.hidden || refresh(), POLL_MS);
  eventsOpen();
  route();
}

start();
