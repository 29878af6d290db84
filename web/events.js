// Events as they happen, after the last ones that did.
import {get} from "./api.js";
import {$, element, link, moment, setText, valuesText} from "./show.js";

const EVENTS_KEPT = 200;
const EVENTS_BEFORE = 50; // shown at the beginning
const EVENT_VALUES = 3; // shown of one that is about many
const KINDS = ["lease.reserved", "lease.active", "lease.returned", "lease.offline", "lease.rekeyed",
  "lease.revoking", "lease.released", "lease.expired", "lease.revoked", "value.cooled",
  "pool.created", "pool.altered", "pool.dropped", "pool.added", "pool.removed",
  "holder.disowned", "rule.set", "rule.deleted", "sensor.set", "sensor.deleted",
  "demand.changed", "sensor.emitted", "sensor.started", "sensor.stopped", "sensor.crashed",
  "sensor.error", "sensor.start_failed", "lease.waiting", "user.added", "user.changed",
  "user.deleted"];
const ENDS = new Set(["lease.offline", "lease.revoking", "lease.expired", "lease.revoked",
  "sensor.crashed", "sensor.error", "sensor.start_failed"]);

let source = null;
let paused = false;

function eventLine(kind, event) {
  const line = element("li");
  const time = element("time", "", moment(event.time));
  time.dateTime = new Date(Number(event.time)).toISOString();
  line.append(time, " ", element("span", "kind" + (ENDS.has(kind) ? " end" : ""), kind), " ");
  if (event.lease) {
    line.append(link(event.lease, "lease", event.lease), " ");
  }
  const {values = [], pools = []} = event;
  const words = [valuesText(values, pools, EVENT_VALUES, values.length),
    values.length === 0 && (event.pool || event.name), event.holder,
    event.reason !== "requested" && event.reason,
    event.actor && "by " + event.actor, event.reason_text];
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
  eventAdd(eventLine(message.type, JSON.parse(message.data)));
}

// The last ones, so that the list does not begin empty, and the id to go on after.
async function eventsBefore(filter) {
  const page = (more) => get("/v1/events?" + new URLSearchParams({...filter, format: "json", ...more}));
  const {newest} = await page({count: 1});
  const lsn = newest ? Number(newest.split(".")[0]) : 0;
  return page({after: Math.max(lsn - EVENTS_BEFORE, 0) + ".0", count: EVENTS_BEFORE});
}

let turn = 0; // a later call overtakes an earlier one

// A page that nobody sees keeps no connection: a browser has six for all pages of one server.
export function eventsStop() {
  turn++;
  if (source) {
    source.close();
    source = null;
  }
}

export async function eventsOpen() {
  const pool = $("event-pool").value.trim();
  const filter = pool ? {pool} : {};
  eventsStop();
  if (paused || document.hidden) {
    return;
  }
  const mine = turn;
  try {
    const {events, next} = await eventsBefore(filter);
    if (mine === turn) {
      $("events").replaceChildren();
      events.forEach((event) => eventAdd(eventLine(event.kind, event)));
      eventsListen({...filter, after: next});
    }
  } catch (error) {
    if (mine === turn) {
      setText($("event-note"), error.status === undefined ? "disconnected, retrying" : error.message);
      setTimeout(() => mine === turn && eventsOpen(), 3000);
    }
  }
}

function eventsListen(filter) {
  const mine = new EventSource("/v1/events?" + new URLSearchParams(filter));
  source = mine;
  for (const kind of KINDS) {
    mine.addEventListener(kind, eventSeen);
  }
  mine.addEventListener("lost", () =>
    eventAdd(element("li", "dim", "Some events were missed: they are no longer kept.")));
  mine.addEventListener("open", () => setText($("event-note"), "live"));
  mine.addEventListener("error", () => {
    setText($("event-note"), "disconnected, retrying");
    if (mine.readyState === EventSource.CLOSED) {
      setTimeout(() => mine === source && eventsOpen(), 3000); // refused, as by one just starting
    }
  });
}

export function eventsPause() {
  paused = !paused;
  $("event-pause").setAttribute("aria-pressed", String(paused));
  setText($("event-pause"), paused ? "Go on" : "Pause");
  setText($("event-note"), paused ? "paused" : "");
  eventsOpen();
}
