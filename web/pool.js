// One pool: its figures, history, map, line of waiters and policy.
import {button, buttons} from "./act.js";
import {addMembers, alterPool, dropPool, removeMembers} from "./actions.js";
import {get, pathOf, tryGet} from "./api.js";
import {chartShow} from "./chart.js";
import {barMake, barShow, poolKnown, trouble} from "./pools.js";
import {$, count, duration, element, factsShow, legendOf, link, momentOf, plain, rate, save, setNodes, setText, when} from "./show.js";

const HISTORY_MS = 30000; // between two reads of the history
const MAP_SPANS = 400;
const WAITERS = 50;

const poolBar = barMake();
$("pool-bar").append(poolBar);
legendOf($("map-legend"), "free");

let historyOf = ""; // the pool and step that the charts show
let historyAt = 0;

function numbers(list) {
  return list.map(Number);
}

function chartsShow(history, pool) {
  const times = numbers(history.time);
  const series = (...names) => names.map(([name, style, key]) => ({name, style, values: numbers(history[key || name])}));
  chartShow($("chart-used"), {
    title: "Values by state", times, stacked: true, limit: Math.min(Number(pool.size), 1e15),
    series: series(["active", "active"], ["reserved", "reserved"], ["offline", "offline"],
      ["revoking", "revoking"], ["cooling", "cooling"]),
  });
  chartShow($("chart-flow"), {
    title: "Given, ended and refused " + (history.step === "hour" ? "an hour" : "a minute") + ", and waiting", times,
    series: series(["given", "active"], ["ended", "offline"], ["refused", "revoking"], ["waiting", "cooling"]),
  });
  const adaptive = pool.options.sticky === "yes";
  $("chart-lease").hidden = $("chart-rate").hidden = !adaptive;
  if (adaptive) {
    chartShow($("chart-lease"), {
      title: "Lease of a newcomer", times, unit: duration, limit: Number(pool.options.lease),
      series: series(["lease", "reserved"]), marks: history.force_zero.map((flag) => Number(flag) === 1),
      markName: "force-zero",
    });
    chartShow($("chart-rate"), {
      title: "Newcomers an hour", times, unit: (n) => count(Math.round(n)),
      series: [...series(["rate", "active", "rate_per_hour"]),
        ...[["high", "reserved"], ["ultra", "revoking"]].map(([name, style]) => [name, style,
          Number(pool.options[name + "_rate_threshold_per_hour"])]).filter(([, , limit]) => limit > 0)
          .map(([name, style, limit]) => ({name: name + " threshold", style: style + " limit", values: times.map(() => limit)}))],
      marks: history.ultra.map((flag) => Number(flag) === 1), markName: "ultra rate",
    });
  }
}

async function showHistory(pool, still) {
  const step = $("history-step").value;
  const key = pool.pool + " " + step;
  if (historyOf === key && Date.now() - historyAt < HISTORY_MS) {
    return;
  }
  historyOf = key;
  historyAt = Date.now();
  const history = await tryGet(pathOf("pools", pool.pool, "history") + "?step=" + step);
  if (history && still()) {
    setText($("history-note"), history.kept ? "" : "The server keeps that of 1\u202f024 pools, from their first minute on.");
    chartsShow(history, pool);
  }
}

export async function historySave(name) {
  const step = $("history-step").value;
  const history = await get(pathOf("pools", name, "history") + "?step=" + step);
  save(name + "-" + step + ".json", JSON.stringify(history) + "\n", "application/json");
}

// ---- The map: spans of values with their states ----

let mapPages = ["0"]; // cursors of the pages up to the one that is shown
let mapNext = "0";

export function mapTurn(step) {
  if (step > 0) {
    mapPages.push(mapNext);
  } else {
    mapPages.pop();
  }
}

async function showMap(pool, still) {
  const page = await tryGet(pathOf("pools", pool.pool, "values") + "?count=" + MAP_SPANS + "&cursor=" + mapPages[mapPages.length - 1]);
  if (!still()) {
    return;
  }
  const box = $("pool-map");
  $("map-box").hidden = page === null || (page.values.length === 0 && mapPages.length === 1);
  if (page === null) {
    return;
  }
  mapNext = String(page.cursor);
  $("map-before").hidden = mapPages.length === 1;
  $("map-next").hidden = mapNext === "0";
  const key = page.values.map((span) => span.value + span.state + span.count + span.holder).join();
  if (box.dataset.key === pool.pool + key) {
    return;
  }
  box.dataset.key = pool.pool + key;
  box.replaceChildren(...page.values.map((span) => cellMake(pool.pool, span)));
  const [first, last] = [page.values[0], page.values[page.values.length - 1]];
  setText($("map-note"), !first ? "" : (mapPages.length > 1 || mapNext !== "0" ? "from " + first.value + " to " + (last.last || last.value) + "; "
    : "") + "a long cell is many values in one state; point at one, or open its first value");
}

