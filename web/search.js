// Search as you type: leases, pools, values with and without their pool, holders by their beginning, sensors.
import {pathOf, tryGet} from "./api.js";
import {matchOf} from "./pools.js";
import {$, element, link, momentOf, numberOf} from "./show.js";

const SHOWN = 6; // results of each kind
const PAUSE_MS = 150;
const HOLDER_PAGES = 5; // of 100 leases, until enough holders are known
const BARE_POOLS = 1000; // whose ranges are compared with a value that has no pool
const BARE_ASKED = 8; // of them, those that are asked for it

let turn = 0;
let timer = null;

function add(list, kind, text, why, ...path) {
  const a = link(text, ...path);
  const words = element("span", "dim");
  words.append(...(Array.isArray(why) ? why : [why || kind]));
  a.append(" ", words);
  a.setAttribute("role", "option");
  list.push(a);
}

async function values(query, found) {
  const slash = query.indexOf("/");
  if (slash <= 0 || slash === query.length - 1) {
    return;
  }
  const [pool, value] = [query.slice(0, slash), query.slice(slash + 1)];
  const known = await tryGet(pathOf("pools", pool, "values", value));
  if (known) {
    const state = known.state === "available" ? "free" : known.state;
    const before = known.last_ended ? ["; last held by ", element("bdi", "", known.last_holder), " until ", momentOf(known.last_ended)]
      : known.lease || known.state !== "available" ? [] : ["; not held before, as far as is known"];
    add(found, "value", pool + "/" + value, known.lease ? ["value, " + state + ", ", element("bdi", "", known.holder)]
      : ["value, " + state, ...before], "value", pool, value);
  }
}

async function holders(query, found) {
  const names = new Set();
  let cursor = "0";
  for (let i = 0; i < HOLDER_PAGES && names.size < SHOWN; i++) {
    const page = await tryGet("/v1/leases?" + new URLSearchParams({prefix: query, count: 100, cursor}));
    (page === null ? [] : page.leases).forEach((lease) => names.add(lease.holder));
    cursor = page === null ? "0" : String(page.cursor);
    if (cursor === "0") {
      break;
    }
  }
  [...names].sort((a, b) => a.length - b.length).slice(0, SHOWN).forEach((name) => add(found, "holder", name, "", "holder", name));
}

// A lease by its id.
async function leases(query, found) {
  const lease = /^\d+-\d+$/.test(query) ? await tryGet(pathOf("leases", query)) : null;
  if (lease) {
    add(found, "lease", query, ["lease, " + lease.state + ", ", element("bdi", "", lease.holder)], "lease", query);
  }
}

// A value without its pool, such as an address that somebody has read in a log: looked up in the ranges that have it, and
// in sets.
async function bareValues(query, found) {
  if (query.includes("/") || query.length < 2) {
    return;
  }
  const page = await tryGet("/v1/pools?" + new URLSearchParams({sort: "occupancy", count: BARE_POOLS, scopes: "no"}));
  const names = (page === null ? [] : page.pools).filter((pool) => mayHave(pool.options, query)).map((pool) => pool.pool);
  await Promise.all(names.slice(0, BARE_ASKED).map((name) => values(name + "/" + query, found)));
  found.splice(SHOWN);
}

function mayHave({kind, format, lo, hi, internal}, text) {
  if (internal === "yes") {
    return false;
  }
  if (kind === "set") {
    return /[a-z]/i.test(text);
  }
  const [value, first, last] = [text, lo, hi].map((each) => numberOf(each, format));
  return value !== null && value >= first && value <= last;
}

async function sensors(query, found) {
  const page = await tryGet("/v1/sensors?count=1000");
  const refs = page === null ? [] : page.sensors.map((sensor) => sensor.ref).filter((ref) => ref.includes(query));
  refs.slice(0, SHOWN).forEach((ref) => add(found, "sensor", ref, "", "sensor", ref));
}

// Searches all pools of the server; names that begin with the text come first.
async function pools(query, found) {
  const page = await tryGet("/v1/pools?" + new URLSearchParams({match: matchOf(query), sort: "name", count: 50}));
  const names = page === null ? [] : page.pools.map((pool) => pool.pool);
  const place = (name) => name.toLowerCase().indexOf(query.toLowerCase());
  names.sort((a, b) => place(a) - place(b) || a.length - b.length);
  names.slice(0, SHOWN).forEach((name) => add(found, "pool", name, "", "pool", name));
}

async function look(query) {
  const mine = ++turn;
  const kinds = [[], [], [], [], [], []];
  await Promise.allSettled([leases, pools, values, bareValues, holders, sensors].map((find, i) => find(query, kinds[i])));
  if (mine === turn) {
    const found = kinds.flat();
    if (found.length === 0) {
      add(found, "", "Nothing begins with this. Enter looks further.", "", "find", query);
    }
    $("found").replaceChildren(...found);
    $("found").hidden = false;
    $("query").setAttribute("aria-expanded", "true");
  }
}

export function searchClose() {
  clearTimeout(timer);
  turn++;
  $("found").hidden = true;
  $("query").setAttribute("aria-expanded", "false");
}

function typed() {
  const query = $("query").value.trim();
  clearTimeout(timer);
  if (query === "") {
    searchClose();
  } else {
    timer = setTimeout(() => look(query).catch(() => {}), PAUSE_MS);
  }
}

// Arrow keys move through the results, and back to the field.
function walk(event) {
  const stops = [$("query"), ...$("found").querySelectorAll("a")];
  const at = stops.indexOf(document.activeElement);
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (event.key === "Escape") {
    searchClose();
    $("query").focus();
  } else if (step !== undefined && at >= 0 && !$("found").hidden) {
    event.preventDefault();
    stops[(at + step + stops.length) % stops.length].focus();
  }
}

export function searchStart() {
  $("query").addEventListener("input", typed);
  $("search").addEventListener("keydown", walk);
  document.addEventListener("click", (event) => {
    if (!$("search").contains(event.target)) {
      searchClose();
    }
  });
}
