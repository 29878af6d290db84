// Leases: of a pool, by id, by value and by holder.
import {button, buttons} from "./act.js";
import {disownHolder, reclaimLease, rekeyLease, releaseLease, revokeLease} from "./actions.js";
import {get, isMe, mayUse, pathOf, tryGet} from "./api.js";
import {showLife} from "./events.js";
import {$, STATES, count, duration, element, factsShow, link, many, momentOf, setNodes, setText, when} from "./show.js";

const LEASES_PAGE = 50;
const LEASES_MOST = 1000; // that a page may have
const MEMBERS = 256; // values of a lease that are links
const HELD = STATES.slice(0, 4);
const ROW_VALUES = 6; // the same, in a table
const MINUTE_MS = 60000; // between two samples of a history, which has those of a day

// Links to the first values, and how many more there are.
function valueLinks(lease, most) {
  const {values, pools} = lease;
  const links = values.slice(0, most).map((value, i) =>
    link(i > 0 && pools[i] === pools[i - 1] ? value : pools[i] + "/" + value, "value", pools[i], value));
  const left = Number(lease.value_count || values.length) - links.length;
  const span = many(links);
  span.append(left > 0 ? " and " + count(left) + " more" : "");
  return span;
}

function leaseRow(row, lease) {
  setNodes(row.cells[1], valueLinks(lease, ROW_VALUES));
  setNodes(row.cells[2], link(lease.holder, "holder", lease.holder));
  setText(row.cells[3], lease.state);
  row.cells[3].className = "state " + lease.state;
  setNodes(row.cells[4], lease.deadline === null ? "no end" : when(lease.deadline));
}

function leaseTable(box, leases) {
  if (leases.length === 0) {
    box.replaceChildren();
    return;
  }
  const ids = leases.map((lease) => lease.lease).join(" ");
  if (box.dataset.ids === ids && box.firstChild) {
    leases.forEach((lease, i) => leaseRow(box.querySelector("tbody").rows[i], lease));
    return; // the focus of the keyboard stays on its row
  }
  box.dataset.ids = ids;
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
    for (const name of ["values", "holder", "state", "ends"]) {
      row.appendChild(element("td", ["values", "holder"].includes(name) ? "wide" : "")).dataset.title = name;
    }
    leaseRow(row, lease);
  }
  box.replaceChildren(table);
}

// A page may be empty before the end: reads more pages, up to a limit.
async function leasePage(query, cursor, most = LEASES_PAGE) {
  for (let i = 0; ; i++) {
    const reply = await get("/v1/leases?" + query + "&count=" + most + "&cursor=" + cursor);
    cursor = String(reply.cursor);
    if (reply.leases.length > 0 || cursor === "0" || i === 50) {
      return {leases: reply.leases, cursor};
    }
  }
}

// ---- The leases of one pool ----

let pageCursor = "0"; // cursor of the page shown
let nextCursor = "0";

export function firstPage() {
  holderPages = 1;
  pageCursor = "0";
}

export function nextPage() {
  pageCursor = nextCursor;
}

// `still` returns whether the result is still wanted when the answer arrives.
export async function showPoolLeases(name, still) {
  const state = $("lease-state").value;
  const query = new URLSearchParams({pool: name});
  if (state) {
    query.set("state", state);
  }
  const page = await leasePage(query, pageCursor);
  if (!still()) {
    return;
  }
  nextCursor = page.cursor;
  leaseTable($("view-pool").querySelector(".leases"), page.leases);
  $("leases-first").disabled = pageCursor === "0";
  $("leases-next").disabled = nextCursor === "0";
  setText($("leases-note"), page.leases.length === 0 ? "none" : nextCursor !== "0" ? "there are more" : "");
}

// ---- One lease ----

// A lease's id contains the log position at which the lease was created.
function birthOf(id) {
  return Number(id.split("-")[1]) || 0;
}

// The reason for the lease's length, in a sentence.
async function lengthOf(lease) {
  const pool = await tryGet(pathOf("pools", lease.pools[0]));
  if (pool === null) {
    return "–";
  }
  const base = Number(pool.options.lease || 0);
  const ttl = Number(lease.ttl); // 0: the client requested none
  if (lease.deadline === null && pool.options.sticky !== "yes") {
    return "It has no end: " + (base === 0 ? "the pool gives leases without end." : "it was asked for.");
  }
  if (pool.options.sticky === "yes") {
    return stickyLength(lease, pool, base);
  }
  const most = Number(pool.options.max_lease || 0);
  return ttl === 0 || ttl === base ? duration(base) + ", the lease of the pool."
    : duration(ttl) + ", as the client asked; the lease of the pool is " + (base > 0 ? duration(base) : "without end")
      + (most > 0 && ttl === most ? ", and its longest is this." : ".");
}

