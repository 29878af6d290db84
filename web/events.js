// Events as they happen, after the last ones that did.
import {get} from "./api.js";
import {$, count, element, link, moment, setText, valuesText} from "./show.js";

const EVENTS_KEPT = 200;
const EVENTS_BEFORE = 50; // shown at the beginning
const EVENT_VALUES = 3; // shown of one that is about many
const KINDS = ["lease.reserved", "lease.active", "lease.returned", "lease.offline", "lease.rekeyed",
  "lease.revoking", "lease.released", "lease.expired", "lease.revoked", "value.cooled",
  "pool.created", "pool.altered", "pool.dropped", "pool.added", "pool.removed",
  "holder.disowned", "rule.set", "rule.deleted", "sensor.set", "sensor.deleted",
  "demand.changed"];
const ENDS = new Set(["lease.offline", "lease.revoking", "lease.expired", "lease.revoked"]);

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
  const {values = [], pools = []} = event;
  const words = [valuesText(values, pools, EVENT_VALUES, values.length),
    values.length === 0 && (event.pool || event.name), event.holder,
    event.reason !== "requested" && event.reason];
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

// The last ones, so that the list does not begin empty; returns the id to go on after.
async function eventsBefore(filter) {
  const page = (more) => get("/v1/events?" + new URLSearchParams({...filter, format: "json", ...more}));
  const {newest} = await page({count: 1});
  const lsn = newest ? Number(newest.split(".")[0]) : 0;
  const {events, next} = await page({after: Math.max(lsn - EVENTS_BEFORE, 0) + ".0", count: EVENTS_BEFORE});
  for (const event of events) {
    eventAdd(eventLine(event.kind, event));
  }
  return next;
}

let opening = 0;

export async function eventsOpen() {
  const mine = ++opening; // a later call overtakes an earlier one
  const pool = $("event-pool").value.trim();
  const filter = pool ? {pool} : {};
  if (source) {
    source.close();
    source = null;
  }
  $("events").replaceChildren();
  try {
    filter.after = await eventsBefore(filter);
  } catch (error) {
    setText($("event-note"), error.status === undefined ? "disconnected, retrying" : error.message);
    setTimeout(() => mine === opening && eventsOpen(), 3000);
    return;
  }
  if (mine === opening) {
    eventsListen(filter);
  }
}

function eventsListen(filter) {
  source = new EventSource("/v1/events?" + new URLSearchParams(filter));
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

export function eventsPause() {
  paused = !paused;
  $("event-pause").setAttribute("aria-pressed", String(paused));
  setText($("event-pause"), paused ? "Go on" : "Pause");
  if (!paused && missed > 0) {
    eventAdd(element("li", "dim", count(missed) + " events while paused"));
  }
  missed = 0;
  setText($("event-note"), paused ? "paused" : "live");
}
