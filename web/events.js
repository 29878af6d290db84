// The last events and new ones as they happen; and the life of a lease, a value or a holder.
import {get, listen} from "./api.js";
import {$, count, duration, element, link, moment, save, setText, timeOf} from "./show.js";

const EVENTS_KEPT = 200;
const EVENTS_BEFORE = 50; // shown at the beginning
const EVENT_VALUES = 3; // shown of an event about many values
const LIFE_PAGES = 8; // pages that one search of a life requests; the next search continues
const LIFE_STEP = 2000; // log positions that the first search goes back; each later one goes back further
const LIFE_LINES = 100; // and as many more at each request
const PAGES = 40; // pages of other searches
const RETRY_MS = 3000;
const DRAW_MS = 250; // between two drawings of what has arrived
const HIDDEN_MS = 60000; // a page that was hidden for longer begins with the newest events again
const KINDS = ["lease.reserved", "lease.active", "lease.returned", "lease.offline", "lease.rekeyed",
  "lease.revoking", "lease.released", "lease.expired", "lease.revoked", "value.cooled",
  "pool.created", "pool.altered", "pool.dropped", "pool.added", "pool.removed",
  "holder.disowned", "rule.set", "rule.deleted", "sensor.set", "sensor.deleted",
  "demand.changed", "sensor.emitted", "sensor.started", "sensor.stopped", "sensor.crashed",
  "sensor.error", "sensor.start_failed", "lease.waiting", "user.added", "user.changed",
  "user.deleted"];
const ENDS = new Set(["lease.offline", "lease.revoking", "lease.expired", "lease.revoked",
  "sensor.crashed", "sensor.error", "sensor.start_failed"]);

let stream = null; // controls the open connection
let paused = false;
let last = null; // the id of the last event that has arrived: from there a pause ends
let coming = []; // events that have arrived and are not drawn yet, the oldest first
let drawing = null; // the timer that draws them
let hiddenAt = null; // since when the page is hidden
let shown = []; // newest first, for export

// What the supervisor says about a run.
function runWords({exit_code: code, signal, uptime_ms: ran, attempt, next_in_ms: next, pid} = {}) {
  return [pid && "process " + pid, code !== undefined && "exit code " + code, signal && "signal " + signal,
    ran !== undefined && "after " + duration(ran / 1000), attempt && "failure " + attempt, next && "next start in " + duration(next / 1000)];
}

function valuesOf({values = [], pools = []}) {
  const nodes = values.slice(0, EVENT_VALUES).map((value, i) =>
    link(i > 0 && pools[i] === pools[i - 1] ? value : pools[i] + "/" + value, "value", pools[i], value));
  return [...nodes.flatMap((node, i) => i > 0 ? [", ", node] : [node]),
    ...(values.length > EVENT_VALUES ? [" and " + count(values.length - EVENT_VALUES) + " more"] : [])];
}

function eventLine(kind, event) {
  const line = element("li");
  line.position = Number(event.id.split(".")[0]);
  line.append(timeOf(event.time), " ", element("span", "dim", moment(event.time)), " ",
    element("span", "kind" + (ENDS.has(kind) ? " end" : ""), kind), " ");
  if (event.lease) {
    line.append(link(event.lease, "lease", event.lease), " ");
  }
  const about = event.values && event.values.length > 0 ? valuesOf(event) : event.pool ? [link(event.pool, "pool", event.pool)]
    : event.name && kind.startsWith("sensor.") ? [link(event.name, "sensor", event.name)] : event.name && [element("bdi", "", event.name)];
  const words = [event.reason !== "requested" && event.reason, ...runWords(event.payload), event.actor && "by " + event.actor, event.reason_text];
  [about, event.holder && [link(event.holder, "holder", event.holder)], ...words.map((word) => word && [element("bdi", "", word)])]
    .filter((part) => part).forEach((part, i) => line.append(i > 0 ? " · " : "", ...part));
  return line;
}

