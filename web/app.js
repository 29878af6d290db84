// The page: where it is, what it shows, and that this is fresh. It reads and never writes.
import {eventsOpen, eventsPause, eventsStop} from "./events.js";
import {showHealth} from "./health.js";
import {find, findMore, firstPage, nextPage, showLease, showPoolLeases} from "./leases.js";
import {poolFilter, showMorePools, showPool, showPools} from "./pools.js";
import {showSensors} from "./sensors.js";
import {$, setText} from "./show.js";

const POLL_MS = 2000;

// ---- Where we are: #/, #/pool/NAME, #/lease/ID, #/find/WORDS, #/sensors, #/events ----

let view = "pools";
let of = ""; // the pool or the lease that it shows

function route() {
  let parts;
  try {
    parts = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch (error) {
    parts = [""]; // not something that this page wrote
  }
  const [name, subject] = parts;
  view = ["pool", "lease", "find"].includes(name) && subject || ["sensors", "events"].includes(name)
    ? name : "pools";
  of = subject;
  firstPage();
  for (const each of ["pools", "pool", "lease", "find", "sensors"]) {
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
  setText($("t-pool"), view === "pool" ? of : "");
  setText($("t-lease"), view === "lease" ? "Lease " + of : "");
  const titles = {events: "Events", sensors: "Sensors"};
  document.title = (of || titles[view] || "Pools") + " – Tenure";
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
    const notes = {pool: "leases-note", sensors: "sensors-note"};
    setText($(notes[view] || "find-note"), error.message);
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
  const before = location.hash;
  const still = () => location.hash === before;
  if (view === "pools") {
    jobs.push(showPools());
  } else if (view === "pool") {
    jobs.push(showPool(of, still), showPoolLeases(of, still));
  } else if (view === "lease") {
    jobs.push(showLease(of, still));
  } else if (view === "sensors") {
    jobs.push(showSensors());
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
    showMorePools();
    refresh();
  });
  $("lease-state").addEventListener("change", () => {
    firstPage();
    refresh();
  });
  $("leases-first").addEventListener("click", () => {
    firstPage();
    refresh();
  });
  $("leases-next").addEventListener("click", () => {
    nextPage();
    refresh();
  });
  $("find-next").addEventListener("click", () => findMore().catch(failed));
  $("event-pause").addEventListener("click", eventsPause);
  $("event-pool").addEventListener("change", eventsOpen);
  addEventListener("hashchange", route);
  addEventListener("pagehide", eventsStop);
  document.addEventListener("visibilitychange", () => {
    eventsOpen();
    if (!document.hidden) {
      refresh();
    }
  });
  setInterval(() => document.hidden || refresh(), POLL_MS);
  eventsOpen();
  route();
}

start();
