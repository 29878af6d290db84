// The page: its address, its view, and regular refreshes.
import {actStart, whenDone} from "./act.js";
import {eventsFilter, eventsOpen, eventsShow, eventsStart, eventsStop, lifeForget} from "./events.js";
import {showHealth, showHealthView} from "./health.js";
import {find, findMore, firstPage, moreOfHolder, nextPage, showHolder, showLease, showPoolLeases, showValue} from "./leases.js";
import {loginStart, showMe} from "./login.js";
import {historyForget, historySave, mapTurn, poolForget, showPool} from "./pool.js";
import {poolsStart, showMorePools, showPools} from "./pools.js";
import {searchClose, searchStart} from "./search.js";
import {showSensor, showSensors} from "./sensors.js";
import {$, setText, timesTick} from "./show.js";

const POLL_MS = 2000;
const TICK_MS = 1000; // of relative times
const TYPING_MS = 150;

let filtering = null;

// ---- The address: #/, #/pool/NAME, #/value/POOL/VALUE, #/lease/ID, #/holder/NAME, #/sensor/REF, #/find/WORDS,
// #/sensors, #/events?kind=lease.&pool=NAME, #/health ----

const OF_ONE = ["pool", "value", "lease", "holder", "sensor", "find"];
const OTHERS = ["sensors", "events", "health"];
const TITLES = {pool: "", value: "", lease: "Lease ", holder: "", sensor: ""};

let view = "pools";
let of = ""; // name or id of the object that the view shows
let value = ""; // value of the pool