function eventAdd(line, event) {
  const list = $("events");
  list.prepend(line);
  if (event) {
    shown.unshift(event);
  }
  while (list.children.length > EVENTS_KEPT) {
    list.lastChild.remove();
  }
  shown.length = Math.min(shown.length, EVENTS_KEPT);
}

function eventsDraw() {
  clearTimeout(drawing);
  drawing = null;
  for (const {event: kind, data} of coming.splice(0)) {
    if (kind === "lost") {
      eventAdd(element("li", "dim", "Some events were missed: they are no longer kept."));
    } else {
      const event = JSON.parse(data);
      eventAdd(eventLine(kind, event), event);
    }
  }
}

// Those that would be pushed out of the list at once are not even parsed.
function eventCame(fields) {
  last = fields.id || last;
  coming.push(fields);
  if (coming.length > EVENTS_KEPT) {
    coming.shift();
  }
  drawing = drawing || setTimeout(eventsDraw, DRAW_MS);
}

// ---- Filters ----

function filters() {
  return Object.fromEntries(FIELDS.map((name) => [name, $("event-" + name).value.trim()]).filter(([, text]) => text !== ""));
}

const FIELDS = ["kind", "pool", "holder", "actor", "text"];

// The filters of an address such as #/events?kind=lease.&pool=ports; those that it does not have are empty.
export function eventsFilter(query, opened) {
  const wanted = new URLSearchParams(query);
  let changed = false;
  for (const name of FIELDS) {
    const field = $("event-" + name);
    changed = changed || field.value !== (wanted.get(name) || "");
    field.value = wanted.get(name) || "";
  }
  $("event-filters").open = opened;
  filtersCount();
  if (changed) {
    eventsOpen();
  }
}

function filtersCount() {
  const n = Object.keys(filters()).length;
  $("events").classList.toggle("filtered", n > 0);
  setText($("event-filtered"), n === 0 ? "Filter" : "Filter (" + n + ")");
}

function filtersChanged() {
  filtersCount();
  if (location.hash.startsWith("#/events")) { // the address leads back to this view
    const query = new URLSearchParams(filters()).toString();
    history.replaceState(history.state, "", "#/events" + (query ? "?" + query : ""));
  }
  eventsOpen();
}

function page(filter, more) {
  return get("/v1/events?" + new URLSearchParams({...filter, format: "json", ...more}));
}

// The last events, so that the list does not begin empty, and the id after which to continue. Filters may leave
// few of the last positions: then the search goes further back, in growing steps.
async function eventsBefore(filter) {
  const {newest, oldest} = await page({}, {count: 1});
  const end = newest ? Number(newest.split(".")[0]) : 0;
  const begin = oldest ? Number(oldest.split(".")[0]) : 0;
  for (let back = EVENTS_BEFORE; ; back *= 16) {
    const from = Math.max(end - back, begin - 1, 0);
    const found = await pagesAfter(filter, from + ".0");
    if (found.events.length >= EVENTS_BEFORE || from <= begin || back > 1e9) {
      return {events: found.events.slice(-EVENTS_BEFORE), next: found.next};
    }
  }
}

async function pagesAfter(filter, after) {
  const events = [];
  for (let i = 0; ; i++) {
    const reply = await page(filter, {after, count: 1000});
    events.push(...reply.events);
    after = reply.next;
    if (!reply.more || i === PAGES) {
      return {events, next: after};
    }
  }
}

// ---- Opening ----

let turn = 0; // a later call overtakes an earlier one

// A hidden page keeps no connection: a browser has six for all pages of one server.
export function eventsStop() {
  turn++;
  if (stream) {
    stream.abort();
    stream = null;
  }
  eventsDraw();
}

function pauseSet(now) {
  paused = now;
  $("event-pause").setAttribute("aria-pressed", String(paused));
  setText($("event-pause"), paused ? "Resume" : "Pause");
}

export async function eventsOpen() {
  coming = [];
  eventsStop();
  last = null;
  pauseSet(false); // another view of the past: what it shows is looked up once
  await eventsGoOn();
}

