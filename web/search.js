// Search as you type: pools, values, leases, holders by their beginning, sensors.
import {pathOf, tryGet} from "./api.js";
import {matchOf} from "./pools.js";
import {$, element, link} from "./show.js";

const SHOWN = 6; // of each kind
const PAUSE_MS = 150;

let turn = 0;
let timer = null;

function add(list, kind, text, why, ...path) {
  const a = link(text, ...path);
  a.append(" ", element("span", "dim", why || kind));
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
    add(found, "value", pool + "/" + value, known.lease ? known.state + ", " + known.holder : "value, " + known.state
      + (known.last_holder ? ", last held by " + known.last_holder : ""), "value", pool, value);
  }
}

async function holders(query, found) {
  const page = await tryGet("/v1/leases?" + new URLSearchParams({prefix: query, count: 100}));
  const names = page === null ? [] : [...new Set(page.leases.map((lease) => lease.holder))];
  names.slice(0, SHOWN).forEach((name) => add(found, "holder", name, "", "holder", name));
}

async function sensors(query, found) {
  const page = await tryGet("/v1/sensors?count=1000");
  const refs = page === null ? [] : page.sensors.map((sensor) => sensor.ref).filter((ref) => ref.includes(query));
  refs.slice(0, SHOWN).forEach((ref) => add(found, "sensor", ref, "", "sensor", ref));
}

// Of all pools of the server, those whose names begin with it first.
async function pools(query, found) {
  const page = await tryGet("/v1/pools?" + new URLSearchParams({match: matchOf(query), sort: "name", count: 50}));
  const names = page === null ? [] : page.pools.map((pool) => pool.pool);
  const place = (name) => name.toLowerCase().indexOf(query.toLowerCase());
  names.sort((a, b) => place(a) - place(b) || a.length - b.length);
  names.slice(0, SHOWN).forEach((name) => add(found, "pool", name, "", "pool", name));
}

async function look(query) {
  const mine = ++turn;
  const kinds = [[], [], [], [], []];
  if (/^\d+-\d+$/.test(query)) {
    add(kinds[0], "lease", query, "", "lease", query);
  }
  await Promise.allSettled([pools(query, kinds[1]), values(query, kinds[2]), holders(query, kinds[3]), sensors(query, kinds[4])]);
  if (mine === turn) {
    const found = kinds.flat();
    $("found").replaceChildren(...found);
    $("found").hidden = found.length === 0;
    $("query").setAttribute("aria-expanded", String(found.length > 0));
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

// Arrows walk through what was found, and back to the field.
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