let rated = {key: "", value: null};

// Newcomers an hour at that moment; null: there is no sample of it, because it is long ago, or the server has
// started since then.
async function rateAt(pool, id, at) {
  const ago = Date.now() - at;
  const key = id + " " + at;
  if (rated.key !== key && ago < 1440 * MINUTE_MS) {
    const history = await tryGet(pathOf("pools", pool, "history") + "?count=" + (Math.ceil(Math.max(ago, 0) / MINUTE_MS) + 2));
    const i = history === null ? -1 : history.time.findIndex((time) => Math.abs(Number(time) - at) <= MINUTE_MS);
    rated = {key: i >= 0 || ago > 2 * MINUTE_MS ? key : "", value: i >= 0 ? history.rate_per_hour[i] : null};
  }
  return rated.key === key ? rated.value : null;
}

// A sticky pool keeps a value for a holder that is offline, for less time when many newcomers arrive.
async function stickyLength(lease, pool, base) {
  const whole = "The pool keeps a value for " + duration(base) + " after its holder has left";
  const at = Number(lease.offline_since || lease.last_seen || lease.created);
  const kept = (Number(lease.deadline) - at) / 1000;
  if (lease.deadline === null || kept >= base - 1) {
    return whole + ".";
  }
  const arrived = await rateAt(pool.pool, lease.lease, at);
  const limit = pool.options.high_rate_threshold_per_hour;
  return duration(kept) + " instead of " + duration(base) + ": many newcomers arrived when its holder was last seen"
    + (arrived === null ? "" : ", " + Number(arrived).toFixed(0) + " an hour")
    + (limit ? "; from " + limit + " an hour on the pool keeps values for a shorter time." : ".");
}

function leaseFacts(lease, length) {
  const meta = lease.meta === null ? "–" : element("pre", "", JSON.stringify(lease.meta, null, 2));
  const {pools} = lease;
  return [
    ["State", lease.state + (lease.reason ? " (" + lease.reason + ")" : "")],
    ["Epoch", lease.epoch],
    ["Holder", link(lease.holder, "holder", lease.holder)],
    ["User", lease.user || "–"],
    ["Ends", lease.deadline === null ? "no end" : when(lease.deadline)],
    ["Why this long", length, true],
    ["Created", when(lease.created)],
    ["Last seen", when(lease.last_seen)],
    ["Offline since", when(lease.offline_since)],
    ["Ended", when(lease.ended)],
    ["Pools", many([...new Set(pools)].map((pool) => link(pool, "pool", pool)))],
    ["Values", valueLinks(lease, MEMBERS), true],
    ["Metadata", meta, true],
  ];
}

function revokedWords(lease) {
  return "It is revoked: " + (lease.deadline === null ? "its values are free when its holder acknowledges, or you reclaim it."
    : "its values are free at this moment, or earlier if its holder acknowledges.");
}

function waitingWords(lease) {
  return lease.state !== "waiting" ? "" : "It waits for " + (lease.waiting_pool || lease.pools.join(", ")) + " ("
    + lease.waiting_for + "), with " + count(lease.waiting_before || 0) + " before it.";
}

function leaseButtons(box, lease) {
  const held = ["active", "offline"].includes(lease.state);
  const live = held || ["reserved", "waiting", "overdue"].includes(lease.state);
  buttons(box, [
    live && button("Revoke …", "operator", () => revokeLease(lease)),
    live && button("Release …", isMe(lease.user) ? "holder" : "operator", () => releaseLease(lease)),
    lease.state === "revoking" && button("Reclaim …", "operator", () => reclaimLease(lease)),
    held && button("Give to another holder …", "operator", () => rekeyLease(lease)),
  ]);
}

export async function showLease(id, still) {
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
    buttons($("lease-act"), []);
    showLife("lease-life", {lease: id}, still, birthOf(id));
    return;
  }
  const length = lease.ended || lease.state === "waiting" ? "–" : lease.state === "revoking" ? revokedWords(lease) : await lengthOf(lease);
  if (!still()) {
    return;
  }
  setText(note, waitingWords(lease));
  factsShow($("lease-facts"), leaseFacts(lease, length));
  leaseButtons($("lease-act"), lease);
  showLife("lease-life", {lease: id}, still, birthOf(id));
}

// ---- One value ----

// ", last held by X, until ...": for a value that is free, or whose holder is hidden.
function lastHeld(found) {
  return HELD.includes(found.state) ? ["; you may not see its holder"] : found.last_ended ? [", last held by ", link(found.last_holder, "holder", found.last_holder), ", until ", momentOf(found.last_ended)]
    : ["; nobody has held it as far as the server remembers"];
}