// The page is hidden or visible again: events of a short time in between are shown, too.
export async function eventsShow() {
  eventsStop();
  const since = hiddenAt === null ? Date.now() : hiddenAt;
  hiddenAt = document.hidden ? since : null;
  const left = !document.hidden && !paused && Date.now() - since > HIDDEN_MS;
  if (left) {
    last = null;
  }
  await eventsGoOn(left && "This page was hidden since " + moment(since) + ": for older events jump to their time.");
}

// `note`: the end of the list when it begins with the newest again.
async function eventsGoOn(note) {
  if (paused || document.hidden) {
    return;
  }
  const filter = filters();
  const mine = turn;
  try {
    if (last === null) {
      const {events, next} = await eventsBefore(filter);
      if (mine !== turn) {
        return;
      }
      $("events").replaceChildren();
      shown = [];
      if (note) {
        eventAdd(element("li", "dim", note));
      }
      events.forEach((event) => eventAdd(eventLine(event.kind, event), event));
      last = next;
    }
    await eventsListen(filter, mine);
  } catch (error) {
    last = error.status === 400 ? null : last; // after a restore: the server does not know it
    if (mine === turn && error.name !== "AbortError") {
      setText($("event-note"), error.status === undefined ? "disconnected, retrying" : error.message);
    }
  }
  if (mine === turn && !paused && !$("login").open) {
    setTimeout(() => mine === turn && eventsGoOn(), RETRY_MS);
  }
}

async function eventsListen(filter, mine) {
  const query = new URLSearchParams({...filter, after: last});
  stream = new AbortController();
  await listen("/v1/events?" + query, stream, () => setText($("event-note"), "live"), (fields) => {
    if (mine === turn) {
      eventCame(fields);
    }
  });
}

// ---- What the buttons do ----

// After a pause, the events of the time in between are shown: none is skipped.
export function eventsPause() {
  pauseSet(!paused);
  setText($("event-note"), paused ? "paused" : "");
  eventsStop();
  eventsGoOn();
}

// The first position whose event is not earlier, by binary search: positions grow with time.
async function positionAt(ms) {
  const {newest, oldest} = await page({}, {count: 1});
  let low = oldest ? Number(oldest.split(".")[0]) - 1 : 0;
  let high = newest ? Number(newest.split(".")[0]) : 0;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const {events} = await page({}, {after: middle + ".4294967295", count: 1});
    if (events.length === 0 || Number(events[0].time) >= ms) {
      high = middle;
    } else {
      low = Number(events[0].id.split(".")[0]);
    }
  }
  return low;
}

export async function eventsJump() {
  const ms = new Date($("event-time").value).getTime();
  if (isNaN(ms)) {
    return;
  }
  if (!paused) {
    eventsPause();
  }
  const mine = turn;
  const after = await positionAt(ms);
  const reply = await page(filters(), {after: after + ".4294967295", count: EVENTS_KEPT});
  if (mine === turn) {
    $("events").replaceChildren();
    shown = [];
    reply.events.forEach((event) => eventAdd(eventLine(event.kind, event), event));
    last = reply.next;
    setText($("event-note"), reply.events.length === 0 ? "nothing happened since" : "from " + moment(ms) + ", paused");
  }
}

export function eventsExport() {
  save("events.jsonl", [...shown].reverse().map((event) => JSON.stringify(event) + "\n").join(""), "application/jsonl");
}

export function eventsStart() {
  for (const kind of ["lease.", "pool.", "sensor.", ...KINDS]) {
    const option = element("option", "", kind.endsWith(".") ? kind + "*" : kind);
    option.value = kind;
    $("event-kind").append(option);
  }
  for (const id of ["event-pool", "event-holder", "event-kind", "event-actor", "event-text"]) {
    $(id).addEventListener("change", filtersChanged);
  }
  $("event-pause").addEventListener("click", eventsPause);
  $("event-time").addEventListener("change", () => eventsJump().catch(() => {}));
  $("event-export").addEventListener("click", eventsExport);
}