function partsOf(hash) {
  try {
    return hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch (error) {
    return [""]; // not an address that this page makes
  }
}

function mark() {
  const under = {pool: "pools", value: "pools", sensor: "sensors"};
  for (const a of document.querySelectorAll("nav a")) {
    a.ariaCurrent = a.dataset.view === (under[view] || view) ? "page" : null;
  }
}

function route() {
  const [path, query] = location.hash.split("?");
  const [name, subject, more] = partsOf(path);
  view = (OF_ONE.includes(name) && subject) || OTHERS.includes(name) ? name : "pools";
  of = subject;
  value = more;
  firstPage();
  poolForget();
  lifeForget();
  searchClose();
  for (const each of ["pools", ...OF_ONE, ...OTHERS]) {
    $("view-" + each).hidden = each !== view;
  }
  $("view-events").hidden = view !== "events" && view !== "pools";
  $("main").classList.toggle("split", view === "pools");
  $("t-events").ariaLevel = view === "events" ? "1" : "2"; // beside the pools it is not the first
  mark();
  for (const [each, before] of Object.entries(TITLES)) {
    setText($("t-" + each), view === each ? before + of + (view === "value" ? "/" + value : "") : "");
  }
  const titles = {events: "Events", sensors: "Sensors", health: "Health"};
  document.title = (of ? of + (value ? "/" + value : "") : titles[view] || "Pools") + " – Tenure";
  for (const list of document.querySelectorAll("main .facts")) {
    list.replaceChildren();
  }
  for (const box of document.querySelectorAll(".act")) {
    box.dataset.key = "";
    box.replaceChildren();
  }
  for (const note of ["lease-note", "value-note", "holder-note", "sensor-why", "pool-why", "sensor-rules-note", "view-note"]) {
    setText($(note), "");
  }
  if (view === "events" || view === "pools") {
    eventsFilter(view === "events" ? query : "", view === "events");
  }
  if (view === "find") {
    find(subject).catch(failed);
  }
  refresh();
}

// Where it was scrolled to, for the way back; a new view begins at its top, for the keyboard, too.
const places = new Map();
let here = 0;
let visits = 0;

function moved() {
  places.set(here, scrollY);
  const back = history.state !== null && history.state.visit !== undefined;
  here = back ? history.state.visit : ++visits;
  if (!back) {
    history.replaceState({visit: here}, "");
  }
  route();
  $("main").focus({preventScroll: true});
  scrollTo(0, back ? places.get(here) || 0 : 0);
}

function search(event) {
  event.preventDefault();
  const query = $("query").value.trim();
  if (query) {
    const kind = /^\d+-\d+$/.test(query) ? "lease" : "find";
    searchClose();
    location.hash = "#/" + kind + "/" + encodeURIComponent(query);
    $("main").focus();
  }
}

// ---- Refreshing ----

const NOTES = {pool: "pool-why", sensors: "sensors-note", value: "value-note", holder: "holder-note", sensor: "sensor-why",
  lease: "lease-note", find: "find-note"};

function failed(error, note = NOTES[view] || "view-note") {
  if (error.status !== undefined) {
    setText($(note), error.message + (error.status === 503 ? " – what is shown may be old." : ""));
  } else if (!/fetch|network/i.test(error.message) && !["AbortError", "TimeoutError", "SyntaxError"].includes(error.name)) {
    console.error(error); // an error in this page
  }
}

const SHOW = {
  pools: () => [showPools()],
  pool: (still) => [showPool(of, still), showPoolLeases(of, still)],
  lease: (still) => [showLease(of, still)],
  value: (still) => [showValue(of, value, still)],
  holder: (still) => [showHolder(of, still)],
  sensors: () => [showSensors()],
  sensor: (still) => [showSensor(of, still)],
  health: (still) => [showHealthView(still)],
};

let refreshing = false;
let again = false;

async function refresh() {
  if (refreshing) {
    again = true;
    return;
  }
  refreshing = true;
  again = false;
  const before = location.hash;
  const still = () => location.hash === before;
  const show = SHOW[view] || (() => []);
  const results = await Promise.allSettled([showHealth(), showMe(), ...show(still)]);
  if (results.every(({status}) => status === "fulfilled")) {
    setText($("view-note"), "");
  }
  results.forEach((result, i) => result.status === "rejected" && failed(result.reason, i < 2 ? "view-note" : undefined));
  refreshing = false;
  document.body.dataset.refreshed = String(Number(document.body.dataset.refreshed || 0) + 1);
  if (again) {
    refresh();
  }
}

// ---- Keys ----

// Moves through the visible rows of the tables, by their links.
function rowsWalk(step) {
  const links = [...document.querySelectorAll("main tbody th a")].filter((a) => a.getClientRects().length > 0);
  const at = links.indexOf(document.activeElement);
  const next = links[at < 0 ? (step > 0 ? 0 : links.length - 1) : at + step];
  if (next) {
    next.focus();
  }
  return Boolean(next);
}

function keys(event) {
  const typing = event.target.closest("input, select, textarea, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) {
    return;
  }
  const views = {p: "#/", s: "#/sensors", e: "#/events", h: "#/health"};
  const step = {j: 1, k: -1, ArrowDown: 1, ArrowUp: -1}[event.key];
  const onRow = event.target.closest("tbody th");
  if (step !== undefined && (onRow || event.key.length === 1)) {
    if (rowsWalk(step)) {
      event.preventDefault();
    }
  } else if (event.key === "/") {
    event.preventDefault();
    $("query").focus();
  } else if (event.key === "?") {
    $("help").showModal();
  } else if (views[event.key] !== undefined) {
    location.hash = views[event.key];
  }
}

function start() {
  setText($("try-http"), "curl -X PUT " + location.origin
    + "/v1/pools/ports --json '{\"range\": [\"30000\", \"30009\"], \"lease\": 60}'");
  $("search").addEventListener("submit", search);
  $("pool-filter").addEventListener("input", () => {
    clearTimeout(filtering);
    filtering = setTimeout(refresh, TYPING_MS);
  });
  const on = (id, kind, call) => $(id).addEventListener(kind, () => {
    call();
    refresh();
  });
  on("pools-more", "click", showMorePools);
  on("lease-state", "change", firstPage);
  on("leases-first", "click", firstPage);
  on("leases-next", "click", nextPage);
  on("history-step", "change", historyForget);
  on("map-before", "click", () => mapTurn(-1));
  on("map-next", "click", () => mapTurn(1));
  on("holder-more", "click", moreOfHolder);
  $("find-next").addEventListener("click", () => findMore().catch(failed));
  $("history-save").addEventListener("click", () => historySave(of).catch(failed));
  history.replaceState({visit: here}, "");
  addEventListener("hashchange", moved);
  setInterval(() => document.hidden || timesTick(), TICK_MS);
  addEventListener("pagehide", eventsStop);
  document.addEventListener("visibilitychange", () => {
    if ($("login").open) {
      return;
    }
    eventsShow();
    if (!document.hidden) {
      refresh();
    }
  });
  setInterval(() => document.hidden || $("login").open || refresh(), POLL_MS);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    $("main").focus();
  });
  addEventListener("keydown", keys);
  $("help-close").addEventListener("click", () => $("help").close());
  actStart();
  eventsStart();
  poolsStart(refresh);
  searchStart();
  whenDone(refresh);
  loginStart();
  eventsOpen();
  route();
}

start();