function cellMake(pool, span) {
  const many = Number(span.count) > 1;
  const words = plain(span.value + (many ? "–" + span.last + " (" + count(span.count) + ")" : "") + ": "
    + (span.state === "available" ? "free" : span.state) + (span.holder ? ", " + span.holder : ""));
  const cell = link("", "value", pool, span.value);
  cell.className = "cell s-" + span.state;
  cell.title = words;
  cell.setAttribute("aria-label", words);
  if (many) {
    cell.style.flexBasis = 12 * (1 + Math.ceil(Math.log2(Number(span.count)))) + "px";
  }
  return cell;
}

// ---- The line of waiters ----

async function showLine(pool, still) {
  const waiting = Number(pool.waiting) > 0
    ? await tryGet("/v1/leases?" + new URLSearchParams({pool: pool.pool, state: "waiting", count: WAITERS})) : null;
  if (!still()) {
    return;
  }
  const leases = waiting === null ? [] : waiting.leases;
  const left = Number(pool.waiting) - leases.length;
  $("line-box").hidden = leases.length === 0;
  setText($("line-note"), left > 0 ? "the first " + count(leases.length) + " of " + count(pool.waiting) : count(leases.length));
  const list = $("line");
  while (list.children.length > leases.length) {
    list.lastChild.remove();
  }
  leases.forEach((lease, i) => setNodes(list.children[i] || list.appendChild(element("li")),
    link(lease.holder, "holder", lease.holder), " has waited since ", momentOf(lease.created), " with ", link(lease.lease, "lease", lease.lease),
    ...(lease.deadline === null ? [] : [" and gives up at ", momentOf(lease.deadline)])));
}

export async function showPool(name, still) {
  let pool;
  try {
    pool = await get(pathOf("pools", name));
  } catch (error) {
    if (error.status !== undefined && still()) { // there is none, or it is not for this user
      $("pool-body").hidden = true;
      buttons($("pool-act"), []);
      setText($("pool-why"), error.message);
    }
    throw error;
  }
  if (!still()) {
    return;
  }
  $("pool-body").hidden = false;
  const known = poolKnown(pool);
  const rates = known.rates;
  const worry = trouble(known, pool);
  const at = name.indexOf("@");
  $("pool-links").hidden = false;
  setNodes($("pool-links"), element("a", "", "Events of this pool"), ...(at > 0 ? [" · scope of ", link(name.slice(0, at), "pool", name.slice(0, at))] : []));
  $("pool-links").firstChild.href = "#/events?" + new URLSearchParams({pool: name});
  poolBar.hidden = false;
  barShow(poolBar, pool);
  setText($("pool-why"), worry.why);
  $("pool-why").className = worry.level === "bad" ? "soon" : worry.level === "warn" ? "warned" : "dim";
  factsShow($("pool-facts"), [
    ["Free", count(pool.free)],
    ["Full in", worry.text],
    ["Given", rates.short > 0 ? rate(rates.given / rates.short) : "–"],
    ["Ended", rates.short > 0 ? rate(rates.ended / rates.short) : "–"],
    ["Waiting", count(pool.waiting)],
    ["Excluded", count(pool.excluded)],
    ["Next free by itself", when(pool.next_free)],
    ...(pool.overdue_since ? [["Counts are older than", when(pool.overdue_since)]] : []),
    ["Lease of a newcomer", Number(pool.effective_lease) > 0 ? duration(Number(pool.effective_lease))
      : pool.options.sticky === "yes" && Number(pool.options.lease) > 0 ? "0 s (force-zero)" : "no end"],
    ["Given in all", count(pool.allocated_total)],
    ...(pool.options.sticky === "yes" ? [["Returned to sticky holders", count(pool.returned_total)]] : []),
    ["Released", count(pool.released_total)],
    ["Expired", count(pool.expired_total)],
    ["Revoked", count(pool.revoked_total)],
    ...(pool.options.scoped === "yes" ? [["Scopes", count(pool.scopes)]] : []),
  ]);
  factsShow($("pool-options"), Object.entries(pool.options).map(([k, v]) => [k, v === "" ? "–" : v]));
  const set = pool.options.kind === "set";
  buttons($("pool-act"), [
    button("Change …", "operator", () => alterPool(pool)),
    set && button("Add members …", "operator", () => addMembers(pool)),
    set && button("Remove members …", "operator", () => removeMembers(pool)),
    button("Drop …", "operator", () => dropPool(pool)),
  ]);
  await Promise.all([showHistory(pool, still), showMap(pool, still), showLine(pool, still)]);
}

// Another pool is shown: removes everything of the previous one.
export function poolForget() {
  mapPages = ["0"];
  $("pool-body").hidden = $("pool-links").hidden = true;
  historyForget();
  $("line").replaceChildren();
  $("pool-map").dataset.key = "";
  $("pool-map").replaceChildren();
  $("map-box").hidden = $("line-box").hidden = true;
  poolBar.hidden = true;
}

export function historyForget() {
  historyOf = "";
  for (const box of ["chart-used", "chart-flow", "chart-lease", "chart-rate"]) {
    $(box).replaceChildren();
  }
}