// ---- A life: all retained events about one lease, value or holder, newest first ----
//
// The server reads events forward only, so a life is searched backward in windows of log positions, each larger than
// the one before. One search requests a bounded number of pages; the next refresh continues, until LIFE_LINES are
// found or the oldest retained event is reached. New events are added on top.

const lives = new Map(); // the list -> {key, next, low, step, oldest, found, looking}

// `birth`: no event about it is before this log position. `wanted`: judges what the filter cannot. One search runs at a time.
export function showLife(id, filter, still, birth, wanted = () => true) {
  const key = JSON.stringify(filter);
  const known = lives.get(id);
  if (known && known.key === key && known.looking) {
    return;
  }
  const life = known && known.key === key ? known : {key, next: null, step: LIFE_STEP, found: 0, most: LIFE_LINES, wanted};
  life.looking = true;
  lives.set(id, life);
  lifeLook(id, life, filter, () => still() && lives.get(id) === life, birth || 0).catch(() => {}).finally(() => {
    life.looking = false;
  });
}

// Events of the window above `low`, up to and including the position `high`; `end`: the last id searched.
async function windowOf(filter, low, high, budget, wanted) {
  const events = [];
  let after = low + ".4294967295";
  while (budget.pages-- > 0) {
    const reply = await page(filter, {after, count: 1000});
    events.push(...reply.events.filter((event) => Number(event.id.split(".")[0]) <= high && wanted(event)));
    after = reply.next;
    if (!reply.more || Number(after.split(".")[0]) > high) {
      return {events, whole: true};
    }
  }
  return {events, whole: false};
}

async function lifeLook(id, life, filter, still, birth) {
  const list = $(id);
  const budget = {pages: LIFE_PAGES};
  if (life.next === null) {
    list.replaceChildren(element("li", "dim life-note", "Looking …"));
    const {newest, oldest} = await page({}, {count: 1});
    life.low = newest ? Number(newest.split(".")[0]) : 0;
    life.next = life.low + ".4294967295";
    life.oldest = Math.max(oldest ? Number(oldest.split(".")[0]) - 1 : 0, birth - 1, 0);
  } else {
    const {events, next} = await pagesAfter(filter, life.next);
    if (still()) {
      life.next = next;
      events.filter(life.wanted).forEach((event) => list.prepend(eventLine(event.kind, event)));
    }
  }
  while (still() && life.low > life.oldest && life.found < life.most && budget.pages > 0) {
    const low = Math.max(life.low - life.step, life.oldest);
    const {events, whole} = await windowOf(filter, low, life.low, budget, life.wanted);
    if (!whole) {
      life.step = Math.max(Math.floor(life.step / 4), 500); // too many events for one search
      break;
    }
    if (still()) {
      events.reverse().forEach((event) => list.append(eventLine(event.kind, event)));
      life.found += events.length;
      life.low = low;
      life.step *= 2;
    }
  }
  if (still()) {
    lifeNote(list, life);
  }
}

function lifeNote(list, life) {
  const full = life.found >= life.most;
  const more = life.low > life.oldest && !full;
  for (const note of list.querySelectorAll(".life-note")) {
    note.remove();
  }
  while (list.children.length > life.most + LIFE_LINES || (list.lastChild && list.lastChild.position === life.low)) {
    life.low = list.lastChild.position; // the page was open for long: older ones are looked for again
    list.lastChild.remove();
    life.found = list.children.length;
  }
  if (full && life.low > life.oldest) {
    const button = list.appendChild(element("li", "life-note")).appendChild(element("button", "", "Older events"));
    button.addEventListener("click", () => {
      life.most = life.found + LIFE_LINES;
      button.textContent = "Looking further back …";
    });
  } else if (more || list.children.length === 0) {
    list.append(element("li", "dim life-note", more ? "Looking further back …" : "No retained event is about it."));
  }
}

export function lifeForget() {
  lives.clear();
  for (const list of document.querySelectorAll(".life")) {
    list.replaceChildren();
  }
}