export async function showValue(pool, value, still) {
  const found = await get(pathOf("pools", pool, "values", value));
  const free = found.lease === null;
  const lease = free ? null : await tryGet(pathOf("leases", found.lease));
  if (!still()) {
    return;
  }
  const state = free && found.state === "available" ? "free" : found.state;
  setNodes($("value-note"), ...(free ? ["It is " + state, ...lastHeld(found), "."] : ["Held by ",
    link(found.holder, "holder", found.holder), ...(lease ? [" since ", momentOf(lease.created)] : []),
    ...(found.until ? [", until ", momentOf(found.until)] : [", without an end"]), "."]));
  factsShow($("value-facts"), [
    ["State", state],
    ["Pool", link(pool, "pool", pool)],
    ["Lease", free ? "–" : link(found.lease, "lease", found.lease)],
    ["Epoch", found.epoch || "–"],
    ["Holder", free ? "–" : link(found.holder, "holder", found.holder)],
    ["Since", lease ? when(lease.created) : "–"],
    [free ? "Until" : "Ends", when(found.until)],
    ["Held before by", found.last_holder ? link(found.last_holder, "holder", found.last_holder) : "–"],
    ["Lease before", found.last_lease ? link(found.last_lease, "lease", found.last_lease) : "–"],
  ]);
  if (lease) {
    leaseButtons($("value-act"), lease);
  } else {
    buttons($("value-act"), []);
  }
  showLife("value-life", {pool, value}, still);
}

// ---- One holder ----

let holderPages = 1;

function leasesWords(n, whole) {
  return whole ? count(n) + " live " + (n === 1 ? "lease" : "leases") : "more than " + count(n) + " live leases";
}

// Counts those that are not shown, too, up to a limit.
async function disownAsked(holder) {
  let n = 0;
  let cursor = "0";
  do {
    const page = await leasePage(new URLSearchParams({holder}), cursor, LEASES_MOST);
    n += page.leases.length;
    cursor = page.cursor;
  } while (cursor !== "0" && n < LEASES_MOST);
  return disownHolder(holder, leasesWords(n, cursor === "0"));
}

export function moreOfHolder() {
  holderPages++;
}

export async function showHolder(holder, still) {
  const most = Math.min(LEASES_PAGE * holderPages, LEASES_MOST);
  const page = await leasePage(new URLSearchParams({holder}), "0", most);
  if (!still()) {
    return;
  }
  const {length} = page.leases;
  const whole = page.cursor === "0";
  leaseTable($("view-holder").querySelector(".leases"), page.leases);
  $("holder-more").hidden = whole || length >= LEASES_MOST;
  const values = page.leases.reduce((sum, lease) => sum + Number(lease.value_count || 0), 0);
  const words = leasesWords(length, whole);
  setText($("holder-note"), length === 0 ? "It holds nothing now."
    : words + (whole ? " of " + count(values) + (values === 1 ? " value" : " values") : "") + ".");
  buttons($("holder-act"), [length > 0 && mayUse("pools") && button("Disown …", "operator", () =>
    whole ? disownHolder(holder, words) : disownAsked(holder).catch(() => disownHolder(holder, words)))]);
  showLife("holder-life", {holder}, still);
}

// ---- Finding ----

let found = null; // {query, cursor, leases}

async function leaseByValue(query) {
  const slash = query.indexOf("/");
  return slash > 0 && slash < query.length - 1
    ? tryGet(pathOf("pools", query.slice(0, slash), "values", query.slice(slash + 1), "lease")) : null;
}

async function showPoolNamed(query) {
  const pool = query.includes("/") ? null : await tryGet(pathOf("pools", query));
  if (found.query === query && pool) {
    $("find-pool").replaceChildren("There is a pool of this name: ", link(query, "pool", query));
    $("find-pool").hidden = false;
  }
}

export async function find(query) {
  found = {query, cursor: "0", leases: []};
  setText($("t-find"), "“" + query + "”");
  setText($("find-note"), "Looking …");
  $("find-pool").hidden = true;
  $("view-find").querySelector(".leases").replaceChildren();
  const mine = found;
  await showPoolNamed(query);
  const lease = await leaseByValue(query);
  if (mine !== found) {
    return;
  }
  if (lease) {
    mine.leases.push(lease);
  }
  await findMore();
}

export async function findMore() {
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
  setNodes($("find-note"), ...(mine.leases.length === 0
    ? ["No live lease has this value or this holder. A lease’s id looks like 0-1042. What happened before: ", link(mine.query, "holder", mine.query)]
    : [count(mine.leases.length) + (mine.leases.length === 1 ? " live lease" : " live leases") + (mine.cursor === "0" ? "" : " so far")]));
}
